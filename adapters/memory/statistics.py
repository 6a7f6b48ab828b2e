"""Load statistics of a replication task, in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.core.dimension import TableName
from lakeward.core.ledger.full_loads import LoadStatus


@dataclass(slots=True)
class MemoryStatistics:
    """The load status of the tables of a task."""

    loads: dict[TableName, LoadStatus] = field(default_factory=dict)

    def full_load(self, table: TableName) -> LoadStatus | None:
        """Return the load status of a table, None if it is unknown."""
        return self.loads.get(table)
