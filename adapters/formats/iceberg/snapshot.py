"""An Iceberg table at a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.iceberg.java import Jvm
from lakeward.adapters.formats.iceberg.writes.data_files import DataFiles
from lakeward.adapters.formats.iceberg.writes.local_files import find_rows
from lakeward.adapters.spark.merge.resolution import FILE, POS


@dataclass(frozen=True, slots=True)
class IcebergSnapshot:
    """A table at a snapshot, which is None if it has none yet.

    `java` is Iceberg's table object, which moves on with commits.
    """

    name: str
    java: Any
    snapshot: Any
    spark: SparkSession
    files: DataFiles
    io: Callable[[], FileIO]

    @property
    def is_written(self) -> bool:
        """Whether it has a snapshot."""
        return self.snapshot is not None

    def rows(self) -> DataFrame:
        """Return all rows, with file and row number."""
        reader = self.spark.read
        if self.is_written:
            reader = reader.option("versionAsOf", str(self.snapshot.snapshotId()))
        rows = reader.table(self.name)
        return rows.selectExpr("*", f"_file AS {FILE}", f"_pos AS {POS}")

    def find(self, keys: pa.Table, wanted: Sequence[str]) -> pa.Table | None:
        """Return these columns of the rows with some keys and their places; None if Spark must read them."""
        return find_rows(Jvm(self.spark), self.java, self.snapshot, self.files, self.io(), keys, wanted)
