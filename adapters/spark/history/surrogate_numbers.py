"""Assign surrogate numbers to new versions, partition by partition of a frame.

The rows of each partition are counted first, and each partition gets as many numbers of its own. So no row is sent
to the driver, and no row is shuffled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_IS_NEW: Final = "fresh.number IS NULL"
_INDEX_IN_PARTITION: Final = f"monotonically_increasing_id() & {(1 << 33) - 1}L"
"""SQL: the index of a row in its partition, from 0. The upper bits of a row ID are the partition number."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """The number before the first new version of each partition, and how many numbers are assigned.

    `behind` is empty if there are no new versions, or the history has no numbers.
    """

    behind: Mapping[int, int]
    given: int = 0

    @classmethod
    def of(cls, fresh: DataFrame, highest: int) -> Self:
        """Count the new versions in each partition, and number them from `highest` + 1.

        The frame must be materialized: its partitions must have the same rows in the same order at each evaluation.
        Then a repeated query or a repeated task gets the same numbers.
        """
        counts = fresh.where(_IS_NEW).groupBy(F.spark_partition_id().alias("part")).count().collect()
        behind, last = {}, highest
        for partition, versions in sorted(tuple(row) for row in counts):
            behind[partition], last = last, last + versions
        return cls(behind, last - highest)

    def give(self, fresh: DataFrame) -> DataFrame:
        """Return the versions; the new ones have their numbers."""
        if not self.behind:
            return fresh
        offsets = ", ".join(f"{self.behind.get(partition, 0)}L" for partition in range(max(self.behind) + 1))
        number = f"array({offsets})[spark_partition_id()] + ({_INDEX_IN_PARTITION}) + 1"
        new = fresh.where(_IS_NEW).withColumn("fresh", F.col("fresh").withField("number", F.expr(number)))
        return fresh.where(f"NOT ({_IS_NEW})").union(new)


NOTHING: Final = Numbering({})
"""The numbering of versions that have no numbers."""
