"""Search rows of a Delta table with delta-rs, which skips whole files by their statistics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from lakeward.adapters.formats.delta_rs.side_table import arrow_of, in_datafusion
from lakeward.adapters.formats.shared.operations.key_state import Entry, entries_of
from lakeward.adapters.formats.shared.rows.conditions import All, AtLeast, AtMost, Condition, OneOf
from lakeward.adapters.formats.shared.side_tables.side_table import with_schema
from lakeward.core.events import canonical

_NAN: Final = canonical(float("nan"))


def found_in(table: DeltaTable, where: Condition) -> Sequence[Entry]:
    """Return the rows of a table that meet a condition, with all columns."""
    schema = arrow_of(table)
    query = f"SELECT * FROM found WHERE {_sql(where, schema)}"
    rows = pa.table(QueryBuilder().register("found", table).execute(query).read_all())
    return entries_of(with_schema(rows, schema))


def _sql(where: Condition, schema: pa.Schema) -> str:
    """Return a condition in the SQL of DataFusion."""
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
