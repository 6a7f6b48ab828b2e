"""Apply what waits for a table, batch by batch: discover, prepare, commit, finish."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lakeward.core.errors import AlarmRaised, CommitConflict
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.counts import Counts
from lakeward.core.pipeline.commit import commit_batch
from lakeward.core.pipeline.discovery import discover
from lakeward.core.pipeline.finish import acknowledge_notices, archive_objects, finish_batch
from lakeward.core.pipeline.job import (
    Discovery,
    Idle,
    Job,
    OnlyOtherTables,
    PreparedBatch,
    Report,
    StepObserver,
    no_observer,
)
from lakeward.core.pipeline.preparation import prepare_batch

F = TypeVar("F")
R = TypeVar("R")


def apply_changes(
    job: Job[F],
    observe: StepObserver = no_observer,
    on_batch: Callable[[Report], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
    on_others: Callable[[OtherTables], None] = lambda _: None,
    on_listed: Callable[[ObjectSelection], None] = lambda _: None,
) -> Counts:
    """Apply what waits for a table, batch by batch, until nothing waits; return the counts of all batches.

    `on_listed` gets the selection of each batch, `on_batch` its report. `on_others` gets the messages of other
    tables where all that waits are such messages. It ends between two batches once `is_stopped` returns True.
    Notices are acknowledged also where the table waits for a full load: the caller looks at such a table again
    without notices.
    """
    total, is_acknowledged = Counts(), False
    while not is_stopped():
        is_notified = not is_acknowledged and any(notice.receipt for notice in job.notices)
        attempt = partial(_apply_next_batch, job, observe, on_listed, is_notified=is_notified)
        report = retry_on_conflict(job, attempt)
        if isinstance(report, OnlyOtherTables):
            on_others(report.others)
            if not is_acknowledged:
                acknowledge_notices(job)
            break
        if isinstance(report, Idle):
            if report is not Idle.CHANGING and not is_acknowledged:
                acknowledge_notices(job)
            break
        total, is_acknowledged = total + report.counts, report.is_last
        on_batch(report)
        finish_batch(job, report, observe)
    return total


def retry_on_conflict(job: Job[F], attempt: Callable[[], R]) -> R:
    """Call `attempt` again, on the new table state, each time another writer commits first; return its result.

    It is called at most `job.attempts` times, without a pause: the commit of the other writer is there already.
    Raises CommitConflict where the last attempt does.
    """
    for _ in range(job.attempts - 1):
        try:
            return attempt()
        except CommitConflict:
            continue
    return attempt()


def apply_prepared(
    job: Job[F], prepare: Callable[[], PreparedBatch[F]], observe: StepObserver = no_observer
) -> Report:
    """Commit and finish the batch that `prepare` returns; return its report.

    It is prepared again each time another writer commits first.
    """
    report = retry_on_conflict(job, lambda: _commit_and_close(job, prepare(), observe))
    finish_batch(job, report, observe)
    return report


def _commit_and_close(job: Job[F], prepared: PreparedBatch[F], observe: StepObserver) -> Report:
    try:
        return commit_batch(job, prepared, observe)
    finally:
        prepared.close()


def _apply_next_batch(
    job: Job[F], observe: StepObserver, on_listed: Callable[[ObjectSelection], None], *, is_notified: bool
) -> Report | Idle | OnlyOtherTables:
    """Discover, prepare and commit the next batch.

    Where notices asked for the run and a listing of a part of the objects has nothing new, all objects are listed:
    the object of a notice may lie before that part.
    """
    try:
        discovery = discover(job, observe)
        if is_notified and not discovery.selection.is_whole and not discovery.selection.objects:
            discovery = discover(job, observe, is_whole=True)
        on_listed(discovery.selection)
        with observe("note"):
            _note_listing(job, discovery)
        prepared = prepare_batch(job, discovery, observe, may_write=True)
    except AlarmRaised as error:
        if job.ledger_writer is not None:
            job.ledger_writer.record_alarm(str(job.dimension.name), error)
        raise
    if not isinstance(prepared, PreparedBatch):
        return prepared
    return _commit_and_close(job, prepared, observe)


def _note_listing(job: Job[F], discovery: Discovery) -> None:
    """Write what was listed into the ledger before it is read; archive applied objects that a crash left behind."""
    if job.ledger_writer is not None:
        progress, change_log = discovery.state.progress, job.opened.change_log
        job.ledger_writer.record_listing(
            str(job.dimension.name),
            discovery.object_history,
            discovery.selection,
            discovery.change_log_state,
            progress,
            change_log,
        )
    archive_objects(job, discovery.selection.leftovers)
