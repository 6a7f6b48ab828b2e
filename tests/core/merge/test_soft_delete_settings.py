"""Rows that are deleted and stay: what settings a table can have for it, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import NAME, columns, item, memory_job, progress_of

from lakeward.adapters.memory import MemorySource, MemoryTable
from lakeward.core.dimension import DELETED, Deletes, Dimension
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.history.options import History
from lakeward.core.merge.facts import Capability
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import Selection
from lakeward.core.progress import Progress

SCHEMA = columns(id="int", a="int")
HARD = item(SCHEMA)
SOFT = replace(HARD, deletes=Deletes.SOFT)


def job_of(dimension: Dimension, capabilities: frozenset[Capability] = frozenset(Capability)) -> Job[Any]:
    table = MemoryTable(dimension, capabilities=capabilities)
    return memory_job(dimension, MemorySource(), table)


def deliver(job: Job[Any], place: int, operation: Operation = Operation.INSERT) -> MemoryTable:
    event = ChangeEvent(
        operation=operation, position=Position(1, place, place, 1), key=(1,), cells={"id": 1, "a": place}
    )
    job.source.put(NAME, place, [event])  # type: ignore[attr-defined]
    apply_changes(job)
    table: MemoryTable = job.opened.table  # type: ignore[assignment]
    return table


def test_a_soft_deleted_row_keeps_its_values_and_is_not_counted_as_current() -> None:
    job = job_of(SOFT)
    deliver(job, 1)
    table = deliver(job, 2, Operation.DELETE)
    assert table.first(Selection(), 9).first == [{"id": 1, "a": 1, DELETED: True}]
    assert (table.progress.rows, table.progress.current) == (1, 0)
    assert Progress.from_json(table.progress.to_json()) == table.progress


@pytest.mark.parametrize(
    ("was", "is_", "what", "found"),
    [
        (HARD, SOFT, "a table whose deletes are hard cannot have soft ones", "deleted before are not known"),
        (SOFT, HARD, "a table whose deletes are soft cannot have hard ones", "rows that were deleted are in it"),
        (SOFT, replace(HARD, history=History()), "a mirror cannot become a history", "it has the newest of each"),
    ],
)
def test_a_table_with_data_keeps_its_kind_of_deletes(was: Dimension, is_: Dimension, what: str, found: str) -> None:
    job = job_of(was)
    deliver(job, 1)
    with pytest.raises(SchemaConflict, match=what) as refused:
        deliver(replace(job, dimension=is_), 2)
    assert found in str(refused.value.found)
    assert deliver(job, 3).progress.batch == 2


@pytest.mark.parametrize(
    ("dimension", "what"),
    [
        (replace(SOFT, key=()), "a table without a key has no deletes that could be soft"),
        (replace(SOFT, history=History()), "its history cannot be kept like this"),
    ],
)
def test_soft_deletes_are_refused_where_they_are_impossible(dimension: Dimension, what: str) -> None:
    job = job_of(dimension)
    with pytest.raises(ConfigError, match=what):
        deliver(job, 1)
    assert progress_of(job).batch == 0


def test_a_format_without_soft_deletes_refuses_them() -> None:
    job = job_of(SOFT, frozenset(Capability) - {Capability.SOFT_DELETE})
    with pytest.raises(ConfigError) as refused:
        deliver(job, 1)
    assert "soft_delete" in str(refused.value.found)
