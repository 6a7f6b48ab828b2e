"""The ports of a table of any format: what it does itself, and what all formats do alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.operations.adoption import ExternalTableReader, TableAdoption
from lakeward.adapters.formats.shared.operations.rollback import RestorableSideTables, TableLineage, TableVersions
from lakeward.adapters.formats.shared.operations.table_reader import SparkTableReader
from lakeward.adapters.formats.shared.resolution.resolver import Resolve
from lakeward.adapters.formats.shared.rows.table_rows import TableSnapshot
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.core.plan import MergePlan
from lakeward.core.ports import DirectLoads, Layout, Maintenance, MergeResult, Opened, SmallFiles, Table


class FormatTable(Table[Frame], Protocol):
    """A table of one format, with the states from which all formats work."""

    side_tables: RestorableSideTables

    def lineage(self) -> TableLineage | None:
        """Return the commits that its state comes from, or None if it does not exist."""
        ...

    def external(self) -> ExternalTableReader | None:
        """Return it as a table of any writer, or None if it does not exist."""
        ...

    def snapshot(self) -> TableSnapshot | None:
        """Return its current snapshot, of whichever writer, or None if it does not exist."""
        ...

    def as_of(self, name: str) -> DataFrame:
        """Return its rows as of a commit of ours."""
        ...

    def resolve_with(self, plan: MergePlan, work: Resolve) -> MergeResult:
        """Resolve a plan against the table as it is, by a given function. Nothing is written."""
        ...


def opened_table(
    table: FormatTable,
    parts: Sequence[str],
    maintenance: Maintenance,
    layout: Layout,
    loads: DirectLoads[Frame] | None = None,
    small_files: SmallFiles | None = None,
) -> Opened[Frame]:
    """Return the ports of a table whose name in the lake has these parts.

    `loads` and `small_files` are None if the format does not have them.
    """
    side_tables = table.side_tables
    return Opened(
        name=".".join(parts),
        table=table,
        change_log=side_tables,
        quarantine=side_tables,
        versions=TableVersions(side_tables, table.lineage),
        maintenance=maintenance,
        adoption=TableAdoption(side_tables, table.external),
        layout=layout,
        reader=SparkTableReader(side_tables, table.snapshot),
        loads=loads,
        small_files=small_files,
        parts=parts,
    )
