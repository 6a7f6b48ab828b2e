"""A table as lakeward keeps it, read without Spark: by PyIceberg, delta-rs or hudi-rs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from feed import TYPES
from hudi import HudiTableBuilder

from lakeward.core.dimension import TableName
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.settings.configuration import load


class Read:
    """The rows of a table of a pipeline; no Spark is started."""

    def __init__(self, settings: Path, table: TableName, kind: str = "iceberg") -> None:
        self.settings, self.table, self.kind = settings, table, kind

    def rows(self) -> pa.Table:
        """Return the rows, of the columns of the source."""
        return READERS[self.kind](self.settings, self.table).select([*TYPES])


def _by_pyiceberg(settings: Path, table: TableName) -> pa.Table:
    lake = Container(configured=load(settings)).target().catalog
    return lake.load(table).scan(selected_fields=tuple(TYPES)).to_arrow()


def _by_delta_rs(settings: Path, table: TableName) -> pa.Table:
    read = QueryBuilder().register("rows", DeltaTable(_folder(settings, table)))
    return pa.table(read.execute("SELECT * FROM rows").read_all())


def _by_hudi_rs(settings: Path, table: TableName) -> pa.Table:
    batches = HudiTableBuilder.from_base_uri(str(_folder(settings, table))).build().read()
    return pa.Table.from_batches([pa.record_batch(batch) for batch in batches])


def _folder(settings: Path, table: TableName) -> Path:
    return settings.parent / "lake" / table.schema / table.table


READERS: Final[Mapping[str, Callable[[Path, TableName], pa.Table]]] = {
    "iceberg": _by_pyiceberg,
    "delta": _by_delta_rs,
    "hudi": _by_hudi_rs,
}
