"""The columns of Iceberg tables as they stand."""

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

from lakeward.adapters.formats.shared.rows.system_columns import check_ours, without_ours
from lakeward.core.dimension import TableName
from lakeward.core.errors import SchemaConflict, TableError
from lakeward.core.schema import Column, Schema, Type


def columns_of(schema: IcebergSchema, table: str) -> Schema:
    """Return the columns of a table of ours; raises TableError where it is not one."""
    check_ours([field.name for field in schema.fields], table, "namespace")
    return without_ours(columns_in(schema, table))


def columns_in(schema: IcebergSchema, table: str) -> Schema:
    """Return all columns of a table; raises TableError for one of a type that lakeward has not."""
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


def _type(found: IcebergType) -> Type:
    """Return a type of Iceberg as ours; raises KeyError where there is none."""
    match found:
        case DecimalType(precision=precision, scale=scale):
            return Type("decimal", precision, scale)
        case ListType(element_type=element):
            return Type("list", parts=(Column("element", _type(element)),))
        case MapType(key_type=key, value_type=value):
            return Type("map", parts=(Column("key", _type(key)), Column("value", _type(value))))
        case StructType(fields=parts):
            return Type("struct", parts=tuple(Column(f.name, _type(f.field_type)) for f in parts))
        case _:
            return Type(_NAMES[found])


def check_paths(name: TableName, schema: Schema) -> None:
    """Raise SchemaConflict where a column has the path of a field within another: Iceberg finds fields by it."""
    known: dict[str, str] = {}
    for path, called in _paths(schema):
        other = known.setdefault(path, called)
        if other != called:
            raise SchemaConflict(
                f"{name}: a column and a field within another one have the same path",
                found=f"{other} and {called} are both {path}, by which Iceberg finds them",
                todo="Nothing of this batch was applied; other tables go on. Let the source rename one of them, or "
                "declare the column with the field as a `string`.",
            )


def _paths(columns: Iterable[Column], path: str = "", inside: str = "") -> Iterator[tuple[str, str]]:
    """Give the path of each column and of each field within one, and what tells it from all others."""
    for column in columns:
        called = f"the field {column.name!r} of {inside}" if inside else f"the column {column.name!r}"
        yield f"{path}{column.name}", called
        yield from _paths(column.type.parts, f"{path}{column.name}.", called)


def to_iceberg(schema: Schema) -> IcebergSchema:
    """Return columns as a schema of Iceberg; each may be NULL."""
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
