"""Types are read as they are written."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from types_of_columns import TYPES

from lakeward.core.errors import ConfigError
from lakeward.core.schema import SCALARS, Column, Type, is_within, parse_type


@given(TYPES)
def test_a_type_is_read_as_it_is_shown(type_: Type) -> None:
    assert parse_type(str(type_)) == type_


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("BIGINT", "bigint"),
        (" decimal( 12 , 2 ) ", "decimal(12,2)"),
        ("list<struct<a: int, `b c`: map<string, date>>>", "list<struct<a: int, `b c`: map<string, date>>>"),
        ("timestamp_ntz", "timestamp_ntz"),
    ],
)
def test_blanks_and_case_do_not_matter(text: str, shown: str) -> None:
    assert str(parse_type(text)) == shown


@given(st.text(min_size=1))
def test_a_field_may_have_any_name(name: str) -> None:
    type_ = Type("struct", parts=(Column(name, Type("int")), Column("b", Type("date"))))
    assert parse_type(str(type_)) == type_


def test_names_that_were_written_without_backticks_are_read() -> None:
    assert parse_type("struct<1st: int, größe: int, _x: int>") == parse_type("struct<`1st`:int,größe:int,`_x`:int>")


def of_digits(type_: Type) -> set[Decimal]:
    """Return the greatest value of a type of whole numbers or decimals, and the least above 0."""
    if type_.name in ("int", "bigint"):
        return {Decimal(2 ** (31 if type_.name == "int" else 63) - 1), Decimal(1)}
    step = Decimal(1).scaleb(-type_.scale)
    return {(10**type_.precision - 1) * step, step}


def holds(type_: Type, value: Decimal) -> bool:
    """Whether a value is one of a type, told by its digits."""
    if type_.name in ("int", "bigint"):
        return value % 1 == 0 and value <= max(of_digits(type_))
    return value <= max(of_digits(type_)) and value.scaleb(type_.scale) % 1 == 0


def test_a_type_is_within_another_that_holds_all_of_its_values() -> None:
    """Of decimals and whole numbers; what a name alone says is no promise that a decimal is a whole number."""
    sizes = [(p, s) for p in (1, 2, 5, 9, 10, 11, 18, 19, 20, 21) for s in (0, 1, 2, 5, 10) if s <= p]
    types = [Type("int"), Type("bigint"), *[Type("decimal", p, s) for p, s in sizes]]
    for one in types:
        for other in types:
            fits = one == other or (other.name != "int" and all(holds(other, v) for v in of_digits(one)))
            is_whole = one.name == "decimal" and other.name == "bigint"
            assert is_within(one, other) is (fits and not is_whole), (one, other)
    assert is_within(Type("float"), Type("double"))
    for narrow, wide in (("double", "float"), ("int", "double"), ("date", "timestamp"), ("string", "binary")):
        assert not is_within(Type(narrow), Type(wide))


NUMBERS = ["decimal", "decimal(0,0)", "decimal(39,0)", "decimal(5,6)", "decimal(5)", "decimal(5,2", "int(4)"]
PARTS = ["list", "list<>", "list<int", "map<int>", "struct<>", "struct<a>", "struct<a int>"]


@pytest.mark.parametrize("text", ["", "integer", "int int", "int;", *NUMBERS, *PARTS])
def test_a_text_that_is_not_a_type_is_refused_with_all_types(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a type") as refused:
        parse_type(text)
    assert all(name in str(refused.value.todo) for name in SCALARS)


@pytest.mark.parametrize("text", ["decimal(80,2)", "decimal(5,6)", "list<decimal(0,0)>"])
def test_an_impossible_decimal_is_refused_with_the_allowed_digits(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a type") as refused:
        parse_type(text)
    assert "decimal(12,2), of 1 to 38 digits, from none to all of them behind the point" in str(refused.value.todo)
