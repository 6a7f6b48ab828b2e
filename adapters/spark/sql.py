"""Pieces of Spark's SQL that expressions over structs and arrays are built of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.adapters.spark import names
from lakeward.adapters.spark.types import ddl
from lakeward.core.events import Sequences
from lakeward.core.schema import Schema


def place_type(sequences: Sequences) -> str:
    """Return the type of a position within an epoch.

    >>> place_type(Sequences.TIMES)
    'struct<s:bigint,o:bigint,r:bigint>'
    """
    return f"struct<s:{names.sequence_type(sequences)},o:bigint,r:bigint>"


def cells_type(schema: Schema) -> str:
    """Return the type of the cells of a row, which are called c0, c1, … there."""
    return f"struct<{','.join(f'c{i}:{ddl(c.type)}' for i, c in enumerate(schema))}>"


def struct(fields: Mapping[str, str]) -> str:
    """Return a struct of these fields, given as SQL.

    >>> struct({"a": "1"})
    "named_struct('a', 1)"
    """
    listed = [f"'{name}', {value}" for name, value in fields.items()]
    return f"named_struct({', '.join(listed)})"


def let(bound: Mapping[str, str], body: str) -> str:
    """Return SQL that works these values out once, in order, and gives them names.

    A name is the accumulator of nothing: of the item of an array, `transform(array(value), name -> body)[0]`, Spark
    asks the type with each row, and that of `transform` is worked out anew from the whole body.
    """
    for name, value in reversed(list(bound.items())):
        body = f"aggregate({_NOTHING}, {value}, (a, b) -> a, {name} -> {body})"
    return body


_NOTHING: Final = "CAST(array() AS array<int>)"


NO_IDS: Final = "CAST(array() AS array<bigint>)"


def note(ids: str, when: str) -> str:
    """Return a list of IDs with that of the event `e`, where a condition holds."""
    return f"CASE WHEN {when} THEN array_append({ids}, e.id) ELSE {ids} END"
