"""Hudi as a lake under test: written through Spark, read by hudi-rs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
from hudi import HudiTableBuilder
from iceberg_lake import LakeOfSpark, stored_rows

from lakeward.adapters.formats.hudi.lake import HudiLake
from lakeward.adapters.formats.hudi.options import HudiOptions, TableOptions
from lakeward.adapters.formats.hudi.writes import write_options
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.core.dimension import Dimension
from lakeward.plugins.testing.scripts import Rows

EVERY_COMMIT: Final = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
"""Properties of a table that can be rolled back to any commit. By default it keeps the files of the last ten."""


def by_hudi_rs(path: Path) -> pa.Table:
    """Read all rows by hudi-rs, which panics at unknown types."""
    table = HudiTableBuilder.from_base_uri(str(path)).build()
    batches = [pa.record_batch(batch) for batch in table.read()]
    return pa.Table.from_batches(batches, None if batches else pa.schema(table.get_schema()))


@dataclass
class LakeOfHudi(LakeOfSpark):
    options: TableOptions = field(default_factory=TableOptions)
    make: Callable[..., HudiLake] = HudiLake

    def can_set(self, name: str) -> bool:
        return name != "spark.sql.catalog.spark_catalog" and super().can_set(name)

    def lake_options(self) -> HudiOptions:
        return HudiOptions(warehouse=str(self.folder))

    def rows(self, dimension: Dimension) -> Rows:
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
