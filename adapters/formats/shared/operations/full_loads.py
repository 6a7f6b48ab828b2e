"""The port of full loads that are written as they are read, for tables of any format that can stage files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.operations.direct_load import DirectLoad, Files, write_directly
from lakeward.adapters.formats.shared.resolution.strategies.full_load import is_load_alone
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.table_rows import Loaded, Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.core.plan import MergePlan


class StagingTable(Protocol):
    """A table whose format writes files before it commits them."""

    @property
    def kept(self) -> Keeping:
        """What stands beside it."""
        ...

    def load_for(self, plan: MergePlan) -> tuple[Loaded | None, Partitions]:
        """Return the table as it is, None where it is not there yet; refuse what it could not be made with."""
        ...

    def stage(self, plan: MergePlan, table: Loaded | None) -> Files:
        """Begin files for a commit of a plan; the table is made where it is not there yet."""
        ...


@dataclass(frozen=True, slots=True)
class TableLoads:
    """Writes full loads of one table as they are read."""

    table: StagingTable

    def write_load(self, plan: MergePlan, frame: Frame) -> tuple[Frame, Callable[[], None]] | None:
        """Write the rows of events to files that nobody sees; see `core.ports.DirectLoads`."""
        kept = self.table.kept
        kept.direct_load = load = self._written(plan, frame) if isinstance(frame, DataFrame) else None
        return None if load is None else (load.events, load.files.close)

    def _written(self, plan: MergePlan, frame: DataFrame) -> DirectLoad | None:
        table, partitions = self.table.load_for(plan)
        is_lossy = partitions.may_lose(plan.evolution.schema)
        if is_lossy or plan.evolution.shown or not is_load_alone(plan):
            return None
        stand = Rows(plan, None if plan.replaces else table, self.table.kept.spark)
        return write_directly(plan, frame, stand, lambda: self.table.stage(plan, table))
