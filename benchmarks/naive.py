"""The way of the published samples: one file after another, `row_number`, MERGE with copy-on-write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from feed import KEY, OP, TABLE, TIME, TYPES
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.spark.session.spark_session import Sessions

CATALOG: Final = "naive"
_SOME: Final = [KEY if name == KEY else f"CAST(NULL AS {type_}) AS {name}" for name, type_ in TYPES.items()]
"""A row of the table that is made of its key alone, as SQL."""


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

    def __init__(self, spark: SparkSession, folder: Path, mode: str = "copy-on-write") -> None:
        self.spark = spark
        self.folder = folder
        self.mode = mode
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in self.settings().items():
            spark.conf.set(name, value)

    def settings(self) -> Mapping[str, str]:
        """Return what the session is told of the table's catalog."""
        return catalog_settings(self.folder)

    @property
    def name(self) -> str:
        """The table in SQL."""
        return f"{CATALOG}.{TABLE.schema}.{TABLE.table}"

    def load(self, files: Sequence[Path]) -> float:
        """Write the full load as the table, in as many files as it comes in; return the seconds it took."""
        began = time.perf_counter()
        self.create(self.spark.read.parquet(*map(str, files)).select(*TYPES).coalesce(len(files)))
        return time.perf_counter() - began

    def create(self, rows: DataFrame) -> None:
        """Make the table of these rows."""
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{TABLE.schema}")
        rows.writeTo(self.name).tableProperty("write.merge.mode", self.mode).create()

    def apply(self, files: Sequence[Path]) -> float:
        """Merge one file after another; return the seconds it took."""
        began = time.perf_counter()
        for file in files:
            self.merge(file)
        return time.perf_counter() - began

    def merge(self, file: Path) -> None:
        """Merge the newest event of each key of a file."""
        self.merge_changes(self.changes(file))

    def merge_changes(self, changes: DataFrame) -> None:
        """Merge the newest event of each key."""
        changes.createOrReplaceTempView("changes")
        updates = ", ".join(f"{name} = s.{name}" for name in TYPES)
        names, values = ", ".join(TYPES), ", ".join(f"s.{name}" for name in TYPES)
        newest = f"row_number() OVER (PARTITION BY {KEY} ORDER BY {TIME} DESC) = 1"
        self.spark.sql(
            f"""
            MERGE INTO {self.name} t
            USING (SELECT * FROM (SELECT *, {newest} AS is_newest FROM changes) WHERE is_newest) s
            ON t.{KEY} = s.{KEY}
            WHEN MATCHED AND s.{OP} = 'D' THEN DELETE
            WHEN MATCHED THEN UPDATE SET {updates}
            WHEN NOT MATCHED AND s.{OP} != 'D' THEN INSERT ({names}) VALUES ({values})
            """
        )

    def changes(self, file: Path) -> DataFrame:
        """Return the events of a file."""
        types = {OP: "string", TIME: "timestamp", **TYPES}
        schema = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        return self.spark.read.csv(str(file), schema, nullValue="NULL", escape='"')

    def commit(self, rows: int) -> float:
        """Commit so many rows that are worked out at once to a table beside it; return the seconds it took."""
        name = f"{self.name}_bare"
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING iceberg AS SELECT * FROM {self.name} LIMIT 0")
        began = time.perf_counter()
        self.spark.sql(f"INSERT INTO {name} SELECT {', '.join(_SOME)} FROM range({rows})")
        return time.perf_counter() - began

    def checksum(self) -> tuple[int, int]:
        """Return the number of rows, and a number that any other content would change."""
        return checksum(self.spark.table(self.name))

    def rows(self) -> pa.Table:
        """Return the rows as PyIceberg reads them."""
        return rows_in(self.folder)


def start(folder: Path, settings: Mapping[str, str]) -> Naive:
    """Start Spark with the jars and the settings that lakeward starts it with, and these."""
    folder.mkdir(parents=True, exist_ok=True)
    return Naive(Sessions({"iceberg", "sqlite"}, settings, folder / "spark.log")(), folder)


def checksum(rows: DataFrame) -> tuple[int, int]:
    """Return the number of rows, and a sum over their hashes."""
    hashed = f"CAST(xxhash64({', '.join(TYPES)}) AS decimal(38,0))"
    count, total = rows.selectExpr("count(*)", f"sum({hashed})").first()
    return count, int(total)


def rows_in(folder: Path) -> pa.Table:
    """Return the rows of the table in this folder as PyIceberg reads them."""
    uri = f"sqlite:///{folder / 'catalog.db'}"
    table = load_catalog(CATALOG, type="sql", uri=uri, warehouse=f"file://{folder}").load_table(TABLE)
    return table.scan(selected_fields=tuple(TYPES)).to_arrow()
