"""Types are read as they are written, and how two schemas differ is said in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.core.errors import ConfigError
from lakeward.core.schema import (
    FOLLOWING,
    SCALARS,
    Column,
    Kind,
    Policies,
    Policy,
    Schema,
    Type,
    compare,
    evolve,
    parse_type,
)


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


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("int", "bigint", Kind.WIDEN),
        ("bigint", "int", Kind.NARROW),
        ("float", "double", Kind.WIDEN),
        ("decimal(8,2)", "decimal(10,2)", Kind.WIDEN),
        ("decimal(10,2)", "decimal(8,2)", Kind.NARROW),
        ("decimal(8,2)", "decimal(10,4)", Kind.RETYPE),
        ("int", "double", Kind.RETYPE),
        ("int", "string", Kind.RETYPE),
        ("timestamp", "timestamp_ntz", Kind.RETYPE),
        ("list<int>", "list<bigint>", Kind.RETYPE),
    ],
)
def test_a_type_becomes_wider_or_narrower_or_another(before: str, after: str, kind: Kind) -> None:
    (change,) = compare(columns(a=before), columns(a=after))
    assert change.kind is kind


def test_a_table_follows_by_default() -> None:
    found = evolve(columns(id="int", a="string"), columns(id="bigint", b="date"), FOLLOWING, ["id"])
    assert found.schema == columns(id="bigint", a="string", b="date")
    assert [change.kind for change in found.changes] == [Kind.ADD, Kind.WIDEN]
    assert (found.absent, found.ignored, found.refused) == (("a",), (), ())


def test_what_no_policy_allows_is_refused_and_the_key_never_goes() -> None:
    strict = Policies(add=Policy.FAIL, drop=Policy.FAIL, widen=Policy.FAIL)
    found = evolve(columns(id="int", a="string"), columns(id="bigint", b="date"), strict, ["id"])
    assert {change.kind for change in found.refused} == {Kind.ADD, Kind.DROP, Kind.WIDEN}
    assert [str(c) for c in evolve(columns(id="int"), columns(), FOLLOWING, ["id"]).refused] == [
        "column id (int) is missing"
    ]
    assert evolve(columns(a="int"), columns(a="string"), Policies(narrow=Policy.EVOLVE)).refused


def test_a_table_does_without_a_column_or_keeps_its_wider_type() -> None:
    lenient = Policies(add=Policy.IGNORE, narrow=Policy.EVOLVE)
    found = evolve(columns(a="bigint"), columns(a="int", b="date"), lenient)
    assert (found.schema, found.changes, found.ignored) == (columns(a="bigint"), (), ("b",))


SCHEMAS = st.dictionaries(st.sampled_from("abcd"), TYPES, max_size=4).map(
    lambda types: Schema(tuple(Column(name, type_) for name, type_ in types.items()))
)


@given(SCHEMAS, SCHEMAS)
def test_an_evolution_loses_no_column_and_makes_no_type_narrower(current: Schema, incoming: Schema) -> None:
    """And once the table has followed, the same columns change nothing any more."""
    found = evolve(current, incoming, FOLLOWING)
    assert set(found.schema.names) == set(current.names) | set(incoming.names)
    for change in compare(current, found.schema):
        assert change.kind in (Kind.ADD, Kind.WIDEN)
    again = evolve(found.schema, incoming, FOLLOWING)
    assert again.changes == ()
    assert again.absent == found.absent
