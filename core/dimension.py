"""A dimension: the key and the columns of an entity, and how its table keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from lakeward.core.events import Sequences
from lakeward.core.history.options import History
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import DEFAULT_POLICIES, Policies


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
    """How rows are kept: the newest of each key, or every version."""

    MIRROR = "mirror"
    HISTORY = "history"


class Deletes(Enum):
    """What a delete leaves behind: nothing, or the last values with `_lakeward_deleted = true`."""

    HARD = "hard"
    SOFT = "soft"


DELETED: Final = "_lakeward_deleted"
"""The column of a table with soft deletes that says of a row whether it is deleted.

No table of Iceberg may have a column `_deleted`: iceberg.apache.org/spec/#reserved-field-ids (docs/decisions/0010).
"""


class Ties(Enum):
    """What happens on a tie: two facts of one key at one place in the source's order, with different contents.

    The one that arrives later wins; it is quarantined and holds the key; or the table stops.
    """

    ARRIVAL = "arrival"
    QUARANTINE = "quarantine"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Ordered:
    """First deliveries of a key come in order.

    `redelivery` is the longest stretch that the source may deliver again, counted in objects; deletes are
    remembered for that long.
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
    """How an update or a delete finds its row: by its key, or by the image of the row before the change."""

    KEY = "key"
    IMAGE = "image"


Lateness: TypeAlias = Ordered | Within | Unbounded

ORDERED: Final = Ordered()


class Unreadable(Enum):
    """What a row without a readable key does to its table: it marks the table as inexact, or stops it."""

    INEXACT = "inexact"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """The part of a batch that may be quarantined; above either limit the table stops instead.

    The share is not checked in batches of fewer than `SHARE_FROM` rows: of ten rows, one is a tenth.
    """

    max_share: float = 0.05
    max_rows: int = 10_000
    unreadable: Unreadable = Unreadable.INEXACT


SHARE_FROM: Final = 100
"""The least number of rows for which the share of quarantined rows is checked."""


class Older(Enum):
    """What happens to a snapshot that is older than those of the table. By default it stops the table.

    It can be spliced into the history at its place, or skipped.
    """

    SPLICE = "splice"
    SKIP = "skip"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """The source delivers full loads again and again, and each complete one replaces all rows.

    A load is complete when none of its files has changed for `settles` microseconds. One with less than
    `least_share` of the rows, in a history of the current versions, stops the table. `older` is the policy for one
    that arrives after newer ones.
    """

    settles: int = 3_600_000_000
    least_share: float = 0.5
    older: Older = Older.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """An entity of the source and how the lake keeps it.

    Without a `key` the table is append-only, unless rows `match` by their images. `sequences` is the kind of order
    of its events. With `keeps_text` a source supplies the text of every row, not only of rejects, because rows may
    be refused after they are read. `has_column_rules` says that column rules make its columns. `orders` are the
    column orders of files without headers that the source's catalogue knows, the present one first. The types of
    `announced` columns come from the catalogue alone, so types in a file take precedence. With `snapshots` its full
    loads come again and again. With a `history` every version of a row is kept. `source_name` is the name of its
    source table, where that differs; `readers` is the number of tables, itself included, that are made of that.
    """

    name: TableName
    schema: Schema
    key: tuple[str, ...] = ()
    match: Match = Match.KEY
    deletes: Deletes = Deletes.HARD
    lateness: Lateness = ORDERED
    ties: Ties = Ties.ARRIVAL
    sequences: Sequences = Sequences.TIMES
    policies: Policies = DEFAULT_POLICIES
    tolerance: Tolerance = Tolerance()
    keeps_text: bool = False
    has_column_rules: bool = False
    orders: tuple[tuple[str, ...], ...] = ()
    announced: frozenset[str] = frozenset()
    snapshots: Snapshots | None = None
    history: History | None = None
    source_name: TableName | None = None
    readers: int = 1

    @property
    def source(self) -> TableName:
        """The name of its source table."""
        return self.name if self.source_name is None else self.source_name

    @property
    def before_columns(self) -> tuple[str, ...]:
        """The columns whose values before a change are needed."""
        return self.schema.names if self.match is Match.IMAGE else self.key

    @property
    def mode(self) -> Mode:
        """How its rows are kept."""
        return Mode.MIRROR if self.history is None else Mode.HISTORY

    @property
    def is_soft(self) -> bool:
        """Whether deleted rows stay and are flagged."""
        return self.deletes is Deletes.SOFT

    @property
    def keeps_ended(self) -> bool:
        """Whether the table keeps what ended: versions in a history, and rows where deletes are soft."""
        return self.history is not None or self.is_soft

    @property
    def stored(self) -> Dimension:
        """The dimension with the columns and the key of its stored table.

        In a history each version is a row, identified by the key and its start and, with the option `known`, by the
        batch from which it was believed. In a mirror with soft deletes a row has the column that flags it as
        deleted.
        """
        if self.history is None:
            deleted = (Column(DELETED, Type("boolean")),) if self.is_soft else ()
            return replace(self, schema=Schema((*self.schema, *deleted)), deletes=Deletes.HARD)
        key = (*self.key, self.history.validity_columns.valid_from, *self.history.known_columns[:1])
        return replace(self, schema=self.history.schema(self.schema, self.key), key=key, history=None)

    @property
    def new_names(self) -> Mapping[str, str]:
        """The new names of columns by their old ones, in a history including those of derived columns."""
        renames = self.policies.renames
        return renames if self.history is None else self.history.new_names(renames)

    @property
    def unique_sequences(self) -> bool:
        """Whether a copy of an event is known by its sequence."""
        return self.sequences is Sequences.UNIQUE
