"""Maintenance removes files that ended runs left staged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from memory_jobs import ID, INSERT, TableFeed, event, item, memory_job

from lakeward.adapters.memory import MemorySource
from lakeward.core.dimension import Dimension
from lakeward.core.operations.maintain import maintain
from lakeward.core.ports import MaintenancePolicy

DIMENSION = item(ID)
POLICY = MaintenancePolicy(deleted=None, small=None, file_size=1, keep=None, keep_last=1, orphans=None)


class StagingSource(MemorySource):
    """A source of which an ended run left two files."""

    def clean_staging(self, dimension: Dimension, *, is_dry: bool) -> Sequence[str]:
        assert dimension == DIMENSION
        return ["would go"] if is_dry else ["one", "two"]


@pytest.mark.parametrize("is_written", [True, False])
def test_staged_files_of_ended_runs_are_removed_or_named(is_written: bool) -> None:
    feed = TableFeed(DIMENSION, StagingSource())
    if is_written:
        feed.deliver(1, event(INSERT, 1, time=1))
    assert [*maintain(feed.job, POLICY, is_dry=True).orphans] == ["would go"]
    assert [*maintain(feed.job, POLICY).orphans] == ["one", "two"]


def test_a_source_without_staged_files_is_not_asked() -> None:
    job = memory_job(DIMENSION, MemorySource())
    assert maintain(job, POLICY).orphans == ()
