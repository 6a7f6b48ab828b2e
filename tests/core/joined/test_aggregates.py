"""Aggregates of rows: exact, independent of the order of rows, and without NULL."""

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

COUNT, SUM, MIN, MAX, LATEST = Function


def of(function: Function, *values: object, by: list[object] | None = None) -> object:
    rows = [{"id": index, "v": value, "at": by and by[index]} for index, value in enumerate(values)]
    return aggregated(Aggregate(function, "v", "at" if by else None), rows, ("id",))


@pytest.mark.parametrize(
    ("function", "empty", "result"), [(COUNT, 0, 2), (SUM, None, 3), (MIN, None, 1), (MAX, None, 2)]
)
def test_null_is_no_value_and_without_values_all_but_a_count_are_null(
    function: Function, empty: object, result: object
) -> None:
    assert (of(function), of(function, None, None), of(function, None, 2, 1)) == (empty, empty, result)


def test_a_count_without_a_column_counts_rows() -> None:
    assert aggregated(Aggregate(COUNT), [{"id": 1}, {"id": 2}], ("id",)) == 2


def test_nan_is_greater_than_all_numbers_as_in_spark() -> None:
    greatest = of(MAX, 1.0, nan, 2.0)
    assert isinstance(greatest, float)
    assert isnan(greatest)
    assert of(MIN, nan, 2.0) == 2.0


@given(st.lists(st.integers(-(10**34), 10**34), min_size=1))
def test_sums_of_decimals_are_exact(cents: list[int]) -> None:
    total = of(SUM, *(Decimal(f"{one}E-2") for one in cents))
    assert isinstance(total, Decimal)
    assert Fraction(total) == Fraction(sum(cents), 100)


@pytest.mark.parametrize(
    ("values", "by", "latest"),
    [
        (("a", "b"), [2, 1], "a"),
        (("a", None), [1, 2], None),
        (("a", "b"), [7, 7], "b"),
        (("a", "b"), [0, None], "a"),
    ],
)
def test_the_latest_value_has_the_greatest_time_then_the_greatest_key_and_null_is_least(
    values: tuple[object, ...], by: list[object], latest: object
) -> None:
    assert of(LATEST, *values, by=by) == latest


@pytest.mark.parametrize(
    ("function", "column", "type_"),
    [
        (COUNT, "map<string, int>", "bigint"),
        (SUM, "int", "bigint"),
        (SUM, "bigint", "decimal(38,0)"),
        (SUM, "decimal(12,2)", "decimal(38,2)"),
        (SUM, "double", None),
        (SUM, "string", None),
        (MAX, "string", "string"),
        (MAX, "list<int>", None),
        (LATEST, "list<int>", "list<int>"),
    ],
)
def test_an_aggregate_has_a_type_that_holds_it(function: Function, column: str, type_: str | None) -> None:
    assert type_of(Aggregate(function, "v"), parse_type(column)) == (None if type_ is None else parse_type(type_))
