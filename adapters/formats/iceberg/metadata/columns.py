"""The columns of Iceberg tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from lakeward.adapters.formats.shared.rows.system_columns import check_system_columns, without_system_columns
from lakeward.core.dimension import TableName
from lakeward.core.errors import SchemaConflict, TableError
from lakeward.core.schema import Column, Schema, Type


def columns_of(schema: IcebergSchema, table: str) -> Schema:
    """Return the columns of a table of ours, without system columns. Raises TableError if it is not one."""
    check_system_columns([field.name for field in schema.fields], table, "namespace")
    return without_system_columns(columns_in(schema, table))


def columns_in(schema: IcebergSchema, table: str) -> Schema:
    """Return all columns of a table. Raises TableError for a type that lakeward does not have."""
    return Schema(tuple(_column(field, table) for field in schema.fields))


def _column(field: NestedField, table: str) -> Column:
    try:
        return Column(field.name, _type(field.field_type))
    except KeyError as error:
        raise TableError(
            f"{table}: the column {field.name} has a type that lakeward does not hold",
            found=f"it is {field.field_type}, where lakeward has {', '.join((*_SCALARS, 'decimal'))}; "
            "another writer made it so",
            todo="Nothing of the table was changed; other tables go on. Take the column out of the table "
            "(`ALTER TABLE … DROP COLUMN …` in Spark), and keep it in a table of its own.",
        ) from error


_SCALARS: Final[Mapping[str, IcebergType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}
_NAMES: Final = {type_: name for name, type_ in _SCALARS.items()}


def _type(iceberg_type: IcebergType) -> Type:
    """Return an Iceberg type as lakeward's. Raises KeyError if there is none."""
    match iceberg_type:
        case DecimalType(precision=precision, scale=scale):
            return Type("decimal", precision, scale)
        case ListType(element_type=element):
            return Type("list", parts=(Column("element", _type(element)),))
        case MapType(key_type=key, value_type=value):
            return Type("map", parts=(Column("key", _type(key)), Column("value", _type(value))))
        case StructType(fields=parts):
            return Type("struct", parts=tuple(Column(f.name, _type(f.field_type)) for f in parts))
        case _:
            return Type(_NAMES[iceberg_type])


def check_paths(name: TableName, schema: Schema) -> None:
    """Raise SchemaConflict if a column and a nested field have the same path, by which Iceberg finds fields."""
    descriptions_by_path: dict[str, str] = {}
    for path, description in _paths(schema):
        other = descriptions_by_path.setdefault(path, description)
        if other != description:
            raise SchemaConflict(
                f"{name}: a column and a field within another one have the same path",
                found=f"{other} and {description} are both {path}, by which Iceberg finds them",
                todo="Nothing of this batch was applied; other tables go on. Let the source rename one of them, or "
                "declare the column with the field as a `string`.",
            )


def _paths(columns: Iterable[Column], path: str = "", inside: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each column and nested field, with a description of it."""
    for column in columns:
        description = f"the field {column.name!r} of {inside}" if inside else f"the column {column.name!r}"
        yield f"{path}{column.name}", description
        yield from _paths(column.type.parts, f"{path}{column.name}.", description)


def to_iceberg(schema: Schema) -> IcebergSchema:
    """Return columns as an Iceberg schema; each may be NULL."""
    return IcebergSchema(*_fields(schema, count(1)))


def _fields(columns: Iterable[Column], numbers: Iterator[int]) -> list[NestedField]:
    listed = [(next(numbers), column) for column in columns]
    return [NestedField(number, c.name, _iceberg(c.type, numbers), required=False) for number, c in listed]


def _iceberg(type_: Type, numbers: Iterator[int]) -> IcebergType:
    match type_.name:
        case "decimal":
            return DecimalType(type_.precision, type_.scale)
        case "list":
            (element,) = _fields(type_.parts, numbers)
            return ListType(element.field_id, element.field_type, element_required=False)
        case "map":
            key, value = _fields(type_.parts, numbers)
            return MapType(key.field_id, key.field_type, value.field_id, value.field_type, value_required=False)
        case "struct":
            return StructType(*_fields(type_.parts, numbers))
        case name:
            return _SCALARS[name]
