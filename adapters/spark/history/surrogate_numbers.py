"""Surrogate numbers of versions that are new, given part by part of a frame.

Each part says how many it needs, and has as many numbers to itself: no row comes to the driver, and none is moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_IS_NEW: Final = "fresh.number IS NULL"
_IN_ITS_PART: Final = f"monotonically_increasing_id() & {(1 << 33) - 1}L"
"""The place of a row in its part, from 0 on: above that, the ID of a row has the number of the part."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """Behind which number the new versions of each part are numbered, and how many there are; {}: none is."""

    behind: Mapping[int, int]
    given: int = 0

    @classmethod
    def of(cls, fresh: DataFrame, highest: int) -> Self:
        """Count the new among versions that are to be written, to be numbered on from the highest number.

        The frame must be one that is worked out and kept: whenever it is asked, each of its parts has the same rows
        in the same order. So whoever asks again, or has a lost task done again, finds the same numbers.
        """
        new = fresh.where(_IS_NEW).groupBy(F.spark_partition_id().alias("part")).count().collect()
        behind, last = {}, highest
        for part, versions in sorted(tuple(row) for row in new):
            behind[part], last = last, last + versions
        return cls(behind, last - highest)

    def give(self, fresh: DataFrame) -> DataFrame:
        """Return the versions with the numbers of those that are new."""
        if not self.behind:
            return fresh
        listed = ", ".join(f"{self.behind.get(part, 0)}L" for part in range(max(self.behind) + 1))
        number = f"array({listed})[spark_partition_id()] + ({_IN_ITS_PART}) + 1"
        new = fresh.where(_IS_NEW).withColumn("fresh", F.col("fresh").withField("number", F.expr(number)))
        return fresh.where(f"NOT ({_IS_NEW})").union(new)


NOTHING: Final = Numbering({})
"""Of versions that have no numbers."""
