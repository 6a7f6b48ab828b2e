"""Values of every type for the core and Arrow, and events as rows of an event frame, without Spark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakeward.adapters.formats.shared.rows.arrow_types import arrow_type
from lakeward.adapters.spark.frames.event_frame import SKIPPED
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.events import UNSET, ChangeEvent, Key
from lakeward.core.merge.change_log import Reject
from lakeward.core.schema import Type

Item = ChangeEvent | Reject | None
"""A row of a frame, or None for a skipped one."""

NANS = {"NaN": math.nan}
"""The value in a key for NaN, which equals nothing, and NaN."""


def decimals(type_: Type) -> st.SearchStrategy[Decimal]:
    most = 10**type_.precision - 1
    return st.integers(-most, most).map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -type_.scale)))


SCALARS: Mapping[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "binary": st.binary(max_size=5),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
}


def values(type_: Type, *, in_part: bool = False) -> st.SearchStrategy[Any]:
    """Return values of a type that are not NULL. With `in_part`, fields of structs may be unsent."""
    match type_.name:
        case "decimal":
            return decimals(type_)
        case "list":
            return st.lists(cells(type_.parts[0].type), max_size=3)
        case "map":
            key, value = (part.type for part in type_.parts)
            return st.lists(st.tuples(values(key), cells(value)), max_size=2)
        case "struct":
            return st.fixed_dictionaries({part.name: cells(part.type, in_part=in_part) for part in type_.parts})
        case name:
            return SCALARS[name]


def cells(type_: Type, *, in_part: bool = False) -> st.SearchStrategy[Any]:
    """Return values of a type, and NULL. With `in_part`, unsent values too."""
    strategy = st.none() | values(type_, in_part=in_part)
    return st.just(UNSET) | strategy if in_part else strategy


def not_sent(cells: Mapping[str, Any]) -> list[str]:
    """Return the paths of the unsent cells of a row, as sources write them."""
    found = [name for name, cell in cells.items() if cell is UNSET]
    return found + [path for name, cell in cells.items() for path in _fields(names.quoted(name), cell)]


def _fields(path: str, cell: Any) -> Sequence[str]:
    parts = cell.items() if isinstance(cell, dict) else ()
    inner = [(f"{path}.{names.quoted(name)}", part) for name, part in parts]
    deeper = [nested for own, part in inner for nested in _fields(own, part)]
    return [own for own, part in inner if part is UNSET] + deeper


def nulls(cell: Any) -> Any:
    """Return a cell with NULL for unsent values."""
    if isinstance(cell, dict):
        return {name: nulls(part) for name, part in cell.items()}
    return None if cell is UNSET else cell


def raw(key: Key, dimension: Dimension) -> Mapping[str, Any]:
    """Return the values of a key by their columns."""
    types = {column.name: column.type.name for column in dimension.schema}
    floating = {name for name in dimension.key if types[name] in ("float", "double")}
    pairs = zip(dimension.key, key, strict=True)
    return {name: NANS.get(part, part) if name in floating else part for name, part in pairs}


def event_frame(dimension: Dimension, items: Sequence[Item], columns: Sequence[str]) -> pa.Table:
    """Return items as the rows of an event frame that has these columns of the table."""
    types = {column.name: arrow_type(column.type) for column in dimension.schema}
    places = [None if item is None else item.position for item in items]
    wide = dimension.sequences.are_wide
    sequences = [None if place is None else place.sequence for place in places]
    rows: dict[str, pa.Array] = {
        name: pa.array([_cell(dimension, item, name) for item in items], types[name]) for name in columns
    }
    rows |= {
        names.OPERATION: pa.array([_of(item, "operation", lambda one: one.value) for item in items], pa.string()),
        names.SEQUENCE: pa.array(
            [Decimal(n) if wide and n is not None else n for n in sequences],
            pa.decimal128(38, 0) if wide else pa.int64(),
        ),
        names.OBJECT: pa.array([None if place is None else place.object for place in places], pa.int64()),
        names.ROW: pa.array([None if place is None else place.row for place in places], pa.int64()),
        names.ARRIVAL: pa.array(range(len(items)), pa.int64()),
        names.TIME: pa.array([_of(item, "time") for item in items], pa.int64()),
        names.REASON: pa.array([_reason(item) for item in items], pa.string()),
        names.DETAIL: pa.array([_of(item, "detail") for item in items], pa.string()),
        names.TRANSACTION: pa.array([_of(item, "transaction") for item in items], pa.string()),
        names.UNSET: pa.array(
            [not_sent(item.cells) or None if isinstance(item, ChangeEvent) else None for item in items],
            pa.list_(pa.string()),
        ),
        names.OLD: pa.array(
            [None if len(_keys(item)) < 2 else raw(_keys(item)[0], dimension) for item in items],
            pa.struct([(name, types[name]) for name in dimension.key]),
        ),
    }
    return pa.table(rows)


def _of(item: Item, name: str, made: Any = lambda one: one) -> Any:
    attribute = getattr(item, name, None)
    return None if attribute is None else made(attribute)


def _keys(item: Item) -> tuple[Key, ...]:
    return () if item is None else item.keys


def _reason(item: Item) -> str | None:
    if item is None:
        return SKIPPED
    return item.reason.value if isinstance(item, Reject) else None


def _cell(dimension: Dimension, item: Item, name: str) -> Any:
    if isinstance(item, ChangeEvent):
        return nulls(item.cells.get(name))
    keys = _keys(item)
    return raw(keys[-1], dimension)[name] if keys and name in dimension.key else None
