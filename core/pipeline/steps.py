"""The use cases, as named steps.

A batch is read, planned and resolved, and then made visible by two commits: the
companion remembers it, stamped with the next batch number; then rows and progress
appear at once. A crash between any two steps leaves a table that says where it is, and
memory stamped above that, which does not exist. Crash tests walk `BATCH_STEPS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from lakeward.core.errors import AlarmRaised, CommitConflict, LakewardError, TableError
from lakeward.core.events import Operation, Position
from lakeward.core.ledger.objects import ObjectSelection, SourceObject
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.facts import PARTIAL, BatchFacts, Capability
from lakeward.core.pipeline.discovery import look, overtaken
from lakeward.core.pipeline.job import (
    Beside,
    Discovery,
    Idle,
    Job,
    OthersAlone,
    PreparedBatch,
    Report,
    Settlement,
    StepObserver,
    no_observer,
)
from lakeward.core.pipeline.preparation import Found, as_it_stands, prepare_release, prepare_seen, work_out
from lakeward.core.ports import Batch, Entry
from lakeward.core.progress import Progress
from lakeward.core.quarantine.repair import check_every

F = TypeVar("F")


def commit_batch(job: Job[F], prepared: PreparedBatch[F], observe: StepObserver = no_observer) -> Report:
    """Do what was worked out: quarantine, memory, then rows and progress at once; `finish_batch` comes after it.

    Raises CommitConflict where the table is not where the batch was worked out for, and what `job.check` does.
    """
    planned, resolved, progress = prepared.plan, prepared.resolved, prepared.progress
    with observe("hold"):
        job.check()
        if (lost := overtaken(job, planned.batch - 1)) is not None:  # nothing of another's memory is touched
            raise lost
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


def finish_batch(job: Job[F], report: Report, observe: StepObserver = no_observer) -> None:
    """Do what follows a commit. It is no part of it: were it to fail, the batch is in the table."""
    objects = report.plan.facts.objects
    with observe("record"):
        if job.ledger_writer is not None:
            job.ledger_writer.applied(report.table, objects, report.progress.batch)
    with observe("acknowledge"):
        if report.is_last:
            acknowledge(job)
    with observe("trim"):
        _trim(job, report.progress)
    with observe("archive"):
        put_away(job, [found.object for found in objects])


def _trim(job: Job[F], progress: Progress) -> None:
    """Forget what can no longer matter; where another process went on meanwhile, that is for it to do.

    Raises what `job.check` does: who wakes up after his term is over would forget what his successor remembers.
    """
    job.check()
    if overtaken(job, progress.batch) is not None:
        return
    try:
        job.opened.change_log.trim(progress)
    except (CommitConflict, TableError):
        if overtaken(job, progress.batch) is None:
            raise


def put_away(job: Job[F], objects: Sequence[SourceObject]) -> None:
    """Move applied objects into the archive, where there is one, once all tables have them that read them."""
    for other in job.beside:
        objects = _had(job, other, objects) if objects else ()
    moved = job.source.archive(job.dimension, objects) if objects else ()
    if moved and job.ledger_writer is not None:
        for table in (str(job.dimension.name), *(other.table for other in job.beside)):
            job.ledger_writer.archived(table, moved)


def _had(job: Job[F], other: Beside, objects: Sequence[SourceObject]) -> Sequence[SourceObject]:
    """Return those of the objects that another table has applied; none where that cannot be told."""
    try:
        at = other.standing().progress
    except LakewardError:  # its own turn says so
        return ()
    return () if job.ledger_writer is None else job.ledger_writer.had(other.table, at, objects)


def acknowledge(job: Job[F]) -> None:
    """Tell the queue that all its notices told of is committed."""
    if job.queue is not None and job.notices:
        job.queue.acknowledge(job.notices)


def apply_changes(
    job: Job[F],
    observe: StepObserver = no_observer,
    on_batch: Callable[[Report], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
    on_others: Callable[[OtherTables], None] = lambda _: None,
    on_listed: Callable[[ObjectSelection], None] = lambda _: None,
) -> Counts:
    """Apply what waits for a table, batch by batch, until nothing does; return the counts.

    It ends early, between two batches, once `is_stopped`. `on_others` is told of messages of other tables where
    what waits has no others; `on_listed` is told what a batch takes of what was listed. The notices are
    acknowledged, too, where a full load is waited for: the caller looks at the table again without them.
    """
    total, is_acknowledged = Counts(), False
    while not is_stopped():
        is_called = not is_acknowledged and any(notice.receipt for notice in job.notices)
        report = _retried(job, partial(_apply_one, job, observe, on_listed, is_called=is_called))
        if isinstance(report, OthersAlone):
            on_others(report.others)
            if not is_acknowledged:
                acknowledge(job)
            break
        if isinstance(report, Idle):
            if report is not Idle.CHANGING and not is_acknowledged:
                acknowledge(job)
            break
        total, is_acknowledged = total + report.counts, report.is_last
        on_batch(report)
        finish_batch(job, report, observe)
    return total


def repair_row(job: Job[F], entries: Sequence[Entry]) -> None:
    """Write down rows of the quarantine as a person mended them; `release` applies them.

    It is one write beside the table, and changes nothing of it: its key stays held. Raises
    MendError, before anything is written, where a row does not fit the table, and what `job.check` does.
    """
    standing = job.opened.table.standing()
    dimension = as_it_stands(job, standing)
    check_every(job.source.written(dimension), entries)
    events = job.source.repair_row(dimension, entries)
    job.check()
    job.opened.quarantine.repair_row(standing.progress, entries, events)


def release(job: Job[F], settled: Settlement, observe: StepObserver = no_observer) -> Report:
    """Apply entries of the quarantine as they were mended, or give them up, and what waited behind, in order."""

    def once() -> Report:
        prepared = prepare_release(job, settled, observe)
        try:
            return commit_batch(job, prepared, observe)
        finally:
            prepared.close()

    report = _retried(job, once)
    finish_batch(job, report, observe)
    return report


def truncate(
    job: Job[F], place: Position, observe: StepObserver = no_observer, *, time: int | None = None
) -> Report:
    """Remove every row that lies below a place, for a truncate that the source did not write down.

    In a history they end at its `time`, in microseconds since 1970, or at the run where that is not known. It moves
    no mark: it is not of the source.
    """

    def once() -> Report:
        standing = job.opened.table.standing()
        change_log_state = job.opened.change_log.read_state(standing.progress)
        dimension = as_it_stands(job, standing)
        facts = BatchFacts(
            schema=dimension.schema,
            operations={Operation.TRUNCATE: 1},
            least=place,
            greatest=place,
            needs=frozenset({Capability.TRUNCATE}),
            may_need=PARTIAL if change_log_state.in_part else frozenset(),
            truncates=(place,),
        )
        batch = Batch(job.source.truncation(dimension, place, time), facts)
        prepared = work_out(job, Found(standing=standing, change_log_state=change_log_state, batch=batch), observe)
        try:
            return commit_batch(job, prepared, observe)
        finally:
            prepared.close()

    report = _retried(job, once)
    finish_batch(job, report, observe)
    return report


def _apply_one(
    job: Job[F], observe: StepObserver, on_listed: Callable[[ObjectSelection], None], *, is_called: bool
) -> Report | Idle | OthersAlone:
    """Apply the next batch.

    Where notices called for it and a listing of a part has nothing, all objects are listed: an object of a notice
    may lie before that part.
    """
    try:
        seen = look(job, observe)
        if is_called and not seen.selection.is_whole and not seen.selection.objects:
            seen = look(job, observe, is_whole=True)
        on_listed(seen.selection)
        with observe("note"):
            _note(job, seen)
        prepared = prepare_seen(job, seen, observe, may_write=True)
    except AlarmRaised as error:
        if job.ledger_writer is not None:
            job.ledger_writer.alarm(str(job.dimension.name), error)
        raise
    if not isinstance(prepared, PreparedBatch):
        return prepared
    try:
        return commit_batch(job, prepared, observe)
    finally:
        prepared.close()


def _note(job: Job[F], seen: Discovery) -> None:
    """Write down what was listed, before any of it is read; what a crash left outside the archive goes there."""
    if job.ledger_writer is not None:
        progress, change_log = seen.standing.progress, job.opened.change_log
        job.ledger_writer.note(
            str(job.dimension.name), seen.past, seen.selection, seen.change_log_state, progress, change_log
        )
    put_away(job, seen.selection.leftovers)


R = TypeVar("R")


def _retried(job: Job[F], attempt: Callable[[], R]) -> R:
    """Work a batch out on the new state where another writer committed in between, at once: it is there."""
    for _ in range(job.attempts - 1):
        try:
            return attempt()
        except CommitConflict:
            continue
    return attempt()
