"""Types are read as they are written, and how two schemas differ is said in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.core.errors import ConfigError
from lakeward.core.schema import SCALARS, Column, Schema, Type, compare, parse_type


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


@given(TYPES)
def test_a_type_is_read_as_it_is_shown(type_: Type) -> None:
    assert parse_type(str(type_)) == type_


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("BIGINT", "bigint"),
        (" decimal( 12 , 2 ) ", "decimal(12,2)"),
        ("list<struct<a: int, `b c`: map<string, date>>>", "list<struct<a: int, b c: map<string, date>>>"),
        ("timestamp_ntz", "timestamp_ntz"),
    ],
)
def test_blanks_and_case_do_not_matter(text: str, shown: str) -> None:
    assert str(parse_type(text)) == shown


NUMBERS = ["decimal", "decimal(0,0)", "decimal(39,0)", "decimal(5,6)", "decimal(5)", "decimal(5,2", "int(4)"]
PARTS = ["list", "list<>", "list<int", "map<int>", "struct<>", "struct<a>", "struct<a int>"]


@pytest.mark.parametrize("text", ["", "integer", "int int", "int;", *NUMBERS, *PARTS])
def test_what_is_no_type_is_refused_with_all_that_are(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a type") as refused:
        parse_type(text)
    assert all(name in str(refused.value.todo) for name in SCALARS)


def test_columns_in_another_order_are_no_change() -> None:
    assert compare(columns(a="int", b="string"), columns(b="string", a="int")) == ()


def test_each_difference_is_named() -> None:
    changes = compare(columns(a="int", b="string", c="date"), columns(a="bigint", c="date", d="double"))
    assert [str(change) for change in changes] == [
        "column d (double) is new",
        "column b (string) is missing",
        "column a was int and is bigint",
    ]


def test_a_name_in_another_case_is_another_column() -> None:
    assert len(compare(columns(ID="int"), columns(id="int"))) == 2


def test_a_difference_within_a_nested_type_is_one() -> None:
    (change,) = compare(columns(a="struct<x: int>"), columns(a="struct<x: int, y: int>"))
    assert str(change) == "column a was struct<x: int> and is struct<x: int, y: int>"
