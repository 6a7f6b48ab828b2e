"""The key of a row as one text, in SQL: equal for equal keys, with values as people write them."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.schema import Column, Type


def key_columns(dimension: Dimension) -> Sequence[Column]:
    """Return the columns of the key, in key order."""
    columns = [dimension.schema.find(name) for name in dimension.key]
    return [column for column in columns if column is not None]


def key_text(columns: Sequence[Column], of: str = "") -> str:
    """Return SQL for a key as a JSON list of texts; `of` is the prefix of the struct that has it.

    `core.text.literals.text_of` writes the same in Python, except for the digits of floating-point numbers, and
    reads both.
    """
    return f"to_json(array({', '.join(key_texts([(of + quoted(c.name), c.type) for c in columns]))}))"


def key_texts(columns: Sequence[tuple[str, Type]]) -> Sequence[str]:
    """Return SQL for the texts of the parts of a key, given as SQL with types."""
    return [_as_text(value, type_) for value, type_ in columns]


def _as_text(value: str, type_: Type) -> str:
    match type_.name:
        case "float" | "double":
            return f"string(CASE WHEN {value} = 0 THEN abs({value}) ELSE {value} END)"  # -0.0 equals 0.0
        case "binary":
            return f"concat('0x', lower(hex({value})))"  # as text, different invalid bytes would be equal
        case _:
            return f"string({value})"
