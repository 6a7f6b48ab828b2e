"""Do what follows a commit: write the ledger, acknowledge notices, trim the change log, archive objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from lakeward.core.errors import CommitConflict, LakewardError, TableError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.pipeline.discovery import find_conflict
from lakeward.core.pipeline.job import Job, Report, SiblingTable, StepObserver, no_observer
from lakeward.core.progress import Progress

F = TypeVar("F")


def finish_batch(job: Job[F], report: Report, observe: StepObserver = no_observer) -> None:
    """Do what follows the commit of a batch. If it fails, the batch is in the table all the same."""
    objects = report.plan.facts.objects
    with observe("record"):
        if job.ledger_writer is not None:
            job.ledger_writer.record_applied(report.table, objects, report.progress.batch)
    with observe("acknowledge"):
        if report.is_last:
            acknowledge_notices(job)
    with observe("trim"):
        _trim_change_log(job, report.progress)
    with observe("archive"):
        archive_objects(job, [facts.object for facts in objects])


def acknowledge_notices(job: Job[F]) -> None:
    """Tell the queue that the changes of all notices of a job are committed."""
    if job.queue is not None and job.notices:
        job.queue.acknowledge(job.notices)


def archive_objects(job: Job[F], objects: Sequence[SourceObject]) -> None:
    """Move applied objects into the archive, if there is one, once all sibling tables have applied them, too."""
    for sibling in job.siblings:
        objects = _applied_by(job, sibling, objects) if objects else ()
    archived = job.source.archive(job.dimension, objects) if objects else ()
    if archived and job.ledger_writer is not None:
        for table in (str(job.dimension.name), *(sibling.table for sibling in job.siblings)):
            job.ledger_writer.record_archived(table, archived)


def _applied_by(job: Job[F], sibling: SiblingTable, objects: Sequence[SourceObject]) -> Sequence[SourceObject]:
    """Return those of the objects that a sibling table has applied; none where that is not known."""
    try:
        progress = sibling.read_table_state().progress
    except LakewardError:  # the run of the sibling table reports this error
        return ()
    return () if job.ledger_writer is None else job.ledger_writer.applied_objects(sibling.table, progress, objects)


def _trim_change_log(job: Job[F], progress: Progress) -> None:
    """Trim the change log, unless another process has committed to the table since.

    Raises what `job.check` raises: a process whose lease expired must not delete memory that the new owner needs.
    """
    job.check()
    if find_conflict(job, progress.batch) is not None:
        return
    try:
        job.opened.change_log.trim(progress)
    except (CommitConflict, TableError):
        if find_conflict(job, progress.batch) is None:
            raise
