"""Maintenance removes files that ended runs left staged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from memory_jobs import NAME, columns, item, memory_job

from lakeward.adapters.memory import MemorySource
from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.operations.maintain import maintain
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.ports import MaintenancePolicy

DIMENSION = item(columns(id="int"))
CARE = MaintenancePolicy(deleted=None, small=None, file_size=1, keep=None, keep_last=1, orphans=None)


class StagingSource(MemorySource):
    """A source of which an ended run left two files."""

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        assert dimension == DIMENSION
        return ["would go"] if is_dry else ["one", "two"]


@pytest.mark.parametrize("is_written", [True, False])
def test_staged_files_of_ended_runs_are_removed_or_named(is_written: bool) -> None:
    source = StagingSource()
    job = memory_job(DIMENSION, source)
    if is_written:
        place = Position(1, 1, 1, 1)
        event = ChangeEvent(operation=Operation.INSERT, position=place, key=(1,), cells={"id": 1}, time=1)
        source.put(NAME, 1, [event])
        apply_changes(job)
    assert [*maintain(job, CARE, is_dry=True).orphans] == ["would go"]
    assert [*maintain(job, CARE).orphans] == ["one", "two"]


def test_a_source_without_staged_files_is_not_asked() -> None:
    job = memory_job(DIMENSION, MemorySource())
    assert maintain(job, CARE).orphans == ()
