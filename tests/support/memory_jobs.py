"""Jobs over tables in memory, for tests that play batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Self

import pytest

from lakeward.adapters.memory import MemoryLedger, MemorySource, MemoryTable, MemoryTarget
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.selection import Limits
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.merge.change_log import Reject
from lakeward.core.merge.counts import Counts
from lakeward.core.operations.acknowledge import acknowledge
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import Entry, Statistics
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, parse_type

NAME: Final = TableName("shop", "item")
INSERT, UPDATE, DELETE, READ = Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.READ


def columns(**types: str) -> Schema:
    """Return columns with the types of these texts."""
    return Schema(tuple(Column(name, parse_type(text)) for name, text in types.items()))


ID: Final = columns(id="int")
ITEM: Final = columns(id="int", a="int")


def item(schema: Schema = ITEM, **options: Any) -> Dimension:
    """Return the dimension of a table `shop.item`; its key is `id` unless the options say otherwise."""
    return Dimension(**{"name": NAME, "schema": schema, "key": ("id",), **options})


def event(
    operation: Operation,
    sequence: int,
    key: Any = 1,
    *,
    at: int | None = None,
    row: int = 1,
    epoch: int = 1,
    time: int | None = None,
    instant: int | None = None,
    old: Any = None,
    transaction: Any = None,
    **cells: Any,
) -> ChangeEvent:
    """Return an event of the row with this `id`, in the object `at`, by default that of its sequence."""
    position = Position(epoch, sequence, sequence if at is None else at, row)
    if operation is Operation.TRUNCATE:
        return ChangeEvent(operation=operation, position=position, time=time, instant=instant)
    return ChangeEvent(
        operation=operation,
        position=position,
        key=(key,),
        cells={"id": key, **cells},
        old_key=None if old is None else (old,),
        transaction=transaction,
        time=time,
        instant=instant,
    )


def memory_job(dimension: Dimension, source: Any = None, table: MemoryTable | None = None, **more: Any) -> Job[Any]:
    """Return the job of a table in memory, a new one unless it is given."""
    target = MemoryTarget({dimension.name: table or MemoryTable(dimension)})
    opened = target.open(dimension)
    return Job(dimension=dimension, source=MemorySource() if source is None else source, opened=opened, **more)


def table_of(job: Job[Any]) -> MemoryTable:
    table = job.opened.table
    assert isinstance(table, MemoryTable)
    return table


def progress_of(job: Job[Any]) -> Progress:
    return job.opened.table.state().progress


def values(job: Job[Any], column: str) -> dict[Any, Any]:
    """Return the values of a column of all rows that are not deleted, by the first part of the key."""
    rows = table_of(job).rows.items()
    return {key[0]: row.cells[column] for key, row in rows if not row.deleted}


class TableFeed:
    """A table in memory with its source. Objects are delivered and applied one by one."""

    def __init__(
        self, dimension: Dimension, source: Any = None, table: MemoryTable | None = None, **more: Any
    ) -> None:
        self.table = table or MemoryTable(dimension)
        self.source = MemorySource(lateness=dimension.lateness) if source is None else source
        self.job = memory_job(dimension, self.source, self.table, **more)

    def deliver(self, order: int, *items: ChangeEvent | Reject, **more: Any) -> Counts:
        """Deliver an object with this order, and apply what waits."""
        self.source.put(self.job.dimension.name, order, items, **more)
        return apply_changes(self.job)

    @property
    def progress(self) -> Progress:
        return self.table.progress

    def entries(self) -> list[Entry]:
        return list(self.table.entries(self.table.progress))

    def periods(self, key: Any = 1, *columns: str) -> list[tuple[Any, ...]]:
        """Return the versions of a key: begin, end, and the cells of these columns, by default of `a`."""
        row = self.table.rows.get((key,))
        versions = () if row is None else row.versions
        return [(v.valid_from, v.valid_to, *(v.cells[name] for name in columns or ("a",))) for v in versions]


@dataclass
class MemoryShop:
    """The source of a table, its lake and its ledger. Each `job` is that of a new process, at the time `clock`."""

    dimension: Dimension = field(default_factory=item)
    source: MemorySource = field(default_factory=lambda: MemorySource(Limits(files=1)))
    target: MemoryTarget = field(default_factory=MemoryTarget)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    clock: int = 1000
    statistics: Statistics | None = None

    def job(self) -> Job[Any]:
        return Job(
            dimension=self.dimension,
            source=self.source,
            opened=self.target.open(self.dimension),
            ledger_writer=LedgerWriter(ledger=self.ledger, now=lambda: self.clock),
            statistics=self.statistics,
        )

    def run(self) -> Self:
        apply_changes(self.job())
        return self

    def fails(self) -> AlarmRaised:
        with pytest.raises(AlarmRaised) as raised:
            self.run()
        return raised.value

    def ack(self, code: str, reason: str | None = None) -> Any:
        """Acknowledge an alarm, and return the decision."""
        return acknowledge(self.job(), code, by="me", reason=reason, at=5)

    @property
    def table(self) -> MemoryTable:
        return table_of(self.job())
