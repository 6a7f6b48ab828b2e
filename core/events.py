"""Change events, their order and their cells.

A change event is one row-level fact of a source: an operation on a key, at a position. Positions are totally
ordered within a source table and compare the same way here, in Spark and in the stored rows
(`docs/decisions/0001`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Final, NamedTuple, TypeAlias, TypeGuard

LOAD_SEQUENCE: Final = -(2**63)
"""The sequence of every row of a declared full load: before all changes of its epoch."""

READ_SEQUENCE: Final = LOAD_SEQUENCE + 1
"""The sequence of a snapshot row without a place in the log of its source: before all changes of its epoch.

Only arrival orders such rows, and none replaces a change of its key that arrived before it (semantics 2.6).
"""

NO_SEQUENCE: Final = 0
"""The sequence of a change without a place in the order of its source."""

UNORDERED: Final = frozenset({NO_SEQUENCE, LOAD_SEQUENCE, READ_SEQUENCE})
"""The sequences that do not say which of two events came first."""


class Sequences(Enum):
    """What the sequences of a source are.

    `TIMES` are commit times in microseconds since 1970, or 0 throughout where there are none. `ARRIVAL` is 0
    throughout although there are commit times: changes come in the order of their transactions, which may differ
    from that of their times. `PLACES` are places in the source's log, which several changes may share, or 0
    throughout in a table without them. `UNIQUE` are numbers that each change has alone, so that a copy of a change
    is known by its number. Both have more digits than a bigint holds.
    """

    TIMES = "times"
    ARRIVAL = "arrival"
    PLACES = "places"
    UNIQUE = "unique"

    @property
    def are_wide(self) -> bool:
        """Whether they have up to 38 digits."""
        return self in (Sequences.PLACES, Sequences.UNIQUE)


class Operation(Enum):
    """What happened to a row at the source."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"
    READ = "read"


class Unset(Enum):
    """The type of `UNSET`: the source did not send this cell, which is not NULL."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET

Cell: TypeAlias = object
"""A value, None for NULL, or `UNSET`: three different things, everywhere."""

Key: TypeAlias = tuple[Hashable, ...]
"""The canonical values of the key columns, made by `key_of`."""


class Position(NamedTuple):
    """The place of an event in the total order of its source table.

    `epoch` rises when the source starts over; `sequence` is the best order that the
    source itself offers, as a whole number (0 throughout where it offers none);
    `object` and `row` are the arrival: the order of the object read from its name,
    and the row number in it.
    """

    epoch: int
    sequence: int
    object: int
    row: int

    @property
    def has_order(self) -> bool:
        """Whether its sequence says which of two events came first; otherwise their arrival does."""
        return self.sequence not in UNORDERED

    @property
    def source_order(self) -> SourceOrder:
        """The epoch and the sequence, by which lateness is judged."""
        return SourceOrder(self.epoch, self.sequence)


class SourceOrder(NamedTuple):
    """A point in the source's own order. As a low watermark, nothing at or below it may arrive any more."""

    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvent:
    """One row-level fact.

    `cells` is the after image (the last known image for a delete); columns that the source did not send are `UNSET`
    or missing. `before` is the complete row before an update or a delete, None where the source did not send all of
    it. `old_key` is set for a key change and differs from `key`. `transaction` identifies the source transaction:
    by its id, else its commit position, else its commit time. `time` is the source time in microseconds since 1970,
    UTC. `instant` is that from which the event counts in a history, in the history's own unit (None: the instant
    that its key has reached). `was_whole` is set on remembered events that sent all columns that their table had
    when they came: such an event waits for no row, whatever columns the table got since.
    """

    operation: Operation
    position: Position
    key: Key = ()
    cells: Mapping[str, Cell] = field(default_factory=dict)
    old_key: Key | None = None
    before: Mapping[str, Cell] | None = None
    transaction: Hashable = None
    time: int | None = None
    instant: int | None = None
    was_whole: bool = field(default=False, compare=False)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys that the event touches: none for a truncate, two for a key change."""
        if self.operation is Operation.TRUNCATE:
            return ()
        return (self.key,) if self.old_key is None else (self.old_key, self.key)

    @property
    def is_load(self) -> bool:
        """Whether this is a row of a declared full load."""
        return self.position.sequence == LOAD_SEQUENCE

    def lacks(self, columns: Sequence[str]) -> bool:
        """Return True if any of the columns, or a field within one, was not sent."""
        cells = self.cells
        for column in columns:
            value = cells.get(column, UNSET)
            if type(value) not in _WITHOUT_FIELDS and not is_sent(value):
                return True
        return False


def is_sent(value: object) -> bool:
    """Return True if a value, and every field within it, was sent."""
    if has_fields(value):
        return all(map(is_sent, value.values()))
    return value is not UNSET


_WITHOUT_FIELDS: Final = frozenset((str, int, float, bool, bytes, Decimal, date, datetime, type(None)))
"""The types of most values. Checking each of them for being a mapping would take a third of the time of a fold."""


def has_fields(value: object) -> TypeGuard[Mapping[str, Cell]]:
    """Return True if a value is that of a struct, of which each field may be sent or not."""
    return type(value) not in _WITHOUT_FIELDS and isinstance(value, Mapping)


def canonical(value: object) -> Hashable:
    """Return a value that is equal exactly where Spark's `<=>` finds the original values equal.

    NaN equals NaN (it becomes a text, which no float column holds), -0.0 equals 0.0; decimals compare by value
    already. A map is a mapping or, as Arrow has it, a list of pairs, whose order does not count.

    >>> canonical(-0.0) == canonical(0.0), canonical(float("nan")) == canonical(float("nan"))
    (True, True)
    >>> canonical([("a", [1]), ("b", [2])]) == canonical([("b", [2]), ("a", [1])])
    True
    """
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        items = [canonical(item) for item in value]
        return frozenset(items) if value and isinstance(value[0], tuple) else tuple(items)
    if isinstance(value, tuple):
        return tuple(canonical(item) for item in value)
    if isinstance(value, dict):
        return frozenset((canonical(name), canonical(item)) for name, item in value.items())
    return value


def key_of(cells: Mapping[str, Cell], columns: Sequence[str]) -> Key | None:
    """Return the canonical key, or None where a key column is NULL or was not sent."""
    values = [cells.get(column, UNSET) for column in columns]
    if any(value is None or value is UNSET for value in values):
        return None
    return tuple(canonical(value) for value in values)


def same_cells(left: Mapping[str, Cell], right: Mapping[str, Cell]) -> bool:
    """Return True if two images are equal, cell by cell, as `<=>` compares; a cell that one lacks was not sent."""
    return left == right or all(
        canonical(left.get(name, UNSET)) == canonical(right.get(name, UNSET)) for name in left.keys() | right.keys()
    )
