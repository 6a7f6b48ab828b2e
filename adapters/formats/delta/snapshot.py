"""A Delta table at a version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.delta.checks import FEED
from lakeward.adapters.formats.delta.java import Jvm
from lakeward.adapters.formats.delta.writes.data_files import DataFiles
from lakeward.adapters.formats.delta.writes.local_files import find_rows
from lakeward.adapters.spark.merge.resolution import FILE, POS


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """A table at a version; `java` is Delta's own snapshot."""

    path: str
    java: Any
    spark: SparkSession
    has_vectors: bool
    files: DataFiles

    @property
    def is_written(self) -> bool:
        """Whether there is a version after the first, which creates the table without rows."""
        return bool(self.java.version())

    def partitions(self, jvm: Jvm) -> Sequence[str]:
        """Return the partition columns."""
        return list(map(str, jvm.items(self.java.metadata().partitionColumns())))

    @property
    def has_feed(self) -> bool:
        """Whether it has a change data feed."""
        value = self.java.metadata().configuration().get(FEED)
        return bool(value.isDefined()) and str(value.get()).lower() == "true"

    def rows(self) -> DataFrame:
        """Return all rows with their files; row numbers are read only if deletion vectors need them."""
        place = "_metadata.row_index" if self.has_vectors else "CAST(NULL AS bigint)"
        rows = self.spark.read.format("delta").option("versionAsOf", int(self.java.version())).load(self.path)
        return rows.selectExpr("*", f"_metadata.file_path AS {FILE}", f"{place} AS {POS}")

    def find(self, keys: pa.Table, wanted: Sequence[str]) -> pa.Table | None:
        """Return these columns of the rows with some keys and their places; None if Spark must read them."""
        return find_rows(self.files, keys, wanted)
