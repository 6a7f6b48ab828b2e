"""Columns by name and type, and types at random."""

from __future__ import annotations

from hypothesis import strategies as st

from lakeward.core.schema import SCALARS, Column, Schema, Type, parse_type


def columns(**types: str) -> Schema:
    return Schema(tuple(Column(name, parse_type(type_)) for name, type_ in types.items()))


SIMPLE = st.sampled_from([Type(name) for name in SCALARS if name != "decimal"])
DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: Type("decimal", precision, scale))
)
TYPES = st.recursive(
    SIMPLE | DECIMALS,
    lambda inner: (
        inner.map(lambda type_: Type("list", parts=(Column("element", type_),)))
        | st.tuples(inner, inner).map(
            lambda pair: Type("map", parts=(Column("key", pair[0]), Column("value", pair[1])))
        )
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: Type("struct", parts=tuple(Column(f"c{i}", part) for i, part in enumerate(parts)))
        )
    ),
    max_leaves=6,
)
