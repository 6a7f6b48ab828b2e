"""Delta as a lake under test: written through Spark, read by delta-rs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from iceberg_lake import LakeOfSpark, stored_rows

from lakeward.adapters.formats.delta.lake import DeltaLake
from lakeward.adapters.formats.delta.options import DeltaOptions, TableOptions
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.plugins.testing.scripts import Rows


@dataclass
class LakeOfDelta(LakeOfSpark):
    options: TableOptions = field(default_factory=TableOptions)
    make: Callable[..., DeltaLake] = DeltaLake

    def lake_options(self) -> DeltaOptions:
        return DeltaOptions(warehouse=str(self.folder))

    def rows(self, dimension: Dimension) -> Rows:
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
    return pa.table(QueryBuilder().register("rows", table).execute("SELECT * FROM rows").read_all())


def duck() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that reads Delta, by the extension that is installed as a package."""
    (where,) = find_spec("duckdb_extension_delta").submodule_search_locations  # type: ignore[union-attr,misc]
    (file,) = Path(where).rglob("*.duckdb_extension")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{file}'")
    return connection


def by_duckdb(path: str) -> pa.Table:
    with duck() as connection:
        return connection.execute("SELECT * FROM delta_scan(?)", [path]).to_arrow_table()
