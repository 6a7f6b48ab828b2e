"""Jobs over tables in memory, for tests that play batches."""

from __future__ import annotations

from typing import Any, Final

from lakeward.adapters.memory import MemorySource, MemoryTable, MemoryTarget
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.pipeline.job import Job
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, parse_type

NAME: Final = TableName("shop", "item")


def columns(**types: str) -> Schema:
    """Return columns with the types of these texts."""
    return Schema(tuple(Column(name, parse_type(text)) for name, text in types.items()))


ID: Final = columns(id="int")
ITEM: Final = columns(id="int", a="int")


def item(schema: Schema = ITEM, **options: Any) -> Dimension:
    """Return the dimension of a table `shop.item`; its key is `id` unless the options say otherwise."""
    return Dimension(**{"name": NAME, "schema": schema, "key": ("id",), **options})


def memory_job(dimension: Dimension, source: Any = None, table: MemoryTable | None = None, **more: Any) -> Job[Any]:
    """Return the job of a table in memory, a new one unless it is given."""
    target = MemoryTarget({dimension.name: table or MemoryTable(dimension)})
    opened = target.open(dimension)
    return Job(dimension=dimension, source=MemorySource() if source is None else source, opened=opened, **more)


def table_of(job: Job[Any]) -> MemoryTable:
    """Return the table of a job."""
    table = job.opened.table
    assert isinstance(table, MemoryTable)
    return table


def progress_of(job: Job[Any]) -> Progress:
    """Return the progress of the table of a job."""
    return job.opened.table.standing().progress


def values(job: Job[Any], column: str) -> dict[Any, Any]:
    """Return the values of a column of all rows that are not deleted, by the first part of the key."""
    rows = table_of(job).rows.items()
    return {key[0]: row.cells[column] for key, row in rows if not row.deleted}
