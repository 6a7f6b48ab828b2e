"""What is kept of an entity: its key, its columns, and in which manner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from lakeward.core.events import Sequences
from lakeward.core.history.options import History
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import FOLLOWING, Policies


class TableName(NamedTuple):
    """A table of the source: its schema and its name, as the source spells them.

    >>> str(TableName("sales", "odd.name"))
    'sales."odd.name"'
    """

    schema: str
    table: str

    def __str__(self) -> str:
        parts = ['"' + part.replace('"', '""') + '"' if set('."') & set(part) else part for part in self]
        return ".".join(parts)


class Mode(Enum):
    """In which manner rows are kept."""

    MIRROR = "mirror"
    HISTORY = "history"


class Deletes(Enum):
    """What a delete leaves behind: nothing, or the last values with `_lakeward_deleted = true`."""

    HARD = "hard"
    SOFT = "soft"


DELETED: Final = "_lakeward_deleted"
"""The column of a table whose deletes are soft that says of a row whether it went.

No table of Iceberg may have a column `_deleted`: iceberg.apache.org/spec/#reserved-field-ids (docs/decisions/0010).
"""


class Ties(Enum):
    """What becomes of two facts of one key that the source puts at one place, and that do not say the same.

    The one that arrives later wins; it goes into quarantine and holds the key; or the table stops.
    """

    ARRIVAL = "arrival"
    QUARANTINE = "quarantine"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Ordered:
    """First deliveries of a key come in order.

    `redelivery` is the longest stretch that the source may deliver again, counted in
    objects; deletes are remembered for that long.
    """

    redelivery: int = 1000


@dataclass(frozen=True, slots=True)
class Within:
    """Events come late by `micros` of source time at most; one exactly that old is in time."""

    micros: int


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Events may come late by any time: everything is remembered."""


class Match(Enum):
    """What an update or a delete finds its row by: its key, or the image of the row before the change."""

    KEY = "key"
    IMAGE = "image"


Lateness: TypeAlias = Ordered | Within | Unbounded

ORDERED: Final = Ordered()


class Unreadable(Enum):
    """What a row whose key cannot be read does to its table: it is inexact from then on, or it stops."""

    INEXACT = "inexact"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much of a batch may go into quarantine; above either limit the table stops instead.

    The share is not counted in batches of fewer than `SHARE_FROM` rows: of ten rows, one is a tenth.
    """

    max_share: float = 0.05
    max_rows: int = 10_000
    unreadable: Unreadable = Unreadable.INEXACT


SHARE_FROM: Final = 100
"""In smaller batches the share of quarantined rows says nothing."""


class Older(Enum):
    """What becomes of a snapshot that is older than what a table shows: it stops the table where nobody says more.

    It is spliced into the history at its place, or skipped.
    """

    SPLICE = "splice"
    SKIP = "skip"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """Each complete full load takes the place of all rows.

    It is complete where nothing of it changed for `settles` microseconds; one of less than
    `least_share` of the rows, in a history of the current versions, stops the table. `older` says
    what becomes of one that comes behind newer ones.
    """

    settles: int = 3_600_000_000
    least_share: float = 0.5
    older: Older = Older.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """An entity of the source and how the lake keeps it.

    Without a `key` the table is append-only, unless rows `match` by their images. `sequences` says what the order
    of its events is made of. With `keeps_text` a source gives the text of every row, not of rejects alone: rows may
    be refused after they are read. With `has_column_rules` column rules make its columns. What the
    source's catalogue says: `orders` are the columns of files that do not name them, in order, those of now first;
    the types of `announced` are said by it alone, so that a file which has types is believed before it. With
    `snapshots` its full loads come again and again. With a `history` every version of a row is kept, not the last
    alone. `reads` is what its source calls it, where that is another name; so many `readers`, itself included, are
    made of that.
    """

    name: TableName
    schema: Schema
    key: tuple[str, ...] = ()
    match: Match = Match.KEY
    deletes: Deletes = Deletes.HARD
    lateness: Lateness = ORDERED
    ties: Ties = Ties.ARRIVAL
    sequences: Sequences = Sequences.TIMES
    policies: Policies = FOLLOWING
    tolerance: Tolerance = Tolerance()
    keeps_text: bool = False
    has_column_rules: bool = False
    orders: tuple[tuple[str, ...], ...] = ()
    announced: frozenset[str] = frozenset()
    snapshots: Snapshots | None = None
    history: History | None = None
    reads: TableName | None = None
    readers: int = 1

    @property
    def source(self) -> TableName:
        """What its source calls it."""
        return self.name if self.reads is None else self.reads

    @property
    def told_before(self) -> tuple[str, ...]:
        """The columns of which it matters what they were before a change."""
        return self.schema.names if self.match is Match.IMAGE else self.key

    @property
    def mode(self) -> Mode:
        """In which manner its rows are kept."""
        return Mode.MIRROR if self.history is None else Mode.HISTORY

    @property
    def is_soft(self) -> bool:
        """Whether a row that is deleted stays, and says so."""
        return self.deletes is Deletes.SOFT

    @property
    def keeps_ended(self) -> bool:
        """Whether the table still has what ended: versions in a history, and rows where deletes are soft."""
        return self.history is not None or self.is_soft

    @property
    def stored(self) -> Dimension:
        """The dimension as its table has it: of a history each version is a row, told from others by its start.

        Where it is known since when a row is believed, several may tell of one version, and that tells them apart.
        Where deletes are soft, a row of a mirror says whether it went.
        """
        if self.history is None:
            deleted = (Column(DELETED, Type("boolean")),) if self.is_soft else ()
            return replace(self, schema=Schema((*self.schema, *deleted)), deletes=Deletes.HARD)
        key = (*self.key, self.history.shown.valid_from, *self.history.knowing[:1])
        return replace(self, schema=self.history.schema(self.schema, self.key), key=key, history=None)

    @property
    def new_names(self) -> Mapping[str, str]:
        """What columns of its table are called now, by the old names; in a history what is made of them, too."""
        renames = self.policies.renames
        return renames if self.history is None else self.history.new_names(renames)

    @property
    def unique_sequences(self) -> bool:
        """Whether a copy of an event is known by its sequence."""
        return self.sequences is Sequences.UNIQUE
