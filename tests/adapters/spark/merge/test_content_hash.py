"""What events say is told apart by a hash, also where it differs deep within a value."""

from __future__ import annotations

import pytest
from merge_plans import make_plan
from pyspark.sql import SparkSession

from lakeward.adapters.spark.merge.resolution import hashed
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Column, Schema, Type, parse_type

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

LATE, LATER = (f"timestamp('2026-11-21 10:00:00.00000{n} UTC')" for n in (1, 2))
CASES = [
    ("map<string,int>", "map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", True),
    (
        "struct<m: map<string,int>>",
        "named_struct('m', map('a', 1, 'b', 2))",
        "named_struct('m', map('b', 2, 'a', 1))",
        True,
    ),
    ("map<string,timestamp>", f"map('a', {LATE})", f"map('a', {LATER})", False),
    ("struct<x: int, y: int>", "named_struct('x', 1, 'y', NULL)", "named_struct('x', NULL, 'y', 1)", False),
    ("list<int>", "array(1, NULL)", "array(1)", False),
    ("list<list<int>>", "array(array(1), array(2))", "array(array(1, 2))", False),
    ("list<double>", "array(double('-0.0'), double('NaN'))", "array(double('0.0'), double('NaN'))", True),
    ("double", "double('-0.0')", "double('0.0')", True),
    ("list<int>", "array()", "NULL", False),
]


def plan(type_: Type) -> MergePlan:
    schema = Schema((Column("id", Type("int")), Column("value", type_)))
    return make_plan(Dimension(name=TableName("shop", "item"), schema=schema, key=("id",)), creates=True)


def test_contents_are_the_same_where_their_values_are_equal(spark: SparkSession) -> None:
    for type_, one, other, is_equal in CASES:
        made = plan(parse_type(type_))
        rows = spark.sql(
            " UNION ALL ".join(
                f"SELECT 'update' AS {names.OPERATION}, 1 AS id, CAST({value} AS {ddl(parse_type(type_))}) AS value"
                for value in (one, other)
            )
        )
        left, right = (row[0] for row in rows.selectExpr(f"xxhash64({hashed(made)})").collect())
        assert (left == right) is is_equal, (type_, one, other)
