"""A Hudi table at an instant of its timeline."""

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
class HudiSnapshot:
    """A table at an instant of its timeline."""

    path: str
    instant: Instant
    as_of: str
    spark: SparkSession
    place: tuple[str, ...]

    @property
    def is_written(self) -> bool:
        """Whether it was ever written to: Hudi creates a table with its first commit."""
        return True

    def rows(self) -> DataFrame:
        """Return all rows, each with its record key and partition, which are all that says where it is stored.

        The record key is as of when the row was written.
        """
        rows = reader(self.spark, self.as_of).load(self.path)
        columns = ", ".join(map(quoted, self.place))
        place = f"struct({columns})" if columns else "''"
        placed = rows.selectExpr("*", f"{place} AS {FILE}", f"CAST(NULL AS bigint) AS {POS}")
        return placed.drop(*META_COLUMNS, KEY)

    def find(self, _keys: pa.Table, _wanted: Sequence[str]) -> None:
        """Return None: only Spark can read its rows."""
