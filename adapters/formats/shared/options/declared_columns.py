"""Options of tables, put to the columns that the settings declare, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.ports import Target
from lakeward.plugins import Runtime
from lakeward.plugins.options import validated

Made = TypeVar("Made")
M = TypeVar("M", bound=BaseModel)


def options_of(model: type[M], said: Mapping[TableName, Mapping[str, Any]], runtime: Runtime) -> dict[TableName, M]:
    """Return what each table says of how it is made; raises ConfigError, with its section as it is written."""
    found = {}
    for name, values in said.items():
        is_joined = name in runtime.joined
        section, keys = ("joined", runtime.joined_keys) if is_joined else ("tables", runtime.table_keys)
        found[name] = validated(model, values, str(runtime.file), also=keys, within=f'{section}."{name}"')
    return found


def check_declared(
    lake: Target[Any], tables: Mapping[TableName, Made], runtime: Runtime, check: Callable[[Dimension, Made], None]
) -> None:
    """Raise ConfigError for options with which a table of these columns could not be made.

    A table that is there was made with what it has; what it may not change to is said by its next batch.
    """
    for name, schema in runtime.declared.items():
        dimension = Dimension(name=name, schema=schema)
        try:
            check(dimension, tables[name])
        except ConfigError as error:
            if _is_there(lake, dimension):
                continue
            raise ConfigError(f"{runtime.file}: {error.what}", found=error.found, todo=error.todo) from error


def _is_there(lake: Target[Any], dimension: Dimension) -> bool:
    """Whether a table is there, or it cannot be told: then that is for its own turn to say."""
    try:
        return lake.standing(dimension).schema is not None
    except LakewardError:
        return True
