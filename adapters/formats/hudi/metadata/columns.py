"""The columns of Hudi tables, in the form that the commits have them: Avro schemas as JSON.

The logical types are those of avro.apache.org/docs/1.12.0/specification/#logical-types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lakeward.adapters.formats.shared.rows.system_columns import check_ours, without_ours
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.schema import Column, Schema, Type

KEY: Final = f"{names.PREFIX}key"
"""The record key: the key's text. Hudi's own text of a key can be that of two, and must not be empty."""

META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""What Hudi adds to each row."""

_LOGICAL: Final[Mapping[tuple[str, str], str]] = {
    ("int", "date"): "date",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
_PLAIN: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def columns_of(schema: str, table: str) -> Schema:
    """Return the columns of a table of ours from its Avro schema; raises TableError where it is not one."""
    found = schema_of(schema, table)
    check_ours(found.names, table, "namespace")
    return without_ours(Schema(tuple(column for column in found if column.name != KEY)))


def schema_of(schema: str, table: str) -> Schema:
    """Return the columns of any table from its Avro schema; raises TableError for a type that lakeward has not."""
    fields = [field for field in json.loads(schema)["fields"] if field["name"] not in META_COLUMNS]
    return Schema(tuple(_column(field, table) for field in fields))


def _column(field: Mapping[str, Any], table: str) -> Column:
    try:
        return Column(field["name"], _read(field["type"]))
    except KeyError as error:
        raise TableError(
            f"{table}: the column {field['name']} has a type that lakeward does not hold",
            found=f"it is {json.dumps(field['type'])}; another writer made it so",
            todo="Nothing of the table was changed; other tables go on. Keep that column in a table of its own.",
        ) from error


def _read(found: Any) -> Type:
    """Return a type of Avro as ours; raises KeyError where there is none."""
    if isinstance(found, list):
        [found] = [branch for branch in found if branch != "null"]
    if isinstance(found, str):
        return Type(_PLAIN[found])
    name, logical = found["type"], found.get("logicalType")
    if logical == "decimal":
        return Type("decimal", found["precision"], found.get("scale", 0))
    if logical is not None:
        return Type(_LOGICAL[name, logical])
    match name:
        case "array":
            return Type("list", parts=(Column("element", _read(found["items"])),))
        case "map":
            parts = (Column("key", Type("string")), Column("value", _read(found["values"])))
            return Type("map", parts=parts)
        case "record":
            return Type("struct", parts=tuple(Column(f["name"], _read(f["type"])) for f in found["fields"]))
        case _:
            return Type(_PLAIN[name])


def check_columns(dimension: Dimension) -> None:
    """Refuse, before anything is written, columns that Hudi cannot hold."""
    _check_names(dimension, dimension.schema)
    for column in dimension.schema:
        if _has_odd_map(column.type):
            raise ConfigError(
                f"{dimension.name}: Hudi cannot hold the column {column.name!r}",
                found=f"it is {column.type}, and the keys of Hudi's maps are texts",
                todo="Leave the column out, or take another table format. Nothing was applied.",
            )


def _check_names(dimension: Dimension, columns: Iterable[Column]) -> None:
    for column in columns:
        if not _NAME.fullmatch(column.name):
            raise ConfigError(
                f"{dimension.name}: Hudi has no column {column.name!r}",
                found="its names are a to z, A to Z, digits and _, and do not begin with a digit (they are Avro's)",
                todo="Let DMS rename it (a transformation rule `rename-column`). Nothing was applied.",
            )
        if column.type.name == "struct":
            _check_names(dimension, column.type.parts)
        else:
            _check_names(dimension, [part for part in column.type.parts if part.type.is_nested])


def _has_odd_map(type_: Type) -> bool:
    is_odd = type_.name == "map" and type_.parts[0].type.name != "string"
    return is_odd or any(_has_odd_map(part.type) for part in type_.parts)
