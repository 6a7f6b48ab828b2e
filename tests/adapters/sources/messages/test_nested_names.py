"""Fields of objects in other letters than the struct of their column has them."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.sources.files.local.values.nested_values import nested_reader
from lakeward.adapters.sources.messages.json.wire_format import Writing, value_of
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.core.schema import parse_type

TYPE = parse_type("struct<a: int, In: struct<b: int>>")

VALUES = {
    '{"a":1,"In":{"b":2}}': True,
    '{"a":1,"other":{"A":2}}': True,
    '{"In":null}': True,
    '{"A":1}': False,
    '{"a":1,"in":{"b":2}}': False,
    '{"a":1,"In":{"B":2}}': False,
}
"""Objects, and whether their fields are named as in the struct."""


@pytest.mark.parametrize(("value", "is_right"), VALUES.items())
def test_a_field_in_another_case_is_left_to_spark(value: str, is_right: bool) -> None:
    read = nested_reader(TYPE)
    if is_right:
        assert set(read(json.loads(value))) == {"a", "In"}
    else:
        with pytest.raises(SparkNeeded):
            read(json.loads(value))


@pytest.mark.spark
def test_a_field_in_another_case_does_not_fit(spark: SparkSession) -> None:
    """Spark alone would leave the field NULL."""
    frame = spark.createDataFrame([(value,) for value in VALUES], "cell string").coalesce(1)
    found = frame.selectExpr("cell", f"{value_of('cell', TYPE, Writing())} IS NOT NULL")
    assert dict(map(tuple, found.collect())) == VALUES
