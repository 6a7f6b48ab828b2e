"""Building blocks of Spark SQL for expressions over structs and arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.events import Sequences
from lakeward.core.schema import Schema, Type


def place_type(sequences: Sequences) -> str:
    """Return the SQL type of a position within an epoch.

    >>> place_type(Sequences.TIMES)
    'struct<s:bigint,o:bigint,r:bigint>'
    """
    return f"struct<s:{names.sequence_type(sequences)},o:bigint,r:bigint>"


def cells_type(schema: Schema) -> str:
    """Return the SQL type of the cells of a row, named c0, c1, …"""
    return f"struct<{','.join(f'c{i}:{ddl(c.type)}' for i, c in enumerate(schema))}>"


def struct(fields: Mapping[str, str]) -> str:
    """Return SQL for a struct of these fields.

    >>> struct({"a": "1"})
    "named_struct('a', 1)"
    """
    listed = [f"'{name}', {value}" for name, value in fields.items()]
    return f"named_struct({', '.join(listed)})"


def let(bound: Mapping[str, str], body: str) -> str:
    """Return SQL that evaluates these values once, in order, and binds them to names.

    Each name is the accumulator of an `aggregate` over an empty array. With `transform(array(value), name ->
    body)[0]` Spark would ask for the type of the item in each row, and compute it from the whole body each time.
    """
    for name, value in reversed(list(bound.items())):
        body = f"aggregate({_NOTHING}, {value}, (a, b) -> a, {name} -> {body})"
    return body


def canonical(value: str, type_: Type, depth: int = 0) -> str:
    """Return SQL for a form of a value that is equal, as a value and as text, if `<=>` holds for the values.

    This is `lakeward.core.events.canonical`: a map, which Spark cannot compare, becomes its entries in key order,
    and -0.0 becomes 0.0. NULLs are kept.
    """
    if type_.name in _FLOATS:
        return f"CASE WHEN {value} = 0 THEN abs({value}) ELSE {value} END"
    if not (has_map(type_) or _has(type_, _FLOATS)):
        return value
    part, inner = f"x{depth}", depth + 1
    if type_.name == "struct":
        fields = [canonical(f"{value}.{quoted(p.name)}", p.type, inner) for p in type_.parts]
        converted = struct({f"f{index}": sql for index, sql in enumerate(fields)})
        return f"CASE WHEN {value} IS NOT NULL THEN {converted} END"
    if type_.name == "list":
        return f"transform({value}, {part} -> {canonical(part, type_.parts[0].type, inner)})"
    entry = zip(("key", "value"), type_.parts, strict=True)
    key, content = (canonical(f"{part}.{name}", of.type, inner) for name, of in entry)
    return f"array_sort(transform(map_entries({value}), {part} -> {struct({'k': key, 'v': content})}))"


def has_map(type_: Type) -> bool:
    """Return whether values of a type are maps or contain maps."""
    return _has(type_, ("map",))


def _has(type_: Type, types: Collection[str]) -> bool:
    return type_.name in types or any(_has(part.type, types) for part in type_.parts)


_FLOATS: Final = ("float", "double")
_NOTHING: Final = "CAST(array() AS array<int>)"


NO_IDS: Final = "CAST(array() AS array<bigint>)"


def note(ids: str, when: str) -> str:
    """Return SQL for a list of IDs, with the ID of the event `e` added if a condition holds."""
    return f"CASE WHEN {when} THEN array_append({ids}, e.id) ELSE {ids} END"
