"""How many parts the rows of a large batch are worked on in.

A heap of 1 GiB holds what two tasks sort of some ten thousand rows each; of a million each, it holds hardly the
buffers that read back what they had to spill.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

ROWS_A_PART: Final = 50_000
_PARTS: Final = "spark.sql.shuffle.partitions"


@contextmanager
def spread(spark: SparkSession, rows: int) -> Iterator[None]:
    """Have a shuffle of so many rows make parts of `ROWS_A_PART` each, and no fewer than else."""
    usual = int(spark.conf.get(_PARTS) or 0)
    spark.conf.set(_PARTS, max(usual, 1 + rows // ROWS_A_PART))
    try:
        yield
    finally:
        spark.conf.set(_PARTS, usual)
