"""The columns that lakeward adds to those of a table, and the place that they say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

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
"""What lakeward adds to each row: the position of its last event, and the batch that changed it."""


def system_columns(sequences: Sequences) -> Mapping[str, Type]:
    """Return what lakeward adds to each row of a table with such sequences."""
    return {**SYSTEM_COLUMNS, names.SEQUENCE: names.sequence_type(sequences)}


def row_columns(dimension: Dimension) -> Mapping[str, Type]:
    """Return what lakeward adds to each row of a table; of a history, up to when the source told of a version."""
    reached = {} if dimension.history is None else {names.REACHED: Type("bigint")}
    return {**system_columns(dimension.sequences), **reached}


def without_ours(schema: Schema) -> Schema:
    """Return the columns of a table without those of lakeward."""
    return Schema(tuple(c for c in schema if c.name not in {*SYSTEM_COLUMNS, names.REACHED, DELETED}))


def of_source(standing: TableState, dimension: Dimension) -> TableState:
    """Return a table as it stands with the columns of the source alone: without what tells of versions."""
    if dimension.history is None or standing.schema is None:
        return standing
    return replace(standing, schema=dimension.history.own(standing.schema, dimension.policies.renames))


BEFORE: Final[Mapping[str, int]] = {
    names.EPOCH: 1,
    names.SEQUENCE: LOAD_SEQUENCE,
    names.OBJECT: -(2**63),
    names.ROW: 0,
    names.BATCH: 1,
}
"""What NULL means in these columns, of a row that another engine wrote: it is older than all that comes."""


def check_ours(found: Collection[str], table: str, where: str) -> None:
    """Raise TableError where a table with these columns is not one that lakeward made; `where` is the setting."""
    lacking = [name for name in SYSTEM_COLUMNS if name not in found]
    if lacking:
        raise TableError(
            f"{table}: the lake has a table of that name, and lakeward did not make it",
            found=f"it lacks the column {lacking[0]}",
            todo=f"`lakeward adopt {table}` takes it over, where its format can. Or choose another `{where}` under "
            "[target].",
        )


def check_names(dimension: Dimension, reserved: Collection[str], format_: str) -> None:
    """Raise ConfigError for a column that a table cannot have: `reserved` are the names that its format uses."""
    said = dimension if dimension.is_soft else dimension.stored  # where deletes are soft, one column of it is ours
    ours = [name for name in said.schema.names if name in reserved or name.startswith(names.PREFIX)]
    if ours:
        raise ConfigError(
            f"{dimension.name}: a column is called {ours[0]!r}, and {format_} or lakeward use that name",
            todo="Let DMS rename it (a transformation rule `rename-column`). Nothing was applied.",
        )


def position_of(row: Mapping[str, Any]) -> Position:
    """Return the position of a row as it was read: a sequence of many digits is no whole number there."""
    return Position(*[_said(row, name) for name in names.POSITION])


def batch_of(row: Mapping[str, Any]) -> int:
    """Return the batch that changed a row last."""
    return _said(row, names.BATCH)


def _said(row: Mapping[str, Any], name: str) -> int:
    return BEFORE[name] if row[name] is None else int(row[name])
