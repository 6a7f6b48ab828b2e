"""How many parts the rows of a large batch are worked on in, and where they are kept.

A heap of 1 GiB holds what two tasks sort of some ten thousand rows each; of a million each, it holds hardly the
buffers that read back what they had to spill.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

ROWS_A_PART: Final = 50_000
BYTES_IN_MEMORY: Final = 32 * 1024 * 1024
_PARTS: Final = "spark.sql.shuffle.partitions"
_LARGE: Final = 4 * 1024 * 1024


@contextmanager
def spread(spark: SparkSession, rows: int) -> Iterator[None]:
    """Have a shuffle of so many rows make parts of `ROWS_A_PART` each, and no fewer than else."""
    usual = int(spark.conf.get(_PARTS) or 0)
    spark.conf.set(_PARTS, max(usual, _parts(rows)))
    try:
        yield
    finally:
        spark.conf.set(_PARTS, usual)


def parted(frame: DataFrame, by: str, rows: int) -> DataFrame:
    """Return a frame of so many rows in as many parts, by a column, where they are many; else as it is.

    What is kept of it is kept part by part, and a task holds the part that it reads: two of some million rows, as
    large files make them, would leave no memory to work in. What is grouped by that column next is not moved again.
    """
    return frame.repartition(_parts(rows), by) if rows > ROWS_A_PART else frame


def spread_lines(lines: DataFrame, files: int, number: str) -> DataFrame:
    """Return the lines of so many files, of which each was read by one task, over as many tasks as are worth it.

    Of few large files the lines are moved, by the column with their `number`, so that all cores take them apart:
    that costs more than to read them.
    """
    cores = lines.sparkSession.sparkContext.defaultParallelism
    if files < cores and size_of(lines) >= _LARGE:
        return lines.repartition(cores, number)
    return lines.coalesce(2 * cores)


def size_of(frame: DataFrame) -> int:
    """Return how many bytes Spark takes a frame for: those of its files, where nothing else is known."""
    statistics = cast("Any", frame)._jdf.queryExecution().optimizedPlan().stats()
    return int(str(statistics.sizeInBytes()))


def level_of(size: int) -> StorageLevel:
    """Return where the rows of files of so many bytes are kept: of large ones on disk alone.

    What Spark keeps in memory it gathers there part by part, and a part is what a task reads: of files of some
    hundred megabytes, those of two tasks may leave no memory to either, and none that could be taken from them.
    """
    return StorageLevel.MEMORY_AND_DISK_DESER if size <= BYTES_IN_MEMORY else StorageLevel.DISK_ONLY


def _parts(rows: int) -> int:
    return 1 + rows // ROWS_A_PART
