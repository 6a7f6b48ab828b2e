"""Align frames with the current columns of a table: new names, and the fields of nested values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl_of, to_spark
from lakeward.core.schema import Schema, Type

_Paths: TypeAlias = frozenset[tuple[str, ...]]


def fitted(frame: DataFrame, schema: Schema, without: _Paths = frozenset()) -> DataFrame:
    """Return a frame whose nested columns have the types of a schema: fields by name, NULL if missing.

    Fields that the schema lacks are dropped. A value of another type is cast, which suits wider types, and is NULL
    at a path of `without`. Other columns, and frames that fit, are unchanged.
    """
    nested = {column.name: to_spark(column.type) for column in schema if column.type.is_nested}
    return _with_types(frame, nested, without)


def alike(frame: DataFrame, other: DataFrame) -> DataFrame:
    """Return a frame whose nested columns have the types that they have in another frame."""
    nested = (spark.StructType, spark.ArrayType, spark.MapType)
    return _with_types(frame, {f.name: f.dataType for f in other.schema.fields if isinstance(f.dataType, nested)})


def _with_types(frame: DataFrame, nested: Mapping[str, spark.DataType], without: _Paths = frozenset()) -> DataFrame:
    types = {field.name: field.dataType for field in frame.schema.fields} if nested else {}
    misfits = {
        name: type_ for name, type_ in nested.items() if name in types and not _is_alike(types[name], type_)
    }
    if not misfits:
        return frame
    fit = _Fit(without, count())
    cast = {name: fit.value(quoted(name), types[name], type_, (name,)) for name, type_ in misfits.items()}
    return frame.selectExpr(*[f"{cast[n]} AS {quoted(n)}" if n in cast else quoted(n) for n in frame.columns])


def _is_alike(one: spark.DataType, other: spark.DataType) -> bool:
    """Return whether types are equal apart from their nullability."""
    return ddl_of(one) == ddl_of(other)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Writes SQL for values of another type; `numbers` makes names for the parts of lists and maps unique."""

    without: _Paths
    numbers: Iterator[int]

    def value(self, value: str, has: spark.DataType, wanted: spark.DataType, path: tuple[str, ...]) -> str:
        if _is_alike(has, wanted):
            return value
        if path in self.without:
            return _null(wanted)
        if isinstance(has, spark.StructType) and isinstance(wanted, spark.StructType):
            return self._struct(value, has, wanted, path)
        part = f"x{next(self.numbers)}"
        if isinstance(has, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
            converted = self.value(part, has.elementType, wanted.elementType, (*path, "element"))
            return f"transform({value}, {part} -> {converted})"
        if isinstance(has, spark.MapType) and isinstance(wanted, spark.MapType):
            converted = self.value(part, has.valueType, wanted.valueType, (*path, "value"))
            return f"transform_values({value}, (k, {part}) -> {converted})"
        return f"CAST({value} AS {ddl_of(wanted)})"

    def _struct(self, value: str, has: spark.StructType, wanted: spark.StructType, path: tuple[str, ...]) -> str:
        present = {field.name: field.dataType for field in has.fields}
        fields = [
            self.value(f"{value}.{quoted(f.name)}", present[f.name], f.dataType, (*path, f.name))
            if f.name in present
            else _null(f.dataType)
            for f in wanted.fields
        ]
        listed = ", ".join(
            f"{text(f.name)}, {value_sql}" for f, value_sql in zip(wanted.fields, fields, strict=True)
        )
        return f"CASE WHEN {value} IS NOT NULL THEN named_struct({listed}) END"


def stored_value_column(name: str) -> str:
    """Return the name of the column with the stored value of a column."""
    return quoted(f"_lakeward_kept_{name}")


def complete_structs(frame: DataFrame, schema: Schema, lacking: Sequence[tuple[str, ...]]) -> DataFrame:
    """Return a frame whose new struct values, which lack the fields at these paths, have the stored fields."""
    completed = {}
    for name in {path[0] for path in lacking}:
        own = schema.find(name)
        if own is not None:
            inner = [path[1:] for path in lacking if path[0] == name]
            value = _completed(quoted(name), stored_value_column(name), own.type, inner)
            completed[name] = f"{value} AS {quoted(name)}"
    stored = {stored_value_column(name) for name in completed}
    own_columns = [name for name in frame.columns if quoted(name) not in stored]
    return frame.selectExpr(*[completed.get(name, quoted(name)) for name in own_columns])


def _completed(new: str, stored: str, type_: Type, lacking: Sequence[tuple[str, ...]]) -> str:
    """Return SQL for a struct with stored values in the fields that it lacks, at any depth; NULL stays NULL."""
    fields = []
    for part in type_.parts:
        inner = [path[1:] for path in lacking if path[0] == part.name]
        new_value, stored_value = f"{new}.{quoted(part.name)}", f"{stored}.{quoted(part.name)}"
        if () in inner:
            value = stored_value
        else:
            value = _completed(new_value, stored_value, part.type, inner) if inner else new_value
        fields.append(f"{text(part.name)}, {value}")
    return f"CASE WHEN {new} IS NOT NULL THEN named_struct({', '.join(fields)}) END"


def _null(type_: spark.DataType) -> str:
    return f"CAST(NULL AS {ddl_of(type_)})"


def rename_columns(frame: DataFrame, renames: Mapping[str, str]) -> DataFrame:
    """Return a frame with its columns renamed, and with the fields of an old key renamed."""
    has = set(frame.columns)
    named = {old: new for old, new in renames.items() if old in has and new not in has}
    columns = [f"{quoted(n)} AS {quoted(named.get(n, n))}" for n in frame.columns]
    if names.OLD in has:
        place = frame.columns.index(names.OLD)
        fields = frame.schema[names.OLD].dataType
        if isinstance(fields, spark.StructType):
            inner = [f"{quoted(_current_name(f, renames))}:{ddl_of(f.dataType)}" for f in fields.fields]
            named |= {
                f.name: _current_name(f, renames) for f in fields.fields if _current_name(f, renames) != f.name
            }
            columns[place] = f"CAST({names.OLD} AS struct<{','.join(inner)}>) AS {names.OLD}"
    return frame.selectExpr(*columns) if named else frame


def _current_name(field: spark.StructField, renames: Mapping[str, str]) -> str:
    return renames.get(field.name, field.name)
