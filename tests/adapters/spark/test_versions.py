"""When two values of versions count as equal."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.spark.versions import equal
from lakeward.core.schema import parse_type

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

CASES = [
    ("map<string,int>", "map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", True),
    ("map<string,int>", "map('a', 1)", "map('a', 2)", False),
    ("map<string,int>", "map('a', 1)", "map('a', NULL)", False),
    ("map<string,int>", "map()", "NULL", False),
    ("map<string,int>", "NULL", "NULL", True),
    ("map<string,map<string,int>>", "map('a', map('b', 1))", "map('a', map('b', 1))", True),
    ("map<string,map<string,int>>", "map('a', map('b', 1))", "map('a', map('b', 2))", False),
    ("list<int>", "array(1, NULL)", "array(1, NULL)", True),
    ("double", "double('NaN')", "double('NaN')", True),
]


def test_entries_of_maps_have_no_order_and_null_is_equal_to_null(spark: SparkSession) -> None:
    said = [
        f"{equal(f'({one})', f'({other})', parse_type(type_))} AS c{i}"
        for i, (type_, one, other, _) in enumerate(CASES)
    ]
    (row,) = spark.range(1).selectExpr(*said).collect()
    assert list(row) == [is_equal for *_, is_equal in CASES]
