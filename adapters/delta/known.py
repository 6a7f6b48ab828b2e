"""What is known of one key, found by delta-rs; it leaves out whole files where statistics allow it.

A table with widened columns is read by Spark: delta-rs 1.6.6 refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from deltalake import QueryBuilder
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.delta.progress import commits_of, standing_of
from lakeward.adapters.delta_rs.beside import arrow_of, in_datafusion
from lakeward.adapters.delta_rs.places import Places
from lakeward.adapters.spark.line import to_arrow
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.tables import known
from lakeward.adapters.tables.beside import shaped
from lakeward.adapters.tables.known import Entry, entries_of
from lakeward.adapters.tables.where import All, AtLeast, AtMost, OneOf, Where
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key, canonical
from lakeward.core.known import Known
from lakeward.core.progress import Progress

_NAN = canonical(float("nan"))
_WIDENED: Final = "typeWidening"


def known_of(places: Places, dimension: Dimension, key: Key, spark: Callable[[], SparkSession]) -> Known:
    """Return all that is known of a key, as of the last commit of ours."""
    progress = standing_of(places, dimension.name).progress
    if not progress.batch:
        return Known(key=key, progress=Progress())
    commits = commits_of(places, dimension.name)
    return known.known_of(_Finder(places, dimension.name, spark), dimension, key, progress, commits)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds rows of a table, and of what stands beside it."""

    places: Places
    table: TableName
    spark: Callable[[], SparkSession]

    def columns(self, suffix: str = "") -> Collection[str]:
        """Return the names of its columns; none where it is not there."""
        table = self.places.load(self.table, suffix)
        return () if table is None else [field.name for field in table.schema().fields]

    def rows(self, where: Where, suffix: str = "") -> Sequence[Entry]:
        """Return the rows that meet a condition, whole."""
        table = self.places.load(self.table, suffix)
        if table is None:
            return []
        if _WIDENED in (table.protocol().reader_features or ()):
            rows = self.spark().read.format("delta").load(self.places.of(self.table, suffix))
            return entries_of(to_arrow(rows.where(_column(where, rows.schema.jsonValue()))))
        schema = arrow_of(table)
        query = f"SELECT * FROM found WHERE {_sql(where, schema)}"
        found = pa.table(QueryBuilder().register("found", table).execute(query).read_all())
        return entries_of(shaped(found, schema))


def _column(where: Where, type_: Any) -> Column:
    """Return a condition as Spark has it, on columns of a type as its JSON says."""
    match where:
        case All(of=parts):
            return reduce(Column.__and__, [_column(part, type_) for part in parts])
        case OneOf(of=parts):
            return reduce(Column.__or__, [_column(part, type_) for part in parts])
        case AtMost(name=name, value=value):
            return F.col(name) <= value
        case AtLeast(name=name, value=value):
            return F.col(name) >= value
    for name in where.path:
        type_ = next(field["type"] for field in type_["fields"] if field["name"] == name)
    is_nan = where.value == _NAN and type_ in ("float", "double")
    return F.col(quoted(*where.path)).eqNullSafe(F.lit(float("nan") if is_nan else where.value))


def _sql(where: Where, schema: pa.Schema) -> str:
    """Return a condition as DataFusion writes it."""
    match where:
        case All(of=parts):
            return " AND ".join(f"({_sql(part, schema)})" for part in parts)
        case OneOf(of=parts):
            return " OR ".join(f"({_sql(part, schema)})" for part in parts)
        case AtMost(name=name, value=value):
            return f"{in_datafusion(name)} <= {value}"
        case AtLeast(name=name, value=value):
            return f"{in_datafusion(name)} >= {value}"
    first, *inner = where.path
    type_, column = schema.field(first).type, in_datafusion(first)
    for name in inner:
        type_, column = type_.field(name).type, f"get_field({column}, {_text(name)})"
    if where.value == _NAN and pa.types.is_floating(type_):
        return f"isnan({column})"
    if pa.types.is_float32(type_):
        return f"{column} = CAST('{where.value!r}' AS REAL)"
    return f"{column} = {_literal(where.value)}"


def _literal(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | Decimal():
            return f"CAST('{value:f}' AS DECIMAL(38,{_scale(value)}))" if isinstance(value, Decimal) else str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            zone = "'Timestamp(µs)'" if value.tzinfo is None else "'Timestamp(µs, \"UTC\")'"
            return f"arrow_cast('{value.isoformat(timespec='microseconds')}', {zone})"
        case date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return _text(str(value))


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
