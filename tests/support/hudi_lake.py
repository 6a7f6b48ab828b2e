"""Hudi as a lake under test: written through Spark, read by hudi-rs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
from hudi import HudiTableBuilder
from iceberg_lake import event_table, stored_rows
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.hudi.lake import HudiLake
from lakeward.adapters.formats.hudi.options import HudiOptions, TableOptions
from lakeward.adapters.formats.hudi.writes import write_options
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.core.dimension import Dimension
from lakeward.core.ports import Opened
from lakeward.plugins import Runtime
from lakeward.plugins.registry import SMALL_BATCH
from lakeward.plugins.testing.scripts import Item, Rows

EVERY_COMMIT: Final = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
"""Properties of a table that can be rolled back to any commit. By default it keeps the files of the last ten."""


def by_hudi_rs(path: Path) -> pa.Table:
    """Read all rows by hudi-rs, which panics at unknown types."""
    table = HudiTableBuilder.from_base_uri(str(path)).build()
    batches = [pa.record_batch(batch) for batch in table.read()]
    return pa.Table.from_batches(batches, None if batches else pa.schema(table.get_schema()))


@dataclass
class LakeOfHudi:
    """A warehouse of Hudi tables."""

    small_batch: ClassVar[int] = SMALL_BATCH

    spark: SparkSession
    folder: Path
    options: TableOptions = field(default_factory=TableOptions)
    make: Callable[..., HudiLake] = HudiLake

    def _session(self) -> SparkSession:
        for name, value in self.runtime.settings.items():
            if self.spark.conf.isModifiable(name) and name != "spark.sql.catalog.spark_catalog":
                self.spark.conf.set(name, value)
        return self.spark

    def open(self, dimension: Dimension) -> Opened[Any]:
        """Open the table as a new process would."""
        self.runtime = Runtime(self._session, self.folder, small_batch=self.small_batch)
        options = HudiOptions(warehouse=str(self.folder))
        self.lake = self.make(options, {dimension.name: self.options}, self.runtime)
        return self.lake.open(dimension)

    def frame(self, dimension: Dimension, items: Sequence[Item], *, in_part: bool = False) -> DataFrame:
        """Return items as a frame of events, in the form that sources give."""
        return from_arrow(self.spark, event_table(dimension, items, in_part=in_part))

    def rows(self, dimension: Dimension) -> Rows:
        """Read rows and positions by hudi-rs, or by Spark if a column has a type at which hudi-rs panics."""
        self.open(dimension)
        if self.lake.table_state(dimension).schema is None:
            return {}
        path = self.lake.places.of(dimension.name)
        is_known = all("timestamp_ntz" not in str(column.type) for column in dimension.stored.schema)
        read = by_hudi_rs(Path(path)) if is_known else to_arrow(self.spark.read.format("hudi").load(path))
        return stored_rows(dimension, read)

    def commit_as_another_writer(self, dimension: Dimension) -> None:
        """Commit an instant that changes no row and has no progress, if the table exists."""
        if self.lake.table_state(dimension).schema is not None:
            path = self.lake.places.of(dimension.name)
            nothing = self.spark.read.format("hudi").load(path).limit(0)
            nothing = nothing.drop(*[name for name in nothing.columns if name.startswith("_hoodie_")])
            options = write_options.options_of(dimension, self.options)
            nothing.write.format("hudi").options(**options).mode("append").save(path)
