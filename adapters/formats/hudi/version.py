"""A Hudi table as an instant of its timeline has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.hudi.metadata.columns import KEY, META_COLUMNS
from lakeward.adapters.formats.hudi.metadata.timeline import Instant
from lakeward.adapters.formats.hudi.session import reader
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql.names import quoted


@dataclass(frozen=True, slots=True)
class HudiVersion:
    """A table as an instant of its timeline has it."""

    path: str
    instant: Instant
    as_of: str
    spark: SparkSession
    place: tuple[str, ...]

    @property
    def is_written(self) -> bool:
        """Whether it was ever written to: Hudi makes a table with its first commit."""
        return True

    def rows(self) -> DataFrame:
        """Return all rows, with the record key of each and its partition: no more says where it lies.

        The record key is as it was when the row was written.
        """
        rows = reader(self.spark, self.as_of).load(self.path)
        lies = ", ".join(map(quoted, self.place))
        place = f"struct({lies})" if lies else "''"
        placed = rows.selectExpr("*", f"{place} AS {FILE}", f"CAST(NULL AS bigint) AS {POS}")
        return placed.drop(*META_COLUMNS, KEY)

    def find(self, _keys: pa.Table, _wanted: Sequence[str]) -> None:
        """Return None: only Spark reads its rows."""
