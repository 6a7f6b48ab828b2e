"""Rows that this process reads from a Delta table itself are those that Spark reads, and lie where it says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta.java import Jvm
from lakeward.adapters.formats.delta.writes.data_files import DataFiles
from lakeward.adapters.formats.delta.writes.local_files import find_rows
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.session.compatibility import to_arrow

pytestmark = pytest.mark.spark

_DELETED: Final = (
    "CREATE TABLE {t} (id bigint, name string, at timestamp, price decimal(12,2)) USING delta "
    "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "INSERT INTO {t} SELECT id, concat('n', id), timestamp_micros(id), id / 4 FROM range(0, 9, 1, 1)",
    "DELETE FROM {t} WHERE id IN (1, 2)",
    "DELETE FROM {t} WHERE id = 4",
    "INSERT INTO {t} SELECT id, NULL, NULL, NULL FROM range(4, 20, 1, 1)",
)
_RENAMED: Final = (
    "CREATE TABLE {t} (id int, name string, other string) USING delta TBLPROPERTIES ("
    "'delta.enableDeletionVectors' = 'true', 'delta.enableTypeWidening' = 'true', "
    "'delta.columnMapping.mode' = 'name')",
    "INSERT INTO {t} SELECT CAST(id AS int), 'a', 'b' FROM range(0, 9, 1, 1)",
    "ALTER TABLE {t} RENAME COLUMN name TO third",
    "ALTER TABLE {t} RENAME COLUMN other TO name",
    "ALTER TABLE {t} RENAME COLUMN third TO other",
    "ALTER TABLE {t} ALTER COLUMN id TYPE bigint",
    "ALTER TABLE {t} ADD COLUMN added date",
    "INSERT INTO {t} SELECT id, 'c', 'd', DATE'2026-01-01' FROM range(7, 20, 1, 1)",
)
_COLUMNS: Final = "(id bigint, name string) USING delta"
_ROWS: Final = "INSERT INTO {t} VALUES (1, 'a'), (5, 'b')"


def _made(spark: SparkSession, folder: Path, *statements: str) -> DataFiles:
    for statement in statements:
        spark.sql(statement.format(t=f"delta.`{folder}`"))
    jvm = Jvm(spark)
    return DataFiles(jvm, DiskFolder(folder), jvm.snapshot(str(folder)))


def _found(files: DataFiles, keys: list[int], names: list[str]) -> pa.Table | None:
    return find_rows(files, pa.table({"id": pa.array(keys, pa.int64())}), [*names, "of no table"])


def _sorted(rows: pa.Table) -> list[Any]:
    return sorted(rows.to_pylist(), key=lambda row: (row[FILE], row[POS]))


@pytest.mark.parametrize("statements", [_DELETED, _RENAMED])
def test_rows_of_keys_are_those_of_spark(active: SparkSession, tmp_path: Path, statements: tuple[str, ...]) -> None:
    files = _made(active, tmp_path / "a table", *statements)
    every = active.read.format("delta").load(str(files.table))
    found = _found(files, [0, 1, 4, 8, 11, 99], every.columns)
    assert found is not None
    spelt = f"_metadata.file_path AS {FILE}", f"_metadata.row_index AS {POS}"
    expected = to_arrow(every.where("id IN (0, 1, 4, 8, 11, 99)").selectExpr(*every.columns, *spelt))
    assert _sorted(found) == _sorted(expected)
    assert found.num_rows >= 4


_INT96: Final = "SET spark.sql.parquet.outputTimestampType = INT96"
_OF_SPARK: Final[Mapping[str, tuple[Any, ...]]] = {
    "partitions": (["id"], f"CREATE TABLE {{t}} {_COLUMNS} PARTITIONED BY (name)", _ROWS),
    "columns by their ids": (
        ["id"],
        f"CREATE TABLE {{t}} {_COLUMNS} TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
        _ROWS,
    ),
    "times of another form": (
        ["id", "at"],
        _INT96,
        "CREATE TABLE {t} USING delta AS SELECT 1L AS id, timestamp_micros(1) AS at",
        _INT96.replace("INT96", "TIMESTAMP_MICROS"),
    ),
}


@pytest.mark.parametrize("case", _OF_SPARK)
def test_spark_reads_others(active: SparkSession, tmp_path: Path, case: str) -> None:
    names, *statements = _OF_SPARK[case]
    assert _found(_made(active, tmp_path / "table", *statements), [1], names) is None
