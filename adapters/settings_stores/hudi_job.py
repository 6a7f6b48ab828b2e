"""Translate the parameters of a generic Hudi job, which are options of Hudi, into settings of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.adapters.settings_stores.column_lists import split_columns, split_key
from lakeward.core.errors import ConfigError

_LIST_OPTIONS: Final = {
    "hoodie.datasource.write.recordkey.field": "key",
    "hoodie.datasource.write.partitionpath.field": "partition_by",
}
_TYPE: Final = "hoodie.datasource.write.table.type"
_MODES: Final = {"COPY_ON_WRITE": "copy-on-write", "MERGE_ON_READ": "merge-on-read"}
_IGNORED: Final = ("hoodie.table.name", "hoodie.datasource.write.precombine.field")
"""Options that lakeward ignores: the table has the name of its secret, and changes the order of the source."""


def read_parameters(parameters: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Return the settings of a table; `place` is the place of the parameters in messages.

    Settings of lakeward stay as they are. Options of Hudi that lakeward has a key for become that key, others
    become `properties`. Raises ConfigError for an option that is not a text, or whose key is set, too.
    """
    keys = {name: value for name, value in parameters.items() if not name.startswith("hoodie.")}
    properties: dict[str, str] = {}
    for name, value in parameters.items():
        if name in keys or name in _IGNORED:
            continue
        if not isinstance(value, str):
            raise ConfigError(
                f"{place}: {name!r} must be a text",
                todo="Write a text; docs/how-to/aws/settings.md lists the options.",
            )
        if name in _LIST_OPTIONS:
            split = split_key if _LIST_OPTIONS[name] == "key" else split_columns
            _put(keys, _LIST_OPTIONS[name], split(value, f"{place}: {name!r}"), name, place)
        elif name == _TYPE:
            _put(keys, "write_mode", _MODES.get(value.upper(), value), name, place)
        else:
            properties[name] = value
    if properties:
        _put(keys, "properties", properties, next(iter(properties)), place)
    return keys


def _put(keys: dict[str, Any], key: str, value: Any, option: str, place: str) -> None:
    """Set a key to the value of an option; raises ConfigError if it is set already."""
    if key in keys:
        raise ConfigError(f"{place}: {option!r} and `{key}` set the same", todo="Remove one of them.")
    keys[key] = value
