"""SQL functions in Python that parse JSON, for Spark 3.5.

Spark 3.5 has no VARIANT, which keeps numbers exactly. These functions give the results that VARIANT gives. The SQL
of `lakeward.adapters.sources.messages.message` calls them on Spark 3.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, MapType, StructType

from lakeward.adapters.sources.messages.json.variant_values import (
    Number,
    Object,
    is_double,
    object_of,
    text_in,
    value_of,
)
from lakeward.adapters.sources.messages.message import IN_PYTHON, IS_NUMBER_IN_PYTHON, IS_ROUNDED_IN_PYTHON, ROWS
from lakeward.adapters.spark.session.compatibility import line

Shape: TypeAlias = "str | Mapping[str, Shape]"
"""The shape of a parsed value: `CELLS`, `TEXT`, or an object of such parts."""

CELLS: Final = "cells"
TEXT: Final = "text"


def register_functions(spark: SparkSession) -> None:
    """Register the functions in a session of Spark 3.5; do nothing in any other."""
    if line() != "3.5":
        return
    for type_, name in IN_PYTHON.items():
        returned = spark.createDataFrame([], f"it {type_}, broken string").schema
        spark.udf.register(name, partial(parse_in_shape, shape=_shape(returned["it"].dataType)), returned)
    spark.udf.register(IS_NUMBER_IN_PYTHON, is_number, "boolean")
    spark.udf.register(IS_ROUNDED_IN_PYTHON, is_rounded, "boolean")


def _shape(type_: DataType) -> Shape:
    if isinstance(type_, StructType):
        return {field.name: _shape(field.dataType) for field in type_}
    return CELLS if isinstance(type_, MapType) else TEXT


def parse_in_shape(value: str | None, shape: Shape) -> tuple[Any, str | None]:
    """Return the object of a text in a shape, and the text itself if it is no object.

    A part that has another shape is None.

    >>> parse_in_shape('{"id":1.10,"of":{"b":1,"a":null}}', CELLS)
    ({'id': '1.1', 'of': '{"a":null,"b":1}'}, None)
    >>> parse_in_shape("[1]", CELLS)
    (None, '[1]')
    """
    if value is None:
        return None, None
    try:
        parsed = value_of(value)
        is_broken = not isinstance(parsed, dict | None)
        return (None, value) if is_broken else (_in_shape(parsed, shape), None)
    except (ValueError, RecursionError):
        return None, value


def _in_shape(value: Any, shape: Shape) -> Any:
    if shape == TEXT:
        return text_in(value)
    if not isinstance(value, dict):
        return None
    if isinstance(shape, str):
        return {name: text_in(inner) for name, inner in value.items()}
    return tuple(_in_shape(value.get(name), of) for name, of in shape.items())


def is_number(cell: str, name: str, *messages: str | None) -> bool:
    """Return whether a cell of that name is a number in a message, and not a text."""
    return any(
        not _is_text(row[name]) and text_in(row[name]) == cell
        for row in _parts(messages, ROWS)
        if row.get(name) is not None
    )


def is_rounded(cell: str, messages: Sequence[str | None]) -> bool:
    """Return whether a cell is a number that was converted to a double."""
    rows = _parts(messages, (*ROWS, ("data",)))
    return any(is_double(value) and text_in(value) == cell for row in rows for value in row.values())


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def _parts(messages: Sequence[str | None], paths: Sequence[Sequence[str]]) -> Sequence[Object]:
    """Return the objects at the given paths in messages."""
    parts = []
    for message in messages:
        for path in paths:
            part: Any = object_of(message)
            for name in path:
                part = part.get(name) if isinstance(part, dict) else None
            if isinstance(part, dict):
                parts.append(part)
    return parts
