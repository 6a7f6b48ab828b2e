"""The way of the published samples: one file after another, `row_number`, MERGE with copy-on-write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from feed import KEY, OP, TABLE, TIME, TYPES
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from lakeward.adapters.spark.session import Sessions

CATALOG: Final = "naive"
_NAME: Final = f"{CATALOG}.{TABLE.schema}.{TABLE.table}"


def catalog_settings(folder: Path) -> Mapping[str, str]:
    """Return the settings of a catalog of the same kind as lakeward's default one."""
    prefix = f"spark.sql.catalog.{CATALOG}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.warehouse": f"file://{folder}",
    }


class Naive:
    """The table as a job of plain Spark SQL keeps it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in catalog_settings(folder).items():
            spark.conf.set(name, value)

    def load(self, files: Sequence[Path]) -> float:
        """Write the full load as the table, in as many files as it comes in; return the seconds it took."""
        began = time.perf_counter()
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{TABLE.schema}")
        rows = self.spark.read.parquet(*map(str, files)).select(*TYPES).coalesce(len(files))
        rows.writeTo(_NAME).tableProperty("write.merge.mode", "copy-on-write").create()
        return time.perf_counter() - began

    def apply(self, files: Sequence[Path]) -> float:
        """Merge one file after another; return the seconds it took."""
        began = time.perf_counter()
        for file in files:
            self.merge(file)
        return time.perf_counter() - began

    def merge(self, file: Path) -> None:
        """Merge the newest event of each key of a file."""
        types = {OP: "string", TIME: "timestamp", **TYPES}
        schema = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        self.spark.read.csv(str(file), schema, nullValue="NULL", escape='"').createOrReplaceTempView("changes")
        updates = ", ".join(f"{name} = s.{name}" for name in TYPES)
        names, values = ", ".join(TYPES), ", ".join(f"s.{name}" for name in TYPES)
        newest = f"row_number() OVER (PARTITION BY {KEY} ORDER BY {TIME} DESC) = 1"
        self.spark.sql(
            f"""
            MERGE INTO {_NAME} t
            USING (SELECT * FROM (SELECT *, {newest} AS is_newest FROM changes) WHERE is_newest) s
            ON t.{KEY} = s.{KEY}
            WHEN MATCHED AND s.{OP} = 'D' THEN DELETE
            WHEN MATCHED THEN UPDATE SET {updates}
            WHEN NOT MATCHED AND s.{OP} != 'D' THEN INSERT ({names}) VALUES ({values})
            """
        )

    def checksum(self) -> tuple[int, int]:
        """Return the number of rows, and a number that any other content would change."""
        return checksum(self.spark, _NAME)

    def rows(self) -> pa.Table:
        """Return the rows as PyIceberg reads them."""
        return rows_in(self.folder)


def start(folder: Path, settings: Mapping[str, str]) -> Naive:
    """Start Spark with the jars and the settings that lakeward starts it with, and these."""
    folder.mkdir(parents=True, exist_ok=True)
    return Naive(Sessions({"iceberg", "sqlite"}, settings, folder / "spark.log")(), folder)


def checksum(spark: SparkSession, table: str) -> tuple[int, int]:
    """Return the number of rows of a table, and a sum over the hashes of its rows."""
    hashed = f"xxhash64({', '.join(TYPES)})"
    count, total = spark.sql(f"SELECT count(*), sum(CAST({hashed} AS decimal(38,0))) FROM {table}").first()
    return count, int(total)


def rows_in(folder: Path) -> pa.Table:
    """Return the rows of the table in this folder as PyIceberg reads them."""
    uri = f"sqlite:///{folder / 'catalog.db'}"
    table = load_catalog(CATALOG, type="sql", uri=uri, warehouse=f"file://{folder}").load_table(TABLE)
    return table.scan(selected_fields=tuple(TYPES)).to_arrow()
