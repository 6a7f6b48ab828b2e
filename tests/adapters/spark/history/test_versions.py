"""When two values of versions count as equal."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.spark.history.versions import equal
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.schema import parse_type

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

AB, BA = "map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"
CASES = [
    ("map<string,int>", "map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", True),
    ("map<string,int>", "map('a', 1)", "map('a', 2)", False),
    ("map<string,int>", "map('a', 1)", "map('a', NULL)", False),
    ("map<string,int>", "map()", "NULL", False),
    ("map<string,int>", "NULL", "NULL", True),
    ("map<string,map<string,int>>", "map('a', map('b', 1))", "map('a', map('b', 1))", True),
    ("map<string,map<string,int>>", "map('a', map('b', 1))", "map('a', map('b', 2))", False),
    ("map<string,map<string,int>>", f"map('z', NULL, 'a', {AB})", f"map('a', {BA}, 'z', NULL)", True),
    ("map<string,map<string,int>>", "map('a', map())", "map('a', NULL)", False),
    ("struct<m: map<string,int>>", f"named_struct('m', {AB})", f"named_struct('m', {BA})", True),
    ("struct<m: map<string,int>>", f"named_struct('m', {AB})", "named_struct('m', map('a', 2, 'b', 1))", False),
    ("struct<m: map<string,int>>", "named_struct('m', map())", "NULL", False),
    (
        "struct<`a.b`: list<map<string,int>>>",
        f"named_struct('a.b', array({AB}))",
        f"named_struct('a.b', array({BA}))",
        True,
    ),
    ("list<map<string,int>>", f"array({AB}, NULL)", f"array({BA}, NULL)", True),
    ("list<map<string,int>>", f"array({AB}, NULL)", f"array(NULL, {BA})", False),
    ("list<map<int,double>>", "array(map(1, double('-0.0')))", "array(map(1, double('0.0')))", True),
    ("list<map<int,double>>", "array(map(1, double('NaN')))", "array(map(1, double('NaN')))", True),
    ("list<int>", "array(1, NULL)", "array(1, NULL)", True),
    ("double", "double('NaN')", "double('NaN')", True),
]


def test_entries_of_maps_have_no_order_and_null_is_equal_to_null(spark: SparkSession) -> None:
    said = []
    for i, (type_, *both, _) in enumerate(CASES):
        left, right = (f"CAST({value} AS {ddl(parse_type(type_))})" for value in both)
        said.append(f"{equal(left, right, parse_type(type_))} AS c{i}")
    (row,) = spark.range(1).selectExpr(*said).collect()
    assert list(row) == [is_equal for *_, is_equal in CASES]
