"""Merging of the small files of a table between two batches of a follower. Rows and progress do not change.

Each batch adds a data file and marks rows as deleted in each file that has rows of its keys. The time of a batch
grows with the number of these files (`docs/decisions/0029`).
"""

from __future__ import annotations

from typing import Final, TypeVar

from lakeward.core.pipeline.job import Job
from lakeward.core.ports import MaintenancePolicy, MaintenanceReport

F = TypeVar("F")

BATCH_INTERVAL: Final = 20
"""The number of batches between two checks of a table's files."""

MOST_BYTES: Final = 8 * 1024 * 1024
"""Files of this size or more are not merged. The limit bounds the delay of the next batch."""


def is_due(batch: int, policy: MaintenancePolicy) -> bool:
    """Return True if small files are merged after a batch, by its number and the policy of the table.

    >>> [batch for batch in range(1, 61) if is_due(batch, MaintenancePolicy(small=5))]
    [20, 40, 60]
    >>> is_due(20, MaintenancePolicy(small=None))
    False
    """
    return policy.small is not None and batch % BATCH_INTERVAL == 0


def merge_small_files(job: Job[F], policy: MaintenancePolicy) -> MaintenanceReport:
    """Merge the small files of a table, if it has as many as the policy says, in a commit without progress.

    Does nothing where the table format does not merge them between two batches. Raises CommitConflict if another
    writer committed first, and what `job.check` raises, before anything is done.
    """
    if job.opened.small_files is None:
        return MaintenanceReport()
    job.check()
    return job.opened.small_files.merge(policy, min(MOST_BYTES, policy.file_size * 3 // 4))
