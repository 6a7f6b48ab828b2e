"""Frames as a table has its columns now: by their new names, nested values with their fields, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from lakeward.adapters.spark import names
from lakeward.adapters.spark.names import quoted, text
from lakeward.adapters.spark.types import to_spark
from lakeward.core.schema import Schema


def fitted(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return a frame whose nested columns have the types of a schema: fields by name, NULL where there is none.

    A field that the schema has not is left out; what it has by another type is cast, which
    is for wider ones. Other columns, and a frame that fits, stay as they are.
    """
    nested = {column.name: to_spark(column.type) for column in schema if column.type.is_nested}
    has = {field.name: field.dataType for field in frame.schema.fields} if nested else {}
    misfits = {name: type_ for name, type_ in nested.items() if name in has and not _is_alike(has[name], type_)}
    if not misfits:
        return frame
    numbers = count()
    made = {name: f"{_value(quoted(name), has[name], type_, numbers)}" for name, type_ in misfits.items()}
    return frame.selectExpr(*[f"{made[n]} AS {quoted(n)}" if n in made else quoted(n) for n in frame.columns])


def _is_alike(one: spark.DataType, other: spark.DataType) -> bool:
    """Whether types are equal, whatever may be NULL in them."""
    return one.simpleString() == other.simpleString()


def _value(value: str, has: spark.DataType, wanted: spark.DataType, numbers: Iterable[int]) -> str:
    if _is_alike(has, wanted):
        return value
    if isinstance(has, spark.StructType) and isinstance(wanted, spark.StructType):
        there = {field.name: field.dataType for field in has.fields}
        fields = [
            f"{text(field.name)}, "
            + (
                _value(f"{value}.{quoted(field.name)}", there[field.name], field.dataType, numbers)
                if field.name in there
                else f"CAST(NULL AS {field.dataType.simpleString()})"
            )
            for field in wanted.fields
        ]
        return f"CASE WHEN {value} IS NOT NULL THEN named_struct({', '.join(fields)}) END"
    part = f"x{next(iter(numbers))}"
    if isinstance(has, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        made = _value(part, has.elementType, wanted.elementType, numbers)
        return f"transform({value}, {part} -> {made})"
    if isinstance(has, spark.MapType) and isinstance(wanted, spark.MapType):
        made = _value(part, has.valueType, wanted.valueType, numbers)
        return f"transform_values({value}, (k, {part}) -> {made})"
    return f"CAST({value} AS {wanted.simpleString()})"


def called_now(frame: DataFrame, renames: Mapping[str, str]) -> DataFrame:
    """Return a frame with columns by their new names, in the struct of an old key, too; those it has of them."""
    has = set(frame.columns)
    named = {old: new for old, new in renames.items() if old in has and new not in has}
    columns = [f"{quoted(n)} AS {quoted(named.get(n, n))}" for n in frame.columns]
    if names.OLD in has:
        place = frame.columns.index(names.OLD)
        fields = frame.schema[names.OLD].dataType
        if isinstance(fields, spark.StructType):
            inner = [f"{quoted(_now(f, renames))}:{f.dataType.simpleString()}" for f in fields.fields]
            named |= {f.name: _now(f, renames) for f in fields.fields if _now(f, renames) != f.name}
            columns[place] = f"CAST({names.OLD} AS struct<{','.join(inner)}>) AS {names.OLD}"
    return frame.selectExpr(*columns) if named else frame


def _now(field: spark.StructField, renames: Mapping[str, str]) -> str:
    return renames.get(field.name, field.name)
