"""The settings with which a Spark session writes Delta tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": CATALOG,
    # Times are written as they are, to the microsecond, in the form that other readers know.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A log's files are few: fifty tasks for each look at them only cost.
    "spark.databricks.delta.snapshotPartitions": "2",
    # VACUUM lists a table in as many tasks, by default 10,000: half a minute for a folder of ten files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
}
