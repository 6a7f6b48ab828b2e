"""Prepare the next batch of a table: read, plan and resolve what waits. Nothing that a reader sees is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from lakeward.core.checks.batch_checks import (
    refuse_covered_rows,
    refuse_flood,
    refuse_half_load,
    refuse_log_restart,
    refuse_other_options,
    refuse_regressions,
    refuse_small_load,
)
from lakeward.core.checks.databases import DATABASE_ALARM, refuse_other_databases
from lakeward.core.checks.log_restart import LOG_ALARM, LogRestart, find_suspects
from lakeward.core.checks.log_steps import LogName, LogReached
from lakeward.core.checks.refused_files import REFUSED_ALARM, refuse_refused_files
from lakeward.core.checks.topic_restart import TOPIC_ALARM, refuse_topic_restart
from lakeward.core.checks.unordered_truncates import refuse_unordered_truncate
from lakeward.core.errors import AlarmRaised, ConservationError, SourceError
from lakeward.core.history.snapshot_splice import refuse_incomplete_snapshot
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.pipeline.direct_load import load_writer
from lakeward.core.pipeline.discovery import dimension_as_stored, discover
from lakeward.core.pipeline.job import (
    BatchInput,
    Discovery,
    Idle,
    Job,
    OnlyOtherTables,
    PreparedBatch,
    StepObserver,
    no_observer,
)
from lakeward.core.pipeline.progress_after import progress_after
from lakeward.core.plan import MergePlan, plan
from lakeward.core.ports import Batch, MergeResult

F = TypeVar("F")


def prepare_next_batch(
    job: Job[F], observe: StepObserver = no_observer
) -> PreparedBatch[F] | Idle | OnlyOtherTables:
    """Discover what waits for a table and prepare its next batch, without writing anything."""
    return prepare_batch(job, discover(job, observe), observe)


def prepare_batch(
    job: Job[F], discovery: Discovery, observe: StepObserver, *, may_write: bool = False
) -> PreparedBatch[F] | Idle | OnlyOtherTables:
    """Read, plan and resolve the next batch of what was discovered.

    Where it `may_write`, the rows of a full load may be written to files that no reader sees. Returns Idle or
    OnlyOtherTables where there is no batch. Raises AlarmRaised where the rows show a possible loss, SourceError
    where they cannot be read, and what `plan_and_resolve` raises.
    """
    state, selection = discovery.state, discovery.selection
    if not selection.objects:
        refuse_other_options(job.dimension, state.progress)  # also checked when no object waits
        return Idle.LOADING if selection.awaited is not None and selection.awaited.is_pending else Idle.NOTHING
    epoch = state.progress.epoch if selection.load_epoch is None else selection.load_epoch
    selection = _selection_to_read(job, discovery, epoch, may_write=may_write)
    with observe("read"):
        batch = job.source.read(job.dimension, selection, epoch)
    try:
        _check_facts(job, discovery, selection, batch, epoch)
    except (AlarmRaised, SourceError):
        batch.close()
        raise
    if not batch.facts.objects:
        batch.close()
        return Idle.CHANGING if batch.facts.others is None else OnlyOtherTables(batch.facts.others)
    batch_input = BatchInput(
        state=state, change_log_state=discovery.change_log_state, batch=batch, selection=selection
    )
    return plan_and_resolve(job, batch_input, observe)


def plan_and_resolve(job: Job[F], batch_input: BatchInput[F], observe: StepObserver) -> PreparedBatch[F]:
    """Plan a batch and resolve its rows; the batch is closed where that fails.

    Raises what `plan` and the checks of `core.checks` raise, and ConservationError where the counts of the result
    do not add up.
    """
    batch = batch_input.batch
    resolved: MergeResult | None = None
    try:
        with observe("plan"):
            planned = _plan_batch(job, batch_input)
            if planned.evolution.quarantined_changes:
                batch = job.opened.quarantine.refuse(planned, batch)
                planned = replace(planned, facts=batch.facts)
            if planned.splices is not None:
                refuse_incomplete_snapshot(planned.dimension, planned.facts)
        with observe("resolve"):
            resolved = job.opened.table.resolve(planned, batch.frame)
            _check_counts(planned, resolved)
            refuse_flood(planned.dimension, resolved.rejects, resolved.counts.read)
            if not planned.releases:
                refuse_regressions(planned, resolved, batch_input.selection.reached, batch_input.selection.restarts)
                refuse_covered_rows(planned, resolved.counts)
    except BaseException:
        if resolved is not None:
            resolved.close()
        batch.close()
        raise
    return PreparedBatch(
        plan=planned,
        batch=batch,
        resolved=resolved,
        progress=progress_after(batch_input, planned, resolved),
        selection=batch_input.selection,
        held_before=batch_input.state.progress.held,
    )


def _selection_to_read(job: Job[F], discovery: Discovery, epoch: int, *, may_write: bool) -> ObjectSelection:
    """Return the selection with what a source needs to read its objects: columns, header, log positions, writer."""
    state, selection = discovery.state, discovery.selection
    return replace(
        selection,
        columns=None if state.schema is None else dimension_as_stored(job, state).schema,
        restarts=LogRestart.all_of(discovery.change_log_state.acknowledged(epoch).get(LOG_ALARM, ())),
        reached=_log_reached(discovery, selection, epoch),
        load_writer=load_writer(job, discovery, epoch) if may_write else None,
        header=state.progress.header if selection.load_epoch is None else None,
    )


def _check_facts(
    job: Job[F], discovery: Discovery, selection: ObjectSelection, batch: Batch[F], epoch: int
) -> None:
    """Raise AlarmRaised or SourceError where the facts of a batch show a possible loss."""
    name, facts, progress = job.dimension.name, batch.facts, discovery.state.progress
    acked = discovery.change_log_state.acknowledged(epoch)
    is_same_epoch = progress.epoch == epoch
    refuse_half_load(str(name), facts, discovery.object_history)
    known_databases = progress.databases if is_same_epoch else None
    refuse_other_databases(name, facts.databases, known_databases or (), acked.get(DATABASE_ALARM, ()))
    refuse_log_restart(job.dimension, facts, selection.reached, selection.restarts)
    applied, records = discovery.change_log_state.objects.values(), discovery.change_log_state.records
    refuse_unordered_truncate(str(name), facts, selection, applied, records)
    newest_time = progress.time if is_same_epoch else None
    refuse_topic_restart(name, facts.objects, selection, newest_time, acked.get(TOPIC_ALARM, ()))


def _log_reached(discovery: Discovery, selection: ObjectSelection, epoch: int) -> LogReached:
    """Return how far a table, and each partition of its topic, has come in the log of its source in this epoch."""
    progress = discovery.state.progress
    records = [record for record in discovery.change_log_state.records if record.is_of(epoch)]
    partition_ends = {item.order: selection.partition_end(item.name) for item in selection.objects}
    ends = {order: end for order, end in partition_ends.items() if end is not None}
    if progress.epoch != epoch:
        return LogReached(ends=ends)
    lowest = [record.least.sequence for record in records if record.least.sequence > 0]
    highest = [record.greatest.sequence for record in records if record.greatest.sequence > 0]
    logs = frozenset(map(LogName.of, progress.logs or ()))
    return LogReached(
        min(lowest, default=None),
        max(highest, default=None),
        progress.time,
        logs,
        snapshot=progress.snapshot,
        has_begun=bool(highest),
        ends=ends,
        partitions={} if progress.partitions is None else progress.partitions,
    )


def _plan_batch(job: Job[F], batch_input: BatchInput[F]) -> MergePlan:
    """Return the plan of a batch; raises as `plan`, `refuse_refused_files` and `refuse_small_load` do."""
    change_log_state, progress = batch_input.change_log_state, batch_input.state.progress
    releases = frozenset(entry.position for entry in batch_input.settled.entries)
    planned = plan(
        job.dimension,
        batch_input.batch.facts,
        progress,
        stored=batch_input.state.schema,
        capabilities=job.opened.table.capabilities,
        applied=change_log_state.objects.values(),
        records=change_log_state.records,
        has_partial_events=change_log_state.has_partial_events,
        holds=tuple(hold for hold in change_log_state.holds if hold.position not in releases),
        releases=releases,
        repaired=frozenset(entry.position for entry in batch_input.settled.repaired),
        begun_at=0 if job.ledger_writer is None else job.ledger_writer.now(),
        is_first=batch_input.selection.is_first,
    )
    in_log = [item.in_log for item in planned.facts.objects]
    has_order = not (releases or planned.appends)  # rows without a key have no order
    suspects = find_suspects(in_log, batch_input.selection.reached) if has_order else frozenset[int]()
    planned = replace(planned, suspect_objects=suspects)
    next_epoch = planned.epoch + (planned.splices is not None)  # operators acknowledge alarms for the next epoch
    acked = change_log_state.acknowledged(next_epoch)
    refuse_refused_files(planned, progress, acked.get(REFUSED_ALARM, frozenset()))
    refuse_small_load(planned, progress, acked)
    return planned


def _check_counts(planned: MergePlan, resolved: MergeResult) -> None:
    """Raise ConservationError where the counts of a merge result do not add up to the rows that were read."""
    counts, read = resolved.counts, 0 if planned.releases else planned.facts.read
    is_explained = sum(resolved.rejects.values()) == counts.quarantined
    if not counts.adds_up() or counts.read != read or not is_explained:
        raise ConservationError(
            f"{planned.dimension.name}: the counts of batch {planned.batch} do not add up",
            found=f"{read} rows were read, and counted as {counts}; refused: {dict(resolved.rejects)}",
            todo="Nothing was applied. This is a defect of lakeward: please report it.",
        )
