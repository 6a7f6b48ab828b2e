"""Aggregates are exact: no order of the rows, no rounding and no NULL counts."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.core.joined.aggregates import aggregated, type_of
from lakeward.core.joined.declaration import Aggregate, Function
from lakeward.core.schema import parse_type

KEY = ("id",)


def of(function: Function, *values: object, by: list[object] | None = None) -> object:
    rows = [{"id": place, "v": value, "at": by and by[place]} for place, value in enumerate(values)]
    return aggregated(Aggregate(function, "v", "at" if by else None), rows, KEY)


@pytest.mark.parametrize(
    ("function", "of_none"),
    [(Function.COUNT, 0), *((one, None) for one in (Function.SUM, Function.MIN, Function.MAX))],
)
def test_of_no_value_all_but_a_count_are_null(function: Function, of_none: object) -> None:
    assert of(function) == of_none
    assert of(function, None, None) == of_none


def test_null_is_no_value() -> None:
    assert [of(one, None, 2, 1) for one in (Function.COUNT, Function.SUM, Function.MIN, Function.MAX)] == [
        2,
        3,
        1,
        2,
    ]


def test_a_count_without_a_column_counts_rows() -> None:
    assert aggregated(Aggregate(Function.COUNT), [{"id": 1}, {"id": 2}], KEY) == 2


def test_nan_is_greater_than_all_numbers_as_in_spark() -> None:
    most = of(Function.MAX, 1.0, nan, 2.0)
    assert isinstance(most, float)
    assert isnan(most)
    assert of(Function.MIN, nan, 2.0) == 2.0


@given(st.lists(st.integers(-(10**34), 10**34), min_size=1))
def test_sums_of_decimals_are_exact(cents: list[int]) -> None:
    found = of(Function.SUM, *(Decimal(f"{one}E-2") for one in cents))
    assert isinstance(found, Decimal)
    assert Fraction(found) == Fraction(sum(cents), 100)


def test_the_latest_value_is_that_of_the_greatest_time_and_may_be_null() -> None:
    assert of(Function.LATEST, "a", "b", by=[2, 1]) == "a"
    assert of(Function.LATEST, "a", None, by=[1, 2]) is None


def test_of_equal_times_the_greatest_key_is_the_latest_and_null_is_before_all() -> None:
    assert of(Function.LATEST, "a", "b", by=[7, 7]) == "b"
    assert of(Function.LATEST, "a", "b", by=[0, None]) == "a"


@pytest.mark.parametrize(
    ("function", "column", "type_"),
    [
        (Function.COUNT, "map<string, int>", "bigint"),
        (Function.SUM, "int", "bigint"),
        (Function.SUM, "bigint", "decimal(38,0)"),
        (Function.SUM, "decimal(12,2)", "decimal(38,2)"),
        (Function.SUM, "double", None),
        (Function.SUM, "string", None),
        (Function.MAX, "string", "string"),
        (Function.MAX, "list<int>", None),
        (Function.LATEST, "list<int>", "list<int>"),
    ],
)
def test_an_aggregate_has_a_type_that_holds_it(function: Function, column: str, type_: str | None) -> None:
    found = type_of(Aggregate(function, "v"), parse_type(column))
    assert found == (None if type_ is None else parse_type(type_))
