"""Delta as a lake under test: written through Spark, read by delta-rs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from iceberg_lake import event_table, stored_rows
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.delta.lake import DeltaLake
from lakeward.adapters.formats.delta.options import DeltaOptions, TableOptions
from lakeward.adapters.spark.session.compatibility import from_arrow
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.ports import Opened
from lakeward.plugins import Runtime
from lakeward.plugins.registry import SMALL_BATCH
from lakeward.plugins.testing.scripts import Item, Rows


@dataclass
class LakeOfDelta:
    """A warehouse of Delta tables."""

    small_batch: ClassVar[int] = SMALL_BATCH

    spark: SparkSession
    folder: Path
    options: TableOptions = field(default_factory=TableOptions)
    make: Callable[..., DeltaLake] = DeltaLake

    def _session(self) -> SparkSession:
        for name, value in self.runtime.settings.items():
            if self.spark.conf.isModifiable(name):
                self.spark.conf.set(name, value)
        return self.spark

    def open(self, dimension: Dimension) -> Opened[Any]:
        """Open the table as a new process would."""
        self.runtime = Runtime(self._session, self.folder, small_batch=self.small_batch)
        options = DeltaOptions(warehouse=str(self.folder))
        self.lake = self.make(options, {dimension.name: self.options}, self.runtime)
        return self.lake.open(dimension)

    def frame(self, dimension: Dimension, items: Sequence[Item], *, in_part: bool = False) -> DataFrame:
        """Return items as a frame of events, in the form that sources give."""
        return from_arrow(self.spark, event_table(dimension, items, in_part=in_part))

    def rows(self, dimension: Dimension) -> Rows:
        """Read rows and positions by delta-rs."""
        self.open(dimension)
        table = self.lake.places.load(dimension.name)
        if table is None:
            return {}
        read = by_delta_rs(table) if can_be_read(table) else by_duckdb(self.lake.places.of(dimension.name))
        return stored_rows(dimension, read)

    def commit_as_another_writer(self, dimension: Dimension) -> None:
        """Commit a version that changes no row and has no progress, if the table exists."""
        if self.lake.places.load(dimension.name) is not None:
            path = quoted(self.lake.places.of(dimension.name))
            self.spark.sql(f"ALTER TABLE delta.{path} SET TBLPROPERTIES ('delta.logRetentionDuration' = '30 days')")


def can_be_read(table: DeltaTable) -> bool:
    """Return True if delta-rs can read a table: not with widened columns."""
    return "typeWidening" not in (table.protocol().reader_features or ())


def by_delta_rs(table: DeltaTable) -> pa.Table:
    """Read all rows by delta-rs."""
    return pa.table(QueryBuilder().register("rows", table).execute("SELECT * FROM rows").read_all())


def duck() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that reads Delta, by the extension that is installed as a package."""
    (where,) = find_spec("duckdb_extension_delta").submodule_search_locations  # type: ignore[union-attr,misc]
    (file,) = Path(where).rglob("*.duckdb_extension")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{file}'")
    return connection


def by_duckdb(path: str) -> pa.Table:
    """Read all rows by DuckDB."""
    with duck() as connection:
        return connection.execute("SELECT * FROM delta_scan(?)", [path]).to_arrow_table()
