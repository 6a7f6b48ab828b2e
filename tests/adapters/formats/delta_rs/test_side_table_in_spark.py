"""What stands beside a table, where it is too much for this process: Spark writes and reads its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta_rs import side_table
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.side_table import DeltaSideTable
from lakeward.adapters.formats.shared.side_tables.side_table import NOTHING
from lakeward.core.dimension import TableName
from lakeward.core.schema import Type

pytestmark = pytest.mark.spark

COLUMNS: Mapping[str, Type] = {
    "kind": Type("string"),
    "_lakeward_batch": Type("bigint"),
    "at": Type("timestamp"),
    "odd name": Type("decimal", 38, 0),
}
ROWS = "SELECT 'a b' AS kind, id AS _lakeward_batch, timestamp_micros(id - 1) at, id `odd name` FROM range({})"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaSideTable:
    monkeypatch.setattr(side_table, "MOST_IN_ARROW", 0)
    places = Places("odd lake", "{schema}", tmp_path)
    return DeltaSideTable(places, TableName("shop", "item"), lambda: spark, "__changes", {}, tuple)


def add(table: DeltaSideTable, spark: SparkSession, rows: int, more: pa.Table = NOTHING) -> None:
    table.add(COLUMNS, [spark.sql(ROWS.format(rows))], more, count=rows, partition_by="kind")


def kinds(table: DeltaSideTable) -> list[tuple[str, int]]:
    rows = table.rows("_lakeward_batch >= 0", ("kind", "_lakeward_batch")).to_pylist()
    return sorted((row["kind"], row["_lakeward_batch"]) for row in rows)


def test_rows_that_spark_wrote_are_those_of_the_table(table: DeltaSideTable, spark: SparkSession) -> None:
    add(table, spark, 2, pa.table({"kind": ["c"], "_lakeward_batch": [7]}))
    assert kinds(table) == [("a b", 0), ("a b", 1), ("c", 7)]
    frame = table.frame("kind = 'a b' AND _lakeward_batch = 1")
    assert frame is not None
    [row] = frame.selectExpr("kind", "unix_micros(at) AS at", "`odd name`", "_lakeward_batch").collect()
    assert tuple(row) == ("a b", 0, 1, 1)
    assert frame.columns == list(COLUMNS)


def test_whole_partitions_are_replaced_and_others_stay(table: DeltaSideTable, spark: SparkSession) -> None:
    add(table, spark, 3, pa.table({"kind": ["c", "d"], "_lakeward_batch": [7, 8]}))
    old = table.frame("kind IN ('a b', 'c') AND _lakeward_batch > 1")
    assert old is not None
    table.replace("kind IN ('a b', 'c')", [old], table.version)
    assert kinds(table) == [("a b", 2), ("c", 7), ("d", 8)]
    table.forget("_lakeward_batch > 7")
    table.expire()
    assert kinds(table) == [("a b", 2), ("c", 7)]


def test_a_table_without_rows_is_a_frame_without_rows(table: DeltaSideTable, spark: SparkSession) -> None:
    assert table.frame("true") is None
    add(table, spark, 0)
    frame = table.frame("true")
    assert frame is not None
    assert (frame.columns, frame.count()) == (list(COLUMNS), 0)
