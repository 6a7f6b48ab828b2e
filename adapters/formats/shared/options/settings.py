"""Read the settings of a target and of its tables, and check them against declared columns before a run starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.ports import Target
from lakeward.plugins import Options, Runtime
from lakeward.plugins.options import validated

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


def target_options(model: type[M], options: Options, runtime: Runtime) -> M:
    """Return the validated settings of [target], without the options of tables. Raises ConfigError."""
    settings = {name: value for name, value in options.items() if name != "tables"}
    return validated(model, settings, str(runtime.file), within="target")


def options_of(
    model: type[M], options: Mapping[TableName, Mapping[str, Any]], runtime: Runtime
) -> dict[TableName, M]:
    """Return the validated options of each table. Raises ConfigError, with the section as it is written."""
    validated_options = {}
    for name, values in options.items():
        is_joined = name in runtime.joined
        section, keys = ("joined", runtime.joined_keys) if is_joined else ("tables", runtime.table_keys)
        validated_options[name] = validated(
            model, values, str(runtime.file), also=keys, within=f'{section}."{name}"'
        )
    return validated_options


def check_declared(
    lake: Target[Any], tables: Mapping[TableName, T], runtime: Runtime, check: Callable[[Dimension, T], None]
) -> None:
    """Raise ConfigError for options with which a table of the declared columns could not be created.

    A table that exists was created with its options; its next batch refuses changes that are not possible.
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
    """Return whether a table exists, or whether that cannot be found out: its own run reports that."""
    try:
        return lake.table_state(dimension).schema is not None
    except LakewardError:
        return True
