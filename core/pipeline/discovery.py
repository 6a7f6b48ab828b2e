"""Seeing what waits for a table: where it stands, what it remembers, what its source lists; nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from lakeward.core.checks.batch_checks import refuse_other_memory
from lakeward.core.checks.event_order import COMMIT_TIME, refuse_other_order
from lakeward.core.checks.key_form import refuse_other_key_form
from lakeward.core.errors import AlarmRaised, CommitConflict, TableError
from lakeward.core.ledger.full_loads import Load, awaited_load
from lakeward.core.ledger.objects import Past
from lakeward.core.merge.change_log import floor
from lakeward.core.pipeline.job import Job, Look, Watch, unwatched
from lakeward.core.ports import Recalled
from lakeward.core.progress import Progress

F = TypeVar("F")


def look(job: Job[F], watch: Watch = unwatched, *, is_whole: bool = False) -> Look:
    """See what waits for a table, changing nothing; `is_whole` lists all objects, whatever is due.

    Raises AlarmRaised where what is listed may mean loss, and SchemaConflict where another column than before would
    put the events of the table in order (a source may ask for the next ones by it), or keys be read in another way.
    """
    with watch("believe"):
        standing = job.opened.table.standing()
    with watch("recall"):
        recalled = recall(job, standing.progress)
    with watch("take"):
        order_by = job.source.order_by(job.dimension)
        past = _past(job, standing.progress, recalled, order_by, is_whole=is_whole)
        key_form = job.source.key_form(job.dimension)
        if past.load is None or past.load.since is None:  # what was asked for begins anew
            refuse_other_order(job.dimension, standing.schema, standing.progress, order_by)
            refuse_other_key_form(job.dimension, standing.progress, key_form)
        try:
            taken = replace(job.source.take(job.dimension, past), order_by=order_by, key_form=key_form)
        except AlarmRaised as error:  # the ledger may be ahead because another process has just committed
            if (lost := overtaken(job, standing.progress.batch)) is not None:
                raise lost from error
            raise
    return Look(standing=standing, recalled=recalled, past=past, taken=taken)


def recall(job: Job[F], progress: Progress) -> Recalled:
    """Return what the table remembers; raises TableError where that is of another batch than was committed."""
    companion = job.opened.companion
    try:
        recalled = companion.recall(progress)
        if progress.digest is not None:
            records = companion.applied(progress, progress.batch - 1)
            refuse_other_memory(job.dimension, progress, [record.object for record in records])
    except TableError as error:
        if (lost := overtaken(job, progress.batch)) is not None:
            raise lost from error
        raise
    return recalled


def load_before(job: Job[F], progress: Progress, recalled: Recalled) -> Load | None:
    """Return the full load that must come before anything else is applied, or None."""
    return awaited_load(job.dimension.snapshots, progress, recalled.reloads, recalled.wholes)


def _past(job: Job[F], progress: Progress, recalled: Recalled, order_by: str | None, *, is_whole: bool) -> Past:
    by_times = order_by == COMMIT_TIME
    lowest = floor(job.dimension.lateness, recalled.records, progress.mark, progress.epoch, by_times=by_times)
    load = load_before(job, progress, recalled)
    if load is not None and job.statistics is not None:
        load = replace(load, told=job.statistics.full_load(job.dimension.source))
    if job.books is not None:
        table = str(job.dimension.name)
        return job.books.past(table, progress, recalled, lowest, load=load, is_whole=is_whole)
    return Past(
        seen=recalled.objects,
        floor=lowest,
        last=progress.object,
        acked=recalled.acked(progress.epoch if load is None else load.epoch),
        cut=recalled.cut(progress.epoch),
        left=recalled.left,
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
