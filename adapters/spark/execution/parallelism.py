"""The number of partitions of a large batch, and the storage level of its rows.

With a heap of 1 GiB two tasks can sort some ten thousand rows each. With a million rows each, the heap hardly holds
the buffers that read spilled rows back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

ROWS_A_PART: Final = 50_000
BYTES_IN_MEMORY: Final = 32 * 1024 * 1024
_PARTITIONS_SETTING: Final = "spark.sql.shuffle.partitions"
_LARGE_BYTES: Final = 4 * 1024 * 1024


@contextmanager
def spread(spark: SparkSession, rows: int) -> Iterator[None]:
    """Set the number of shuffle partitions to one for each `ROWS_A_PART` rows, but at least the usual number."""
    usual = int(spark.conf.get(_PARTITIONS_SETTING) or 0)
    spark.conf.set(_PARTITIONS_SETTING, max(usual, _partition_count(rows)))
    try:
        yield
    finally:
        spark.conf.set(_PARTITIONS_SETTING, usual)


def parted(frame: DataFrame, by: str, rows: int) -> DataFrame:
    """Repartition a frame with this many rows by a column, if it has more than `ROWS_A_PART` rows.

    A cached frame is kept by partition, and a task holds the partition that it reads: two of some million rows, as
    large files make them, would fill the memory. A later grouping by the same column needs no shuffle.
    """
    return frame.repartition(_partition_count(rows), by) if rows > ROWS_A_PART else frame


def spread_lines(lines: DataFrame, files: int, number: str) -> DataFrame:
    """Distribute the lines of this many files, each read by one task, over as many tasks as are worthwhile.

    The lines of few large files are shuffled by the column `number`, so that all cores parse them: parsing costs
    more than reading.
    """
    cores = lines.sparkSession.sparkContext.defaultParallelism
    if files < cores and size_of(lines) >= _LARGE_BYTES:
        return lines.repartition(cores, number)
    return lines.coalesce(2 * cores)


def size_of(frame: DataFrame) -> int:
    """Return the size of a frame in bytes as Spark estimates it: the size of its files, if it knows no more."""
    statistics = cast("Any", frame)._jdf.queryExecution().optimizedPlan().stats()
    return int(str(statistics.sizeInBytes()))


def level_of(size: int) -> StorageLevel:
    """Return the storage level for the rows of files with this many bytes: large ones are kept on disk only.

    Spark collects a cached partition in memory, and a partition is what one task reads. With files of some hundred
    megabytes two tasks may leave each other no memory, and nothing that could be evicted.
    """
    return StorageLevel.MEMORY_AND_DISK_DESER if size <= BYTES_IN_MEMORY else StorageLevel.DISK_ONLY


def _partition_count(rows: int) -> int:
    return 1 + rows // ROWS_A_PART
