"""lakeward's types and Spark's, one for one."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as spark

from lakeward.core.schema import Column, Schema, Type

_SCALARS: Final[dict[str, spark.DataType]] = {
    "boolean": spark.BooleanType(),
    "int": spark.IntegerType(),
    "bigint": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "string": spark.StringType(),
    "binary": spark.BinaryType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
}


def to_spark(type_: Type) -> spark.DataType:
    """Return the Spark type of a column type."""
    parts = [to_spark(part.type) for part in type_.parts]
    match type_.name:
        case "decimal":
            return spark.DecimalType(type_.precision, type_.scale)
        case "list":
            return spark.ArrayType(parts[0])
        case "map":
            return spark.MapType(parts[0], parts[1])
        case "struct":
            fields = zip(type_.parts, parts, strict=True)
            return spark.StructType([spark.StructField(part.name, data) for part, data in fields])
        case name:
            return _SCALARS[name]


def to_struct(schema: Schema) -> spark.StructType:
    """Return the Spark schema of a table's columns."""
    return spark.StructType([spark.StructField(c.name, to_spark(c.type)) for c in schema])


def ddl(type_: Type) -> str:
    """Return a type as Spark's SQL writes it."""
    return to_spark(type_).simpleString()


def has_cheap_bounds(column: Column) -> bool:
    """Whether the least and greatest value of a column take no sort to find."""
    return column.type.name in ("int", "bigint", "date", "timestamp", "timestamp_ntz", "decimal")
