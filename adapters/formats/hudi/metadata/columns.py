"""The columns of Hudi tables as commits have them: Avro schemas in JSON.

Logical types: avro.apache.org/docs/1.12.0/specification/#logical-types
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lakeward.adapters.formats.shared.rows.system_columns import check_system_columns, without_system_columns
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.schema import Column, Schema, Type

KEY: Final = f"{names.PREFIX}key"
"""The record key: the text of the key. Hudi's own text can be the same for two keys, and must not be empty."""

META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""The columns that Hudi adds to each row."""

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
    """Return the columns of a table of ours, without system columns. Raises TableError if it is not one."""
    columns = schema_of(schema, table)
    check_system_columns(columns.names, table, "namespace")
    return without_system_columns(Schema(tuple(column for column in columns if column.name != KEY)))


def schema_of(schema: str, table: str) -> Schema:
    """Return the columns of any table from its Avro schema.

    Raises TableError for a type that lakeward does not have.
    """
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


def _read(avro_type: Any) -> Type:
    """Return an Avro type as lakeward's. Raises KeyError if there is none."""
    if isinstance(avro_type, list):
        [avro_type] = [branch for branch in avro_type if branch != "null"]
    if isinstance(avro_type, str):
        return Type(_PLAIN[avro_type])
    name, logical = avro_type["type"], avro_type.get("logicalType")
    if logical == "decimal":
        return Type("decimal", avro_type["precision"], avro_type.get("scale", 0))
    if logical is not None:
        return Type(_LOGICAL[name, logical])
    match name:
        case "array":
            return Type("list", parts=(Column("element", _read(avro_type["items"])),))
        case "map":
            parts = (Column("key", Type("string")), Column("value", _read(avro_type["values"])))
            return Type("map", parts=parts)
        case "record":
            return Type("struct", parts=tuple(Column(f["name"], _read(f["type"])) for f in avro_type["fields"]))
        case _:
            return Type(_PLAIN[name])


def check_columns(dimension: Dimension) -> None:
    """Raise ConfigError for columns that Hudi cannot hold, before anything is written."""
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
