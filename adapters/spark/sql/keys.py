"""The key of a row as one text, in SQL: equal where keys are, and as a person writes its values."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.schema import Column, Type


def key_columns(dimension: Dimension) -> Sequence[Column]:
    """Return the columns of the key, in its order."""
    found = [dimension.schema.find(name) for name in dimension.key]
    return [column for column in found if column is not None]


def key_text(columns: Sequence[Column], of: str = "") -> str:
    """Return a key as a JSON list of texts; `of` is the prefix of a struct that has it.

    `core.text.literals.text_of` says the same in Python, but for the digits of floating numbers,
    and reads both.
    """
    return f"to_json(array({', '.join(key_texts([(of + quoted(c.name), c.type) for c in columns]))}))"


def key_texts(columns: Sequence[tuple[str, Type]]) -> Sequence[str]:
    """Return the texts of the parts of a key, given as SQL and with their types."""
    return [_as_text(value, type_) for value, type_ in columns]


def _as_text(value: str, type_: Type) -> str:
    match type_.name:
        case "float" | "double":
            return f"string(CASE WHEN {value} = 0 THEN abs({value}) ELSE {value} END)"  # -0.0 is 0.0
        case "binary":
            return f"concat('0x', lower(hex({value})))"  # as text, two that are none would be one
        case _:
            return f"string({value})"
