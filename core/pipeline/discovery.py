"""Seeing what waits for a table: where it stands, what it remembers, what its source lists; nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from lakeward.core.checks.batch_checks import refuse_other_memory
from lakeward.core.checks.event_order import COMMIT_TIME, refuse_other_order
from lakeward.core.checks.key_form import refuse_other_key_form
from lakeward.core.errors import AlarmRaised, CommitConflict, TableError
from lakeward.core.ledger.full_loads import Load, awaited_load
from lakeward.core.ledger.objects import ObjectHistory
from lakeward.core.merge.change_log import floor
from lakeward.core.pipeline.job import Discovery, Job, StepObserver, no_observer
from lakeward.core.ports import ChangeLogState
from lakeward.core.progress import Progress

F = TypeVar("F")


def look(job: Job[F], observe: StepObserver = no_observer, *, is_whole: bool = False) -> Discovery:
    """See what waits for a table, changing nothing; `is_whole` lists all objects, whatever is due.

    Raises AlarmRaised where what is listed may mean loss, and SchemaConflict where another column than before would
    put the events of the table in order (a source may ask for the next ones by it), or keys be read in another way.
    """
    with observe("read_table"):
        standing = job.opened.table.standing()
    with observe("read_change_log"):
        change_log_state = read_state(job, standing.progress)
    with observe("select_objects"):
        order_by = job.source.order_by(job.dimension)
        past = _past(job, standing.progress, change_log_state, order_by, is_whole=is_whole)
        key_form = job.source.key_form(job.dimension)
        if past.load is None or past.load.since is None:  # what was asked for begins anew
            refuse_other_order(job.dimension, standing.schema, standing.progress, order_by)
            refuse_other_key_form(job.dimension, standing.progress, key_form)
        try:
            selection = replace(
                job.source.select_objects(job.dimension, past), order_by=order_by, key_form=key_form
            )
        except AlarmRaised as error:  # the ledger may be ahead because another process has just committed
            if (lost := overtaken(job, standing.progress.batch)) is not None:
                raise lost from error
            raise
    return Discovery(standing=standing, change_log_state=change_log_state, past=past, selection=selection)


def read_state(job: Job[F], progress: Progress) -> ChangeLogState:
    """Return what the table remembers; raises TableError where that is of another batch than was committed."""
    change_log = job.opened.change_log
    try:
        change_log_state = change_log.read_state(progress)
        if progress.digest is not None:
            records = change_log.applied(progress, progress.batch - 1)
            refuse_other_memory(job.dimension, progress, [record.object for record in records])
    except TableError as error:
        if (lost := overtaken(job, progress.batch)) is not None:
            raise lost from error
        raise
    return change_log_state


def load_before(job: Job[F], progress: Progress, change_log_state: ChangeLogState) -> Load | None:
    """Return the full load that must come before anything else is applied, or None."""
    return awaited_load(job.dimension.snapshots, progress, change_log_state.reloads, change_log_state.wholes)


def _past(
    job: Job[F], progress: Progress, change_log_state: ChangeLogState, order_by: str | None, *, is_whole: bool
) -> ObjectHistory:
    by_times = order_by == COMMIT_TIME
    lowest = floor(
        job.dimension.lateness, change_log_state.records, progress.mark, progress.epoch, by_times=by_times
    )
    load = load_before(job, progress, change_log_state)
    if load is not None and job.statistics is not None:
        load = replace(load, told=job.statistics.full_load(job.dimension.source))
    if job.ledger_writer is not None:
        table = str(job.dimension.name)
        return job.ledger_writer.past(table, progress, change_log_state, lowest, load=load, is_whole=is_whole)
    return ObjectHistory(
        seen=change_log_state.objects,
        floor=lowest,
        last=progress.object,
        acked=change_log_state.acked(progress.epoch if load is None else load.epoch),
        cut=change_log_state.cut(progress.epoch),
        left=change_log_state.left,
        load=load,
        begins=progress.batch == 0,
    )


def overtaken(job: Job[F], batch: int) -> CommitConflict | None:
    """Look at the table once more: return what to raise where it is not at this batch any more."""
    found = None if job.standing is None else job.standing().progress.batch
    if found is None or found == batch:
        return None
    return CommitConflict(
        f"{job.dimension.name}: another process committed to the table while a batch was worked out",
        found=f"the table was at batch {batch}, and is at {found}; so it went again and again",
        todo="Nothing of this batch was applied. One process at a time runs a pipeline: is the folder `state` "
        "of its settings shared, and kept?",
    )
