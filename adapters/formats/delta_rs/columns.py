"""The columns of Delta tables in the JSON of Delta's log.

Format: github.com/delta-io/delta/blob/master/PROTOCOL.md#schema-serialization-format
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import deltalake

from lakeward.adapters.formats.shared.rows.system_columns import check_system_columns, without_system_columns
from lakeward.core.errors import TableError
from lakeward.core.schema import Column, Schema, Type

_SCALARS: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int": "integer",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_NAMES: Final = {type_json: name for name, type_json in _SCALARS.items()}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


def to_delta(columns: Mapping[str, Type]) -> deltalake.Schema:
    """Return columns as a Delta schema; each may be NULL."""
    return deltalake.Schema.from_json(json.dumps({"type": "struct", "fields": _fields(columns.items())}))


def _fields(columns: Iterable[tuple[str, Type]]) -> list[dict[str, Any]]:
    return [field_of(name, type_) for name, type_ in columns]


def field_of(name: str, type_: Type) -> dict[str, Any]:
    """Return a column in the log's JSON."""
    return {"name": name, "type": type_json(type_), "nullable": True, "metadata": {}}


def has_hidden_ntz(type_: Type) -> bool:
    """Return whether a map has times without a zone: delta-rs 1.6.6 misses them, and creates no such table."""
    parts = [part.type for part in type_.parts]
    return any(map(_has_ntz if type_.name == "map" else has_hidden_ntz, parts))


def _has_ntz(type_: Type) -> bool:
    return type_.name == "timestamp_ntz" or any(_has_ntz(part.type) for part in type_.parts)


def type_json(type_: Type) -> Any:
    """Return a type in the log's JSON."""
    match type_.name:
        case "decimal":
            return f"decimal({type_.precision},{type_.scale})"
        case "list":
            return {"type": "array", "elementType": type_json(type_.parts[0].type), "containsNull": True}
        case "map":
            key, value = (type_json(part.type) for part in type_.parts)
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case "struct":
            return {"type": "struct", "fields": _fields((part.name, part.type) for part in type_.parts)}
        case name:
            return _SCALARS[name]


def columns_of(schema: deltalake.Schema, table: str) -> Schema:
    """Return the columns of a table of ours, without system columns. Raises TableError if it is not one."""
    columns = columns_in(schema, table)
    check_system_columns(columns.names, table, "namespace")
    return without_system_columns(columns)


def columns_in(schema: deltalake.Schema, table: str) -> Schema:
    """Return all columns of a table. Raises TableError for a type that lakeward does not have."""
    return Schema(tuple(column_of(field, table) for field in json.loads(schema.to_json())["fields"]))


def column_of(field: Mapping[str, Any], table: str) -> Column:
    """Return a column from the log's JSON. Raises TableError for a type that lakeward does not have."""
    try:
        return Column(field["name"], _read(field["type"]))
    except KeyError as error:
        raise TableError(
            f"{table}: the column {field['name']} has a type that lakeward does not hold",
            found=f"it is {field['type']}, where lakeward has {', '.join((*_SCALARS, 'decimal'))}; "
            "another writer made it so",
            todo="Nothing of the table was changed; other tables go on. Take the column out of the table "
            "(`ALTER TABLE … DROP COLUMN …` in Spark), and keep it in a table of its own.",
        ) from error


def _read(delta_type: Any) -> Type:
    """Return a Delta type as lakeward's. Raises KeyError if there is none."""
    if isinstance(delta_type, str):
        decimal = _DECIMAL.fullmatch(delta_type)
        return Type(_NAMES[delta_type]) if decimal is None else Type("decimal", int(decimal[1]), int(decimal[2]))
    match delta_type["type"]:
        case "array":
            return Type("list", parts=(Column("element", _read(delta_type["elementType"])),))
        case "map":
            key, value = (
                Column("key", _read(delta_type["keyType"])),
                Column("value", _read(delta_type["valueType"])),
            )
            return Type("map", parts=(key, value))
        case "struct":
            return Type("struct", parts=tuple(Column(f["name"], _read(f["type"])) for f in delta_type["fields"]))
        case name:
            raise KeyError(name)
