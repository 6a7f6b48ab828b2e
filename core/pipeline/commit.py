"""Commit a prepared batch: quarantine and change log first, then rows and progress in one commit of the table.

Quarantine and change log are stamped with the number of the batch. After a crash between two steps the table says
at which batch it is, and what is stamped above that number does not exist. Crash tests stop at each of
`BATCH_STEPS`.
"""

from __future__ import annotations

from typing import TypeVar

from lakeward.core.pipeline.discovery import find_conflict
from lakeward.core.pipeline.job import Job, PreparedBatch, Report, StepObserver, no_observer

F = TypeVar("F")


def commit_batch(job: Job[F], prepared: PreparedBatch[F], observe: StepObserver = no_observer) -> Report:
    """Write the quarantine and the change log of a batch, then commit its rows and progress; return its report.

    `finish_batch` follows. Raises CommitConflict where the table is not at the batch that this one was prepared
    for, and what `job.check` raises.
    """
    planned, resolved, progress = prepared.plan, prepared.resolved, prepared.progress
    with observe("hold"):
        job.check()
        # A process that is too late must not touch what another process has written for the same batch number.
        if (conflict := find_conflict(job, planned.batch - 1)) is not None:
            raise conflict
        job.opened.quarantine.hold(planned, resolved)
    with observe("record_batch"):
        job.opened.change_log.record_batch(planned, resolved)
    with observe("commit"):
        job.check()
        commit = job.opened.table.commit(planned, resolved, progress)
    return Report(
        table=str(job.dimension.name),
        plan=planned,
        progress=progress,
        written=commit.written,
        removed=commit.removed,
        commit=commit.name,
        is_last=prepared.is_last,
        way=resolved.way,
    )
