"""Statistics of a task in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.core.dimension import TableName
from lakeward.core.ledger.full_loads import LoadStatus


@dataclass(slots=True)
class MemoryStatistics:
    """What a task says of the full loads of its tables."""

    loads: dict[TableName, LoadStatus] = field(default_factory=dict)

    def full_load(self, table: TableName) -> LoadStatus | None:
        """Return what it says of a table."""
        return self.loads.get(table)
