"""Conversion between Arrow rows and values of the core."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import to_spark
from lakeward.core.dimension import Dimension
from lakeward.core.events import UNSET, Cell, Key, canonical
from lakeward.core.schema import Type

_NAN: Final = canonical(math.nan)


def arrow_type(type_: Type) -> pa.DataType:
    """Return the Arrow type in which Spark sends a column of this type; sessions are in UTC."""
    match type_.name:
        case "timestamp":
            return pa.timestamp("us", tz="UTC")
        case "list":
            return pa.list_(arrow_type(type_.parts[0].type))
        case "map":
            key, value = (arrow_type(part.type) for part in type_.parts)
            return pa.map_(key, value)
        case "struct":
            return pa.struct([pa.field(part.name, arrow_type(part.type)) for part in type_.parts])
        case _:
            return to_arrow_type(to_spark(type_))


def columns_of(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
    """Return the values of each column. Raises OverflowError for a time outside the years 1 to 9999."""
    return {name: rows[name].to_pylist() for name in rows.column_names}


def keys_in(columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> list[Key | None]:
    """Return the key of each row; None where a part of it is NULL, and for a table without a key."""
    if not names:
        return [None] * len(next(iter(columns.values()), ()))
    parts = zip(*(columns[name] for name in names), strict=True)
    return [None if None in values else tuple(map(canonical, values)) for values in parts]


def key_in(values: Mapping[str, Any] | None, names: Sequence[str]) -> Key | None:
    """Return the key in a struct; None where the struct or a part of the key is NULL."""
    if values is None:
        return None
    parts = tuple(canonical(values[name]) for name in names)
    return None if None in parts else parts


def key_values(key: Key, dimension: Dimension) -> Mapping[str, Any]:
    """Return the values of a key by their columns, for Arrow: with NaN itself in place of its canonical text."""
    pairs = zip(dimension.key, key, strict=True)
    if _NAN not in key:
        return dict(pairs)
    floating = {column.name for column in dimension.schema if column.type.is_floating}
    return {name: math.nan if name in floating and part == _NAN else part for name, part in pairs}


def key_rows(keys: Iterable[Key], dimension: Dimension) -> pa.Table:
    """Return keys as rows with the columns of the key."""
    listed = [key_values(key, dimension) for key in keys]
    columns = {}
    for name in dimension.key:
        item = dimension.schema.find(name)
        if item is None:
            raise LookupError(name)
        columns[name] = pa.array([values[name] for values in listed], arrow_type(item.type))
    return pa.table(columns)


def sent(value: Any, path: str, not_sent: Collection[str]) -> Cell:
    """Return a cell with UNSET in place of itself, or of fields within it, that were not sent.

    `not_sent` are paths whose names are quoted.
    """
    if path in not_sent:
        return UNSET
    if not isinstance(value, dict):
        return value
    return {name: sent(part, f"{path}.{quoted(name)}", not_sent) for name, part in value.items()}


def paths_of(listed: Iterable[str] | None) -> set[str]:
    """Return the quoted paths of cells not sent, given as names of columns or as quoted paths of nested fields."""
    return {name if name.startswith("`") and "`.`" in name else quoted(name) for name in listed or ()}
