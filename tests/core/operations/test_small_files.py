"""When small files are merged between two batches, and what the table format is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from memory_jobs import ID, item, memory_job

from lakeward.core.errors import TableError
from lakeward.core.operations.small_files import MOST_BYTES, is_due, merge_small_files
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import MaintenancePolicy, MaintenanceReport

POLICY = MaintenancePolicy(deleted=0.1, small=20, keep=1, orphans=1)


@pytest.mark.parametrize(
    ("batch", "small", "due"),
    [
        (1, 20, False),
        (19, 20, False),
        (20, 20, True),
        (30, 20, False),
        (4_000, 20, True),
        (20, None, False),
        (20, 2, True),
        (2, 2, False),
        (20, 50, True),
    ],
)
def test_small_files_are_due_after_each_twentieth_batch_unless_the_policy_forbids_it(
    batch: int, small: int | None, due: bool
) -> None:
    assert is_due(batch, replace(POLICY, small=small)) is due


class Recorded:
    """A table format that records what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[MaintenancePolicy, int]] = []

    def merge(self, policy: MaintenancePolicy, size: int) -> MaintenanceReport:
        self.asked.append((policy, size))
        return MaintenanceReport(files=3)


def job_with(small_files: Recorded | None) -> Job[object]:
    job = memory_job(item(ID))
    return replace(job, opened=replace(job.opened, small_files=small_files))


@pytest.mark.parametrize(
    ("file_size", "size"), [(2**27, MOST_BYTES), (2**40, MOST_BYTES), (4_000, 3_000)], ids=str
)
def test_files_below_a_size_are_merged_and_below_that_of_a_merged_file(file_size: int, size: int) -> None:
    recorded, policy = Recorded(), replace(POLICY, file_size=file_size)
    assert merge_small_files(job_with(recorded), policy).files == 3
    assert recorded.asked == [(policy, size)]


def test_a_format_that_does_not_merge_changes_nothing() -> None:
    assert merge_small_files(job_with(None), POLICY) == MaintenanceReport()


def test_a_process_that_may_no_longer_write_merges_nothing() -> None:
    def refuse() -> None:
        raise TableError("the lease expired")

    recorded = Recorded()
    with pytest.raises(TableError, match="lease"):
        merge_small_files(replace(job_with(recorded), check=refuse), POLICY)
    assert recorded.asked == []
