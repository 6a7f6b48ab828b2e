"""The columns of Iceberg tables: those that lakeward adds, and those of a table as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import DecimalType, IcebergType, ListType, MapType, StructType

from lakeward.adapters.spark import names
from lakeward.core.errors import TableError
from lakeward.core.schema import Column, Schema, Type

SYSTEM_COLUMNS: Final[Mapping[str, str]] = {
    names.EPOCH: "int",
    names.SEQUENCE: "bigint",
    names.OBJECT: "bigint",
    names.ROW: "bigint",
    names.BATCH: "bigint",
}
"""What lakeward adds to each row: the position of its last event, and the batch that changed it."""


def columns_of(schema: IcebergSchema, table: str) -> Schema:
    """Return the columns of a table of ours; raises TableError where it is not one."""
    found = {field.name: field.field_type for field in schema.fields}
    lacking = [name for name in SYSTEM_COLUMNS if name not in found]
    if lacking:
        raise TableError(
            f"{table}: the lake has a table of that name, and lakeward did not make it",
            found=f"it lacks the column {lacking[0]}",
            todo="Choose another `namespace` under [target], or drop the table if nobody needs it.",
        )
    own = [Column(name, _type(type_)) for name, type_ in found.items() if name not in SYSTEM_COLUMNS]
    return Schema(tuple(own))


_SCALARS: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}


def _type(found: IcebergType) -> Type:
    match found:
        case DecimalType(precision=precision, scale=scale):
            return Type("decimal", precision, scale)
        case ListType(element_type=element):
            return Type("list", parts=(Column("element", _type(element)),))
        case MapType(key_type=key, value_type=value):
            return Type("map", parts=(Column("key", _type(key)), Column("value", _type(value))))
        case StructType(fields=fields):
            return Type("struct", parts=tuple(Column(f.name, _type(f.field_type)) for f in fields))
        case _:
            return Type(_SCALARS.get(str(found), str(found)))
