"""The columns of Delta tables, in the form that Delta's log has them.

The form is that of github.com/delta-io/delta/blob/master/PROTOCOL.md#schema-serialization-format
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import deltalake

from lakeward.adapters.formats.shared.rows.system_columns import check_ours, without_ours
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
_NAMES: Final = {written: name for name, written in _SCALARS.items()}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


def to_delta(columns: Mapping[str, Type]) -> deltalake.Schema:
    """Return columns as a schema of Delta; each may be NULL."""
    return deltalake.Schema.from_json(json.dumps({"type": "struct", "fields": _fields(columns.items())}))


def _fields(columns: Iterable[tuple[str, Type]]) -> list[dict[str, Any]]:
    return [field_of(name, type_) for name, type_ in columns]


def field_of(name: str, type_: Type) -> dict[str, Any]:
    """Return a column as the log has it."""
    return {"name": name, "type": written(type_), "nullable": True, "metadata": {}}


def has_hidden_ntz(type_: Type) -> bool:
    """Whether a map has times without a zone: delta-rs 1.6.6 does not look there, and makes no such table."""
    parts = [part.type for part in type_.parts]
    return any(map(_has_ntz if type_.name == "map" else has_hidden_ntz, parts))


def _has_ntz(type_: Type) -> bool:
    return type_.name == "timestamp_ntz" or any(_has_ntz(part.type) for part in type_.parts)


def written(type_: Type) -> Any:
    """Return a type as the log has it."""
    match type_.name:
        case "decimal":
            return f"decimal({type_.precision},{type_.scale})"
        case "list":
            return {"type": "array", "elementType": written(type_.parts[0].type), "containsNull": True}
        case "map":
            key, value = (written(part.type) for part in type_.parts)
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case "struct":
            return {"type": "struct", "fields": _fields((part.name, part.type) for part in type_.parts)}
        case name:
            return _SCALARS[name]


def columns_of(schema: deltalake.Schema, table: str) -> Schema:
    """Return the columns of a table of ours; raises TableError where it is not one."""
    found = columns_in(schema, table)
    check_ours(found.names, table, "namespace")
    return without_ours(found)


def columns_in(schema: deltalake.Schema, table: str) -> Schema:
    """Return all columns of a table; raises TableError for one of a type that lakeward has not."""
    return Schema(tuple(column_of(field, table) for field in json.loads(schema.to_json())["fields"]))


def column_of(field: Mapping[str, Any], table: str) -> Column:
    """Return a column as the log has it; raises TableError where lakeward has no such type."""
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


def _read(found: Any) -> Type:
    """Return a type of Delta as ours; raises KeyError where there is none."""
    if isinstance(found, str):
        decimal = _DECIMAL.fullmatch(found)
        return Type(_NAMES[found]) if decimal is None else Type("decimal", int(decimal[1]), int(decimal[2]))
    match found["type"]:
        case "array":
            return Type("list", parts=(Column("element", _read(found["elementType"])),))
        case "map":
            key, value = Column("key", _read(found["keyType"])), Column("value", _read(found["valueType"]))
            return Type("map", parts=(key, value))
        case "struct":
            return Type("struct", parts=tuple(Column(f["name"], _read(f["type"])) for f in found["fields"]))
        case name:
            raise KeyError(name)
