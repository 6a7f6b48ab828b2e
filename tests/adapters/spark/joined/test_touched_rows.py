"""Which keys remembered events of a source may have touched, where key changes carry rows on."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.spark.joined.touched_rows import carried
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Column, Schema, Type

pytestmark = pytest.mark.spark

SCHEMA = Schema((Column("place", Type("int")), Column("name", Type("string"))))
ITEM = Dimension(name=TableName("shop", "item"), schema=SCHEMA, key=("place",))


def test_an_event_touches_the_keys_that_changes_behind_it_carried_its_row_to(spark: SparkSession) -> None:
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
    found = carried(ITEM, frame, f"{names.BATCH} > 1").groupBy("place").agg({names.TIME: "max"}).collect()
    assert {tuple(row) for row in found} == {(1, 5), (2, 5), (3, 5), (7, 30), (4, 50)}
