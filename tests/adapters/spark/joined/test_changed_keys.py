"""The keys whose state remembered events of a source may have changed, with those that key changes link to them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.spark.joined.touched_keys import find_changed_keys
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Column, Schema, Type

pytestmark = pytest.mark.spark

SCHEMA = Schema((Column("place", Type("int")), Column("name", Type("string"))))
ITEM = Dimension(name=TableName("shop", "item"), schema=SCHEMA, key=("place",))


def test_an_event_also_changes_the_keys_that_later_key_changes_moved_its_row_to(spark: SparkSession) -> None:
    events = [  # key, key before, time and place, batch: the third is late
        (2, 1, 10, 1),
        (3, 2, 20, 1),
        (1, None, 5, 2),
        (7, None, 30, 2),
        (5, 4, 40, 1),
        (4, None, 50, 2),
        (6, None, 60, 1),
    ]
    columns = f"place int, old int, {names.TIME} bigint, {names.BATCH} bigint"
    frame = spark.createDataFrame(events, columns).selectExpr(
        "*",
        f"CASE WHEN old IS NOT NULL THEN named_struct('place', old) END AS {names.OLD}",
        f"{names.TIME} AS {names.SEQUENCE}",
        f"1L AS {names.OBJECT}",
        f"1L AS {names.ROW}",
        "'name' AS name",
    )
    found = find_changed_keys(ITEM, frame, f"{names.BATCH} > 1").groupBy("place").agg({names.TIME: "max"}).collect()
    assert {tuple(row) for row in found} == {(1, 5), (2, 5), (3, 5), (7, 30), (4, 50)}
