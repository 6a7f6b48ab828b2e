"""Values of every type: the limits of each, and those that calendars, zones, scales and readers change.

All were met in the field: dates before 1582 moved by ten days, times before 1900 by the minutes of a city's own
mean time, decimals read through a double, microseconds cut off, an empty list read as NULL.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.errors import LakewardError
from lakeward.core.events import Cell, ChangeEvent, Operation, Position
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.plugins.testing.bench import TYPES, Trial
from lakeward.plugins.testing.laws.odd_values import moving
from lakeward.plugins.testing.moments import NAN
from lakeward.plugins.testing.player import Player
from lakeward.plugins.testing.scripts import NAME, Script

_TIMES: Final = (
    datetime(1, 1, 1, 0, 0, 0, 1),
    datetime(1582, 10, 10, 12),
    datetime(1899, 12, 31, 23, 59, 59, 999_999),
    datetime(1970, 1, 1),
    datetime(2026, 3, 29, 2, 30),
    datetime(2026, 10, 25, 0, 30, 0, 500),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
)
_DAYS: Final = (date(1, 1, 1), date(1582, 10, 10), date(1900, 2, 28), date(1970, 1, 1), date(9999, 12, 31))
_NESTED: Final = "struct<s: string, n: struct<d: date, m: decimal(38,10)>, l: list<bigint>>"

VALUES: Final[Mapping[str, Sequence[Cell]]] = {
    "boolean": (True, False),
    "int": (0, 2**31 - 1, -(2**31)),
    "bigint": (0, 2**53 + 1, 2**63 - 1, -(2**63)),
    "float": (0.5, 3.4028234663852886e38, 1.401298464324817e-45, -math.inf, NAN),
    "double": (0.1, 1.7976931348623157e308, 5e-324, math.inf, NAN),
    "decimal(5,2)": (Decimal("0.00"), Decimal("999.99"), Decimal("-0.01")),
    "decimal(38,10)": (Decimal("0E-10"), Decimal("1234567890123456789012345678.0123456789"), Decimal("-1E-10")),
    "string": ("", "a", "A"),
    "binary": (b"", b"\x00", b"\xff\x00a", b"a"),
    "date": _DAYS,
    "timestamp": tuple(time.replace(tzinfo=UTC) for time in _TIMES),
    "timestamp_ntz": _TIMES,
    "list<string>": ([], [None], ["", None, "a"]),
    "map<string, bigint>": ([], [("", None)], [("a", 2**63 - 1), ("A", 0)]),
    _NESTED: (
        {"s": None, "n": {"d": None, "m": None}, "l": []},
        {"s": "", "n": {"d": date(1, 1, 1), "m": Decimal("-1E-10")}, "l": [None, 2**63 - 1]},
    ),
}
"""Values of types. No two of one type are equal, and none is NULL; a map is a list of pairs, as Arrow has it."""

_IN_KEYS: Final = TYPES - {"float", "double", "list", "map", "struct"}


def a_value_of_every_type_is_read_back_unchanged(trial: Trial) -> None:
    """In keys, other cells and the change log. A type that the table cannot hold is refused before it writes."""
    held = [written for written in VALUES if parse_type(written).name in trial.bench.types]
    trial.play(_script(held))
    for written in VALUES:
        if written not in held:
            _is_refused(trial, written)


def _is_refused(trial: Trial, written: str) -> None:
    """Check that the table refuses a type with a LakewardError before anything is written."""
    schema = Schema((Column("id", parse_type("bigint")), Column("a", parse_type(written))))
    cells = {"id": 1, "a": VALUES[written][0]}
    place = Position(1, 1, 1, 1)
    insert = ChangeEvent(operation=Operation.INSERT, position=place, key=(1,), cells=cells, time=1)
    script = Script(Dimension(name=NAME, schema=schema, key=("id",)), [[insert]], [insert])
    player = Player(script, trial.make().lake)
    try:
        player.deliver()
    except LakewardError:
        rows = player.lake.rows(script.dimension)
        assert not rows, f"{written} is refused, and {rows} was written"
    else:
        raise AssertionError(f"the bench says that the table holds no {written}, and it takes one")


def _script(held: Sequence[str]) -> Script:
    """Return a feed whose keys differ in one column each, and whose cells go through all values and NULL."""
    in_keys = [written for written in held if parse_type(written).name in _IN_KEYS]
    columns = [Column(f"k{n}", parse_type(written)) for n, written in enumerate(in_keys)]
    key = tuple(column.name for column in columns)
    columns += [Column(f"c{n}", parse_type(written)) for n, written in enumerate(held)]
    keys = [*_keys(in_keys)]

    def change(operation: Operation, at: int, row: int, arrives: int) -> ChangeEvent:
        cells = [(None, *VALUES[written])[(row + at) % (len(VALUES[written]) + 1)] for written in held]
        named = dict(zip([column.name for column in columns], [*keys[row], *cells], strict=True))
        place = Position(1, at, arrives, row + 1)
        return ChangeEvent(operation=operation, position=place, key=keys[row], cells=named, time=at)

    return moving(Schema(tuple(columns)), key, keys, change)


def _keys(types: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    """Yield the key of all first values, then keys with one other value."""
    first = [VALUES[written][0] for written in types]
    yield tuple(first)
    for place, written in enumerate(types):
        for value in VALUES[written][1:]:
            yield (*first[:place], value, *first[place + 1 :])
