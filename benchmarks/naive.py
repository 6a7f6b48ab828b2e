"""The published samples' way: one file after another, `row_number` over the keys, MERGE with copy-on-write."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from feed import KEY, OP, TIME, TYPES
from pyspark.sql import SparkSession

CATALOG = "naive"
TABLE = f"{CATALOG}.shop.orders"


class Naive:
    """A table that plain Spark SQL keeps up to date."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def load(self, files: Sequence[Path]) -> None:
        """Write the full load as the table, in as many files as it has."""
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.shop")
        rows = self.spark.read.parquet(*map(str, files)).select(*TYPES).coalesce(len(files))
        writer = rows.writeTo(TABLE).tableProperty("format-version", "2")
        writer.tableProperty("write.merge.mode", "copy-on-write").createOrReplace()

    def apply(self, files: Sequence[Path]) -> float:
        """Merge each file; return the seconds it took."""
        began = time.perf_counter()
        for file in files:
            self._merge(file)
        return time.perf_counter() - began

    def _merge(self, file: Path) -> None:
        schema = ", ".join(f"{name} {type_}" for name, type_ in {OP: "string", TIME: "timestamp", **TYPES}.items())
        changes = self.spark.read.schema(schema).csv(str(file), nullValue="NULL", escape='"')
        changes.createOrReplaceTempView("changes")
        updates = ", ".join(f"t.{name} = s.{name}" for name in TYPES)
        names, values = ", ".join(TYPES), ", ".join(f"s.{name}" for name in TYPES)
        self.spark.sql(
            f"""
            MERGE INTO {TABLE} t
            USING (
                SELECT * FROM (
                    SELECT *, row_number() OVER (PARTITION BY {KEY} ORDER BY {TIME} DESC) AS newest FROM changes
                ) WHERE newest = 1
            ) s
            ON t.{KEY} = s.{KEY}
            WHEN MATCHED AND s.{OP} = 'D' THEN DELETE
            WHEN MATCHED THEN UPDATE SET {updates}
            WHEN NOT MATCHED AND s.{OP} != 'D' THEN INSERT ({names}) VALUES ({values})
            """
        )
