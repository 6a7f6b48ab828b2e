"""Discover what waits for a table: its state, its change log and the objects of its source. Nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from lakeward.core.checks.batch_checks import refuse_other_memory
from lakeward.core.checks.event_order import COMMIT_TIME, refuse_other_order
from lakeward.core.checks.key_form import refuse_other_key_form
from lakeward.core.dimension import Dimension
from lakeward.core.errors import AlarmRaised, CommitConflict, TableError
from lakeward.core.ledger.full_loads import Load, awaited_load
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.merge.change_log import object_watermark
from lakeward.core.pipeline.job import Discovery, Job, StepObserver, no_observer
from lakeward.core.ports import ChangeLogState, TableState
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import with_new_names

F = TypeVar("F")


def discover(job: Job[F], observe: StepObserver = no_observer, *, is_whole: bool = False) -> Discovery:
    """Return what waits for a table; with `is_whole` all objects are listed, even if only a part is due.

    Raises AlarmRaised where the listing shows a possible loss. Raises SchemaConflict where another column than
    before would order the events of the table (a source may select objects by it), or where keys would be read in
    another form.
    """
    with observe("read_table"):
        state = job.opened.table.state()
    with observe("read_change_log"):
        change_log_state = read_change_log(job, state.progress)
    with observe("select_objects"):
        order_by = job.source.order_by(job.dimension)
        history = _object_history(job, state.progress, change_log_state, order_by, is_whole=is_whole)
        key_form = job.source.key_form(job.dimension)
        if history.load is None or history.load.since is None:  # a reload may begin with another order and key form
            refuse_other_order(job.dimension, state.schema, state.progress, order_by)
            refuse_other_key_form(job.dimension, state.progress, key_form)
        try:
            selection = replace(
                job.source.select_objects(job.dimension, history), order_by=order_by, key_form=key_form
            )
        except AlarmRaised as error:  # the ledger may be ahead because another process has just committed
            if (conflict := find_conflict(job, state.progress.batch)) is not None:
                raise conflict from error
            raise
    return Discovery(
        state=state, change_log_state=change_log_state, object_history=history, selection=selection
    )


def read_change_log(job: Job[F], progress: Progress) -> ChangeLogState:
    """Return the change log state of a table; raises TableError where its change log is of another batch."""
    change_log = job.opened.change_log
    try:
        change_log_state = change_log.read_state(progress)
        if progress.digest is not None:
            records = change_log.applied(progress, progress.batch - 1)
            refuse_other_memory(job.dimension, progress, [record.object for record in records])
    except TableError as error:
        if (conflict := find_conflict(job, progress.batch)) is not None:
            raise conflict from error
        raise
    return change_log_state


def find_awaited_load(job: Job[F], progress: Progress, change_log_state: ChangeLogState) -> Load | None:
    """Return the full load that must be applied before anything else, or None."""
    return awaited_load(
        job.dimension.snapshots, progress, change_log_state.reload_requests, change_log_state.load_completions
    )


def dimension_as_stored(job: Job[F], state: TableState) -> Dimension:
    """Return the dimension with the columns that its table has: a repaired row must have these."""
    if state.schema is None:
        return job.dimension
    return replace(job.dimension, schema=with_new_names(state.schema, job.dimension.policies.renames))


def find_conflict(job: Job[F], batch: int) -> CommitConflict | None:
    """Read the table state once more; return the error to raise where the table is no longer at this batch."""
    current = None if job.read_table_state is None else job.read_table_state().progress.batch
    if current is None or current == batch:
        return None
    return CommitConflict(
        f"{job.dimension.name}: another process committed to the table while a batch was worked out",
        found=f"the table was at batch {batch}, and is at {current}; so it went again and again",
        todo="Nothing of this batch was applied. One process at a time runs a pipeline: is the folder `state` "
        "of its settings shared, and kept?",
    )


def _object_history(
    job: Job[F], progress: Progress, change_log_state: ChangeLogState, order_by: str | None, *, is_whole: bool
) -> ObjectHistory:
    """Return what is known of earlier objects: from the ledger where there is one, else from the change log."""
    by_times = order_by == COMMIT_TIME
    lowest = object_watermark(
        job.dimension.lateness, change_log_state.records, progress.low_watermark, progress.epoch, by_times=by_times
    )
    load = find_awaited_load(job, progress, change_log_state)
    if load is not None and job.statistics is not None:
        load = replace(load, status=job.statistics.full_load(job.dimension.source))
    if job.ledger_writer is not None:
        table = str(job.dimension.name)
        return job.ledger_writer.object_history(
            table, progress, change_log_state, lowest, load=load, is_whole=is_whole
        )
    return ObjectHistory(
        applied=change_log_state.objects,
        object_watermark=lowest,
        last_applied=progress.object,
        acknowledged=change_log_state.acknowledged(progress.epoch if load is None else load.epoch),
        cut=change_log_state.cut(progress.epoch),
        earlier_versions=change_log_state.earlier_versions,
        load=load,
        has_no_batch=progress.batch == 0,
    )
