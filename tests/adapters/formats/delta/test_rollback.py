"""Delta tables that are rolled back, where Delta has ways of its own: columns, vectors, VACUUM, the change feed."""

from __future__ import annotations

from decimal import Decimal

import pytest
from delta_lake import by_duckdb
from deltalake import DeltaTable
from format_project import item, path_of, put, roll_back, versions
from project import ITEM, Project
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

D = Decimal
LAYOUTS = ["", 'write_mode = "copy-on-write"', 'partition_by = ["name"]']
NOW = 'id = "bigint", title = "string", price = "decimal(8,2)"'


@pytest.fixture
def shop(project: Project) -> Project:
    project.kind = "delta"
    project.configure(source="max_files = 1")
    return project


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_that_were_renamed_widened_and_added_since_are_those_of_then(shop: Project, layout: str) -> None:
    shop.configure(item('id = "int", name = "string"', layout), source="max_files = 1")
    put(shop, 10, "Op,id,name", "I,1,a", "I,2,b")
    put(shop, 11, "Op,id,name", "U,1,c", "D,2,b")
    shop.run()
    then = versions(shop)[1]
    more = layout.replace("name", "title") + '\nschema.rename = { name = "title" }'
    shop.configure(item(NOW, more), source="max_files = 1")
    put(shop, 12, "Op,id,title,price", f"U,1,d,1.50\nI,{2**40},e,2.00")
    shop.run()
    after = shop.rows(columns=("id", "title", "price"))
    roll_back(shop, then)
    assert shop.rows(columns=("id", "name")) == [(1, "a"), (2, "b")]
    assert [name for name in by_duckdb(str(path_of(shop))).column_names if not name.startswith("_")] == [
        "id",
        "name",
    ]
    assert [batch["batch"] for batch in shop.run()["shop.item"]["batches"]] == [2, 3]
    assert shop.rows(columns=("id", "title", "price")) == after == [(1, "d", D("1.50")), (2**40, "e", D(2))]
    assert [*versions(shop)] == [2, 1]


@pytest.mark.long
def test_a_column_of_then_that_others_dropped_refuses_it(shop: Project, spark: SparkSession) -> None:
    put(shop, 10, "Op,id,name,price", "I,1,a,1.00")
    shop.run()
    then, name = versions(shop) or DeltaTable(path_of(shop)).version(), f"delta.`{path_of(shop)}`"
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN name")
    shop.configure(item('id = "int", price = "decimal(8,2)", colour = "string"'), source="max_files = 1")
    put(shop, 11, "Op,id,price,colour", "U,1,2.00,red")
    shop.run()
    ended = roll_back(shop, str(then), code=1)
    assert "the column 'name' of then was dropped since" in ended.err
    assert shop.rows(columns=("id", "colour")) == [(1, "red")]


def test_vacuum_ends_the_way_back(shop: Project, spark: SparkSession) -> None:
    shop.configure(ITEM.replace("columns", 'write_mode = "copy-on-write"\ncolumns'), source="max_files = 1")
    for hour, line in ((10, "I,1,a,1.00"), (11, "U,1,b,2.00"), (12, "U,1,c,3.00")):
        put(shop, hour, line)
    shop.run()
    before = versions(shop)
    assert [*before] == [2, 1]
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM delta.`{path_of(shop)}` RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert [*versions(shop)] == [3], "that of the last batch, before the commits of VACUUM"
    assert "were removed, by VACUUM, say" in roll_back(shop, before[2], code=1).err
    assert shop.rows() == [(1, "c", D("3.00"))]
    assert shop.run()["shop.item"]["batches"] == []


@pytest.mark.long
def test_a_compaction_of_another_writer_is_gone_back_to_and_behind(shop: Project, spark: SparkSession) -> None:
    put(shop, 10, "I,1,a,1.00", "I,2,b,2.00", "I,3,c,3.00")
    put(shop, 11, "U,2,y,2.50", "D,3,c,3.00")
    shop.run()
    spark.sql(f"REORG TABLE delta.`{path_of(shop)}` APPLY (PURGE)")
    purged, first = str(DeltaTable(path_of(shop)).version()), versions(shop)[1]
    put(shop, 12, "D,1,a,1.00")
    shop.run()
    roll_back(shop, purged)
    assert shop.rows() == [(1, "a", D("1.00")), (2, "y", D("2.50"))]
    roll_back(shop, first)
    assert [row[0] for row in shop.rows()] == [1, 2, 3]
    shop.run()
    assert shop.rows() == [(2, "y", D("2.50"))]
    put(shop, 13, "I,4,d,4.00")
    shop.run()
    assert [row[0] for row in shop.rows()] == [2, 4]


def test_a_change_data_feed_tells_what_went_and_came(shop: Project, spark: SparkSession) -> None:
    properties = 'properties = { "delta.enableChangeDataFeed" = "true" }\ncolumns'
    shop.configure(ITEM.replace("columns", properties), source="max_files = 1")
    put(shop, 10, "I,1,a,1.00", "I,2,b,2.00")
    put(shop, 11, "U,2,y,2.50", "I,3,c,3.00")
    shop.run()
    roll_back(shop, versions(shop)[1])
    version = DeltaTable(path_of(shop)).version()
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version)
    told = feed.load(str(path_of(shop))).select("_change_type", "id", "name").collect()
    assert sorted(map(tuple, told)) == [("delete", 2, "y"), ("delete", 3, "c"), ("insert", 2, "b")]
