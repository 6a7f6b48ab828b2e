"""The columns that lakeward adds to a table, and the position that they hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import DELETED, Dimension
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.events import LOAD_SEQUENCE, Position, Sequences
from lakeward.core.ports import TableState
from lakeward.core.schema import Schema, Type

SYSTEM_COLUMNS: Final[Mapping[str, Type]] = {
    names.EPOCH: Type("int"),
    names.SEQUENCE: Type("bigint"),
    names.OBJECT: Type("bigint"),
    names.ROW: Type("bigint"),
    names.BATCH: Type("bigint"),
}
"""The system columns: the position of a row's last event, and the batch that changed it last."""


def system_columns(sequences: Sequences) -> Mapping[str, Type]:
    """Return the system columns of a table with such sequences."""
    return {**SYSTEM_COLUMNS, names.SEQUENCE: names.sequence_type(sequences)}


def row_columns(dimension: Dimension) -> Mapping[str, Type]:
    """Return the system columns of a table; a history has the time up to which the source confirmed a version."""
    reached = {} if dimension.history is None else {names.REACHED: Type("bigint")}
    return {**system_columns(dimension.sequences), **reached}


def column_types(dimension: Dimension) -> Mapping[str, Type]:
    """Return the types of all columns of a table: those of its rows, and the system columns."""
    return {**{column.name: column.type for column in dimension.stored.schema}, **row_columns(dimension)}


def without_system_columns(schema: Schema) -> Schema:
    """Return the columns of a table without system columns."""
    return Schema(tuple(c for c in schema if c.name not in {*SYSTEM_COLUMNS, names.REACHED, DELETED}))


def of_source(state: TableState, dimension: Dimension) -> TableState:
    """Return a table state with the columns of the source only, without the columns of a history."""
    if dimension.history is None or state.schema is None:
        return state
    return replace(state, schema=dimension.history.source_columns(state.schema, dimension.policies.renames))


BEFORE: Final[Mapping[str, int]] = {
    names.EPOCH: 1,
    names.SEQUENCE: LOAD_SEQUENCE,
    names.OBJECT: -(2**63),
    names.ROW: 0,
    names.BATCH: 1,
}
"""The meaning of NULL in the system columns of a row that another engine wrote: it is older than every event."""


def fill_positions(rows: pa.Table) -> pa.Table:
    """Return stored rows with the meaning of NULL (`BEFORE`) in their system columns, as far as they have these."""
    for place, name in enumerate(rows.column_names):
        if name in BEFORE and rows[name].null_count:
            default = pa.scalar(BEFORE[name], pa.int64()).cast(rows[name].type)
            rows = rows.set_column(place, name, pc.coalesce(rows[name], default))
    return rows


def check_system_columns(columns: Collection[str], table: str, where: str) -> None:
    """Raise TableError if a table with these columns was not made by lakeward. `where` names the setting."""
    lacking = [name for name in SYSTEM_COLUMNS if name not in columns]
    if lacking:
        raise TableError(
            f"{table}: the lake has a table of that name, and lakeward did not make it",
            found=f"it lacks the column {lacking[0]}",
            todo=f"`lakeward adopt {table}` takes it over, where its format can. Or choose another `{where}` under "
            "[target].",
        )


def check_names(dimension: Dimension, reserved: Collection[str], format_: str) -> None:
    """Raise ConfigError for a column name that a table cannot have; its format uses the `reserved` names."""
    checked = dimension if dimension.is_soft else dimension.stored  # `stored` adds a system column for soft deletes
    refused_names = [name for name in checked.schema.names if name in reserved or name.startswith(names.PREFIX)]
    if refused_names:
        raise ConfigError(
            f"{dimension.name}: a column is called {refused_names[0]!r}, and {format_} or lakeward use that name",
            todo="Let DMS rename it (a transformation rule `rename-column`). Nothing was applied.",
        )


def position_of(row: Mapping[str, Any]) -> Position:
    """Return the position of a row as it was read; a sequence of many digits is a decimal there."""
    return Position(*[_system_value(row, name) for name in names.POSITION])


def batch_of(row: Mapping[str, Any]) -> int:
    """Return the batch that changed a row last."""
    return _system_value(row, names.BATCH)


def _system_value(row: Mapping[str, Any], name: str) -> int:
    return BEFORE[name] if row[name] is None else int(row[name])
