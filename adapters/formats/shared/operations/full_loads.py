"""The port of direct loads, for tables whose format can stage files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.operations.direct_load import DirectLoad, StagedFiles, write_directly
from lakeward.adapters.formats.shared.resolution.strategies.full_load import is_load_alone
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.table_rows import Rows, TableSnapshot
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.core.plan import MergePlan


class StagingTable(Protocol):
    """A table whose format writes files before it commits them."""

    @property
    def side_tables(self) -> SideTables:
        """Its side tables."""
        ...

    def load_for(self, plan: MergePlan) -> tuple[TableSnapshot | None, Partitions]:
        """Return the table's snapshot (None if it does not exist yet) and its partitions.

        Raises ConfigError for options that it cannot be created with.
        """
        ...

    def stage(self, plan: MergePlan, table: TableSnapshot | None) -> StagedFiles:
        """Begin files for the commit of a plan. The table is created if it does not exist yet."""
        ...


@dataclass(frozen=True, slots=True)
class TableLoads:
    """Writes direct loads of one table."""

    table: StagingTable

    def write_load(self, plan: MergePlan, frame: Frame) -> tuple[Frame, Callable[[], None]] | None:
        """Write the rows of events to files that no reader sees yet; see `core.ports.DirectLoads`."""
        side_tables = self.table.side_tables
        side_tables.direct_load = direct_load = self._written(plan, frame) if isinstance(frame, DataFrame) else None
        return None if direct_load is None else (direct_load.events, direct_load.files.close)

    def _written(self, plan: MergePlan, frame: DataFrame) -> DirectLoad | None:
        table, partitions = self.table.load_for(plan)
        is_lossy = partitions.may_lose(plan.evolution.schema)
        if is_lossy or plan.evolution.quarantined_changes or not is_load_alone(plan):
            return None
        stored = Rows(plan, None if plan.replaces else table, self.table.side_tables.spark)
        return write_directly(plan, frame, stored, lambda: self.table.stage(plan, table))
