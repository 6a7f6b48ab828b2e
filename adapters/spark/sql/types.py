"""Convert between lakeward's types and Spark's, one for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import types as spark

from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.schema import UNDECLARED, Type

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
    UNDECLARED.name: spark.StringType(),
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


def ddl(type_: Type) -> str:
    """Return a type as Spark SQL writes it."""
    return ddl_of(to_spark(type_))


def ddl_of(type_: spark.DataType) -> str:
    """Return a Spark type as SQL writes it. Field names come from a source, so they are quoted.

    >>> ddl_of(spark.StructType().add("zip-code", spark.IntegerType()))
    'struct<`zip-code`:int>'
    """
    match type_:
        case spark.ArrayType(elementType=element):
            return f"array<{ddl_of(element)}>"
        case spark.MapType(keyType=key, valueType=value):
            return f"map<{ddl_of(key)},{ddl_of(value)}>"
        case spark.StructType(fields=fields):
            return f"struct<{','.join(f'{quoted(field.name)}:{ddl_of(field.dataType)}' for field in fields)}>"
        case _:
            return str(type_.simpleString())


_AS_NUMBER: Final[Mapping[str, str]] = {
    "int": "{0}",
    "bigint": "{0}",
    "decimal": "{0}",
    "date": "unix_date({0})",
    "timestamp": "unix_micros({0})",
    "timestamp_ntz": "unix_micros(CAST({0} AS timestamp))",
}
_FROM_NUMBER: Final[Mapping[str, str]] = {
    "date": "date_from_unix_date({0})",
    "timestamp": "timestamp_micros({0}L)",
    "timestamp_ntz": "CAST(timestamp_micros({0}L) AS timestamp_ntz)",
}
"""Times are passed as numbers: as Python values they would be converted to the zone of this machine. Sessions are
in UTC.
"""


def is_bounded(type_: Type) -> bool:
    """Return whether the bounds of values of a type can be computed without a sort."""
    return type_.name in _AS_NUMBER


def bound_of(value: str, type_: Type) -> str | None:
    """Return SQL for a value as a number, or None for a type whose bounds need a sort."""
    return _AS_NUMBER[type_.name].format(value) if is_bounded(type_) else None


def from_bound(bound: object, type_: Type) -> str:
    """Return SQL for the value of a bound that `bound_of` made."""
    return _FROM_NUMBER.get(type_.name, f"CAST('{{0}}' AS {ddl(type_)})").format(bound)
