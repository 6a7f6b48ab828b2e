"""What is found of a batch in one pass over it: all that the core needs to decide what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from lakeward.core.checks.log_restart import ObjectSpans
from lakeward.core.checks.log_steps import LogSpan, LogSteps
from lakeward.core.checks.source_clock import Ahead
from lakeward.core.events import LOAD_SEQUENCE, Cell, Operation, Position
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.merge.change_log import UNPLACED, Reason
from lakeward.core.schema import Schema
from lakeward.core.shaping.recomputed_columns import RecomputedColumns


class Capability(Enum):
    """What a table format can do beyond the merge of ordered, whole rows."""

    TRUNCATE = "truncate"
    UNSET = "unset"
    KEY_CHANGE = "key_change"
    RELOAD = "reload"
    ROLLBACK = "rollback"
    MAINTAIN = "maintain"
    HISTORY = "history"
    BITEMPORAL = "bitemporal"
    NUMBERS = "numbers"
    SOFT_DELETE = "soft_delete"
    IMAGES = "images"


PARTIAL: Final = frozenset({Capability.UNSET, Capability.KEY_CHANGE})
"""What makes the state of a row depend on more than its newest event."""


READ_REASONS: Final = frozenset(
    {Reason.CAST, Reason.OPERATION, Reason.SEQUENCE, Reason.UNREADABLE, Reason.NULL_KEY}
)
"""Reasons of rows that cannot be read: wrong settings refuse every row of a file for one of them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no row of an object can be read: the one reason, how many rows it has, and the first of them."""

    reason: Reason
    rows: int
    row: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What one object of a batch was found to hold; of `unreadable` rows not even the key is known.

    `ahead` is its greatest source time that lies too far in the future to be believed,
    `backwards` the first row whose sequence runs backwards by more than the lateness. `is_load`
    says that it is one of a declared full load, also where it holds nothing. `spans` are its changes by the
    log that they are of, where its places are those of a source's log; `steps` are its rows that step back in
    the log (None: there are none). `refusal` is there where every row is refused, for one reason. `earliest` and
    `latest` are the least and the greatest source time of its rows that is believed, in microseconds since 1970.
    """

    object: SourceObject
    rows: int
    least: Position | None = None
    greatest: Position | None = None
    unreadable: int = 0
    ahead: int | None = None
    is_load: bool = False
    backwards: int | None = None
    spans: tuple[LogSpan, ...] = ()
    steps: LogSteps | None = None
    refusal: Refusal | None = None
    earliest: int | None = None
    latest: int | None = None

    @property
    def in_log(self) -> ObjectSpans:
        """What it has of the source's log."""
        return ObjectSpans(self.object.name, self.object.order, self.spans, self.steps or LogSteps())


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """What the core needs to know of a batch to decide, found in one pass over it.

    `key_range` holds the least and the greatest value of each key column of numbers, dates (as days since
    1970) or times (as microseconds since 1970), and None for others or where there are none. `needs` are the
    capabilities that its events call for, `may_need` those that events of its source may
    call for, in this batch or another. `time` is its greatest source time, up to the latest
    that is `believed` (None: all are). `least` and `greatest` bound the rows whose place in the
    order is known, if there are any. With `own_times` each row of its full load has a time from a column, which
    does not tell when the load was made. `truncates` are the positions of its truncates.
    `warnings` are how many rows break a quality rule that only warns, by what the rule is called; `cautions` are
    how many of its rows a person should know something of, by what that is in words.
    `recomputed` says how rules make columns of the row that stands. `others` are the messages among the
    `skipped` rows that name other tables, `databases` how many rows of the table name each database. `key_halves`
    are the deletes and inserts that are halves of key changes, by what the source says of them. `header` has the
    columns as the last header of a file had them, in this batch or an earlier one: it is empty where that is as
    they are declared, or no file had a header, and None of a batch that has no such files.
    """

    schema: Schema
    objects: tuple[ObjectFacts, ...] = ()
    operations: Mapping[Operation, int] = field(default_factory=dict)
    rejects: Mapping[Reason, int] = field(default_factory=dict)
    skipped: int = 0
    least: Position | None = None
    greatest: Position | None = None
    time: int | None = None
    key_range: tuple[tuple[Cell, Cell] | None, ...] = ()
    needs: frozenset[Capability] = frozenset()
    may_need: frozenset[Capability] = frozenset()
    loaded: int | None = None
    believed: int | None = None
    own_times: bool = False
    truncates: tuple[Position, ...] = ()
    warnings: Mapping[str, int] = field(default_factory=dict)
    cautions: Mapping[str, int] = field(default_factory=dict)
    recomputed: RecomputedColumns = field(default_factory=RecomputedColumns)
    others: OtherTables | None = None
    databases: Mapping[str, int] = field(default_factory=dict)
    key_halves: int = 0
    header: tuple[str, ...] | None = None

    @property
    def ahead(self) -> Ahead | None:
        """The greatest source time that is not believed."""
        found = (Ahead(item.ahead, item.object.name) for item in self.objects if item.ahead is not None)
        return max(found, default=None)

    @property
    def has_loads(self) -> bool:
        """Whether it has rows of a full load; one whose place is not known may be of anything."""
        has_place = bool(self.operations) or not UNPLACED.issuperset(self.rejects)
        return has_place and self.least is not None and self.least.sequence == LOAD_SEQUENCE

    @property
    def is_of_loads(self) -> bool:
        """Whether its events are rows of full loads and nothing else."""
        operations = {operation for operation, rows in self.operations.items() if rows}
        bounds = (self.least, self.greatest)
        return operations == {Operation.READ} and all(b is not None and b.sequence == LOAD_SEQUENCE for b in bounds)

    @property
    def read(self) -> int:
        """How many rows the batch holds, of any kind."""
        return sum(self.operations.values()) + sum(self.rejects.values()) + self.skipped

    @property
    def inexact_since(self) -> str | None:
        """The first object with a row whose key cannot be read."""
        return next((found.object.name for found in self.objects if found.unreadable), None)

    def with_parts(self) -> BatchFacts:
        """Say that it has updates of a part of a row: an older one may come that has the rest."""
        has = frozenset({Capability.UNSET})
        return replace(self, needs=self.needs | has, may_need=self.may_need | has)
