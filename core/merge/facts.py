"""The facts of a batch: all that the core needs to decide, found in one pass over the rows."""

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
    """What a table format can do beyond merging ordered, complete rows."""

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
"""Capabilities that are needed where a row depends on more than its newest event."""


READ_REASONS: Final = frozenset(
    {Reason.CAST, Reason.OPERATION, Reason.SEQUENCE, Reason.UNREADABLE, Reason.NULL_KEY}
)
"""Reasons of rows that cannot be read. Wrong settings refuse every row of a file for one of them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The one reason for which no row of an object can be read, the number of its rows, and the first of them."""

    reason: Reason
    rows: int
    row: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """The facts of one object of a batch.

    `unreadable` is the number of rows without a readable key. `ahead` is its greatest source time that is too far
    in the future to be believed, `backwards` the first row whose sequence runs backwards by more than the lateness.
    `is_load` says that it belongs to a declared full load, even if it is empty. `spans` are its changes by the log
    that they come from, where positions are places in the source's log; `steps` are its rows that step back in the
    log (None: none). `refusal` is set where every row is refused for one reason. `earliest` and `latest` are the
    least and the greatest believed source time of its rows, in microseconds since 1970.
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
        """Its spans and steps in the source's log."""
        return ObjectSpans(self.object.name, self.object.order, self.spans, self.steps or LogSteps())


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """The facts of a batch that the core needs to decide, found in one pass.

    `key_range` holds the least and the greatest value of each key column of numbers, dates (as days since 1970) or
    times (as microseconds since 1970), and None for others or where there are none. `needs` are the capabilities
    that its events need, `may_need` those that events of its source may need, in this batch or another. `time` is
    its greatest source time up to `believed` (None: all times are believed). `least` and `greatest` bound the rows
    whose position is known. With `own_times` each row of its full load has a time from a column, which does not say
    when the load was made. `truncates` are the positions of its truncates.

    `warnings` has the number of rows that break a quality rule that only warns, by the name of the rule; `cautions`
    has the number of rows that deserve attention, by the text that says why. `recomputed` says how rules compute
    columns from the stored row. `others` are the messages among the `skipped` rows that name other tables,
    `databases` the number of rows by the database that they name. `key_halves` is the number of deletes and inserts
    that are halves of key changes, as the source says. `header` has the columns in the order of the last header of
    a file, in this batch or an earlier one: it is empty where that is the declared order or no file had a header,
    and None for a batch without such files.
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
        """The greatest source time that is not believed, with its object, or None."""
        times_ahead = (Ahead(item.ahead, item.object.name) for item in self.objects if item.ahead is not None)
        return max(times_ahead, default=None)

    @property
    def has_loads(self) -> bool:
        """Whether the batch has rows of a full load. A row of unknown position does not count."""
        has_place = bool(self.operations) or not UNPLACED.issuperset(self.rejects)
        return has_place and self.least is not None and self.least.sequence == LOAD_SEQUENCE

    @property
    def is_of_loads(self) -> bool:
        """Whether all its events are rows of full loads."""
        operations = {operation for operation, rows in self.operations.items() if rows}
        bounds = (self.least, self.greatest)
        return operations == {Operation.READ} and all(b is not None and b.sequence == LOAD_SEQUENCE for b in bounds)

    @property
    def read(self) -> int:
        """The number of rows of the batch, of any kind."""
        return sum(self.operations.values()) + sum(self.rejects.values()) + self.skipped

    @property
    def inexact_since(self) -> str | None:
        """The name of the first object with a row whose key cannot be read, or None."""
        return next((item.object.name for item in self.objects if item.unreadable), None)

    def with_parts(self) -> BatchFacts:
        """Return the facts of a batch whose updates are folded as parts: an older event may complete them."""
        added = frozenset({Capability.UNSET})
        return replace(self, needs=self.needs | added, may_need=self.may_need | added)
