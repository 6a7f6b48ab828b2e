"""Parameters of a generic Hudi job, which are options of Hudi, as keys of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.adapters.settings_stores.column_lists import split_columns, split_key
from lakeward.core.errors import ConfigError

_LISTS: Final = {
    "hoodie.datasource.write.recordkey.field": "key",
    "hoodie.datasource.write.partitionpath.field": "partition_by",
}
_TYPE: Final = "hoodie.datasource.write.table.type"
_MODES: Final = {"COPY_ON_WRITE": "copy-on-write", "MERGE_ON_READ": "merge-on-read"}
_DECIDED: Final = ("hoodie.table.name", "hoodie.datasource.write.precombine.field")
"""Options that lakeward does not need: it knows the name of the secret, and the order of the source."""


def read_parameters(parameters: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Return the keys of a table: those of lakeward unchanged, and those that options of Hudi become.

    Other options of Hudi become `properties` of the table. Raises ConfigError for an option that is not a text, or
    that says the same as another key.
    """
    keys = {name: value for name, value in parameters.items() if not name.startswith("hoodie.")}
    properties: dict[str, str] = {}
    for name, value in parameters.items():
        if name in keys or name in _DECIDED:
            continue
        if not isinstance(value, str):
            raise ConfigError(
                f"{place}: {name!r} must be a text", todo="docs/how-to/aws/settings.md lists what is read."
            )
        if name in _LISTS:
            split = split_key if _LISTS[name] == "key" else split_columns
            _put(keys, _LISTS[name], split(value, f"{place}: {name!r}"), name, place)
        elif name == _TYPE:
            _put(keys, "write_mode", _MODES.get(value.upper(), value), name, place)
        else:
            properties[name] = value
    if properties:
        _put(keys, "properties", properties, next(iter(properties)), place)
    return keys


def _put(found: dict[str, Any], key: str, value: Any, name: str, place: str) -> None:
    if key in found:
        raise ConfigError(f"{place}: {name!r} and `{key}` say the same", todo="Remove one of them.")
    found[key] = value
