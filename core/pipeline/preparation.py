"""Working out the next batch of a table: what waits is read, planned and resolved, and nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Generic, TypeVar

from lakeward.core.checks.batch_checks import (
    refuse_covered_rows,
    refuse_flood,
    refuse_half_load,
    refuse_log_restart,
    refuse_other_options,
    refuse_regressions,
    refuse_small_load,
)
from lakeward.core.checks.databases import DATABASE_ALARM, add_databases, refuse_other_databases
from lakeward.core.checks.event_order import refuse_other_order
from lakeward.core.checks.key_form import refuse_other_key_form
from lakeward.core.checks.log_restart import LOG_ALARM, LogRestart, find_suspects
from lakeward.core.checks.log_steps import LogName, LogReached, SnapshotPlace
from lakeward.core.checks.refused_files import REFUSED_ALARM, refuse_refused_files
from lakeward.core.checks.topic_restart import TOPIC_ALARM, refuse_topic_restart
from lakeward.core.checks.unordered_truncates import refuse_unordered_truncate
from lakeward.core.dimension import Dimension
from lakeward.core.errors import AlarmRaised, ConservationError, RepairError, SourceError
from lakeward.core.events import Mark
from lakeward.core.history.snapshot_splice import refuse_in_part
from lakeward.core.history.stored_options import options_of
from lakeward.core.ledger.duplicate_objects import first_twin
from lakeward.core.ledger.objects import ObjectSelection, digest_of
from lakeward.core.ledger.other_tables import add_others
from lakeward.core.merge.change_log import Memory, next_mark
from lakeward.core.pipeline.direct_load import load_writer
from lakeward.core.pipeline.discovery import look, read_state
from lakeward.core.pipeline.job import (
    Discovery,
    Idle,
    Job,
    OthersAlone,
    PreparedBatch,
    Settlement,
    StepObserver,
    no_observer,
)
from lakeward.core.plan import MergePlan, backwards, plan
from lakeward.core.ports import Batch, ChangeLogState, Entry, MergeResult, TableState
from lakeward.core.progress import Progress
from lakeward.core.quarantine.repair import check_every
from lakeward.core.quarantine.replay import columns_with, is_as_written, is_readable_again, not_as_written
from lakeward.core.schema_changes.evolution import with_new_names

F = TypeVar("F")


def prepare(job: Job[F], observe: StepObserver = no_observer) -> PreparedBatch[F] | Idle | OthersAlone:
    """Work out the next batch of a table, changing nothing."""
    return prepare_seen(job, look(job, observe), observe)


def prepare_seen(
    job: Job[F], seen: Discovery, observe: StepObserver, *, may_write: bool = False
) -> PreparedBatch[F] | Idle | OthersAlone:
    """Work out the next batch of what was seen to wait; where it `may_write`, to files that nobody sees."""
    standing, selection = seen.standing, seen.selection
    if not selection.objects:
        refuse_other_options(job.dimension, standing.progress)  # it is not for the next file to find out
        return Idle.LOADING if selection.awaited is not None and selection.awaited.is_told else Idle.NOTHING
    epoch = standing.progress.epoch if selection.load is None else selection.load
    columns = None if standing.schema is None else as_it_stands(job, standing).schema
    acked = seen.change_log_state.acked(epoch)
    restarts = LogRestart.all_of(acked.get(LOG_ALARM, ()))
    reached = _reached(seen, selection, epoch)
    writer = load_writer(job, seen, epoch) if may_write else None
    selection = replace(selection, columns=columns, restarts=restarts, reached=reached, load_writer=writer)
    selection = replace(selection, header=standing.progress.header if selection.load is None else None)
    with observe("read"):
        batch = job.source.read(job.dimension, selection, epoch)
    try:
        refuse_half_load(str(job.dimension.name), batch.facts, seen.past)
        known = standing.progress.databases if standing.progress.epoch == epoch else None
        passed = acked.get(DATABASE_ALARM, ())
        refuse_other_databases(job.dimension.name, batch.facts.databases, known or (), passed)
        refuse_log_restart(job.dimension, batch.facts, reached, restarts)
        applied, records = seen.change_log_state.objects.values(), seen.change_log_state.records
        refuse_unordered_truncate(str(job.dimension.name), batch.facts, selection, applied, records)
        time = standing.progress.time if standing.progress.epoch == epoch else None
        passed = acked.get(TOPIC_ALARM, ())
        refuse_topic_restart(job.dimension.name, batch.facts.objects, selection, time, passed)
    except (AlarmRaised, SourceError):
        batch.close()
        raise
    if not batch.facts.objects:
        batch.close()
        return Idle.CHANGING if batch.facts.others is None else OthersAlone(batch.facts.others)
    return work_out(
        job,
        Found(standing=standing, change_log_state=seen.change_log_state, batch=batch, selection=selection),
        observe,
    )


def prepare_release(job: Job[F], settled: Settlement, observe: StepObserver = no_observer) -> PreparedBatch[F]:
    """Work out what follows once these entries of the quarantine are settled.

    Raises SchemaConflict where mended rows would be put in another order than those that stand, or get other keys.
    """
    with observe("read_table"):
        standing = job.opened.table.standing()
    with observe("read_change_log"):
        change_log_state = read_state(job, standing.progress)
    if settled.repaired:
        order_by, key_form = job.source.order_by(job.dimension), job.source.key_form(job.dimension)
        refuse_other_order(job.dimension, standing.schema, standing.progress, order_by)
        refuse_other_key_form(job.dimension, standing.progress, key_form)
    with observe("read"):
        dimension = _as_it_will_be(job, standing, change_log_state, settled.repaired)
        repaired = job.source.repair_row(dimension, settled.repaired) if settled.repaired else None
        batch = job.opened.quarantine.waiting(standing.progress, settled.entries, repaired)
        if settled.repaired:
            batch = replace(batch, facts=replace(batch.facts, schema=dimension.schema))
        again = job.source.recomputed(dimension, batch.facts.needs)
        batch = replace(batch, facts=replace(batch.facts, recomputed=again))
    found = Found(standing=standing, change_log_state=change_log_state, batch=batch, settled=settled)
    return work_out(job, found, observe)


def as_it_stands(job: Job[F], standing: TableState) -> Dimension:
    """Return the dimension with the columns of the table: they are those that a mended row must have."""
    if standing.schema is None:
        return job.dimension
    return replace(job.dimension, schema=with_new_names(standing.schema, job.dimension.policies.renames))


def replayable(job: Job[F], entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries that can be replayed: what is mended, and rows whose change the table may follow now.

    Raises MendError where that is none, and some show a change that it may not follow.
    """
    standing = job.opened.table.standing()
    change_log_state = job.opened.change_log.read_state(standing.progress)
    found, refused = [], None
    for entry in entries:
        if entry.repaired is not None:
            found.append(entry)
        elif is_as_written(entry):
            try:
                _as_it_will_be(job, standing, change_log_state, [entry])
                found.append(entry)
            except RepairError as error:
                refused = refused or error
    if refused is not None and not found:
        raise refused
    return found


def _as_it_will_be(
    job: Job[F], standing: TableState, change_log_state: ChangeLogState, entries: Sequence[Entry]
) -> Dimension:
    """Return the dimension with the columns of the table once these entries are replayed.

    Raises MendError for an entry that cannot be: the table may have other columns since it was mended.
    """
    stands = as_it_stands(job, standing)
    dimension = replace(stands, schema=columns_with(job.dimension, stands.schema, entries, change_log_state.shown))
    written = [entry for entry in entries if entry.repaired is None]
    if written and job.source.written(stands) != stands:
        raise not_as_written(dimension, written[0], "rules make its columns")
    check_every(job.source.written(dimension), [entry for entry in entries if entry.repaired is not None])
    return dimension


def read_again(job: Job[F], entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the rows that nobody mended and that fit under the settings as they are now, read from their texts."""
    standing = job.opened.table.standing()
    change_log_state = job.opened.change_log.read_state(standing.progress)
    dimension = as_it_stands(job, standing)
    found = [entry for entry in entries if is_readable_again(dimension, entry)]
    if not found or job.source.written(dimension) != dimension:
        return []
    dimension = _as_it_will_be(job, standing, change_log_state, found)
    while found:
        try:
            job.source.repair_row(dimension, found)
        except RepairError as error:
            before = len(found)
            found = [entry for entry in found if (entry.order, entry.row) not in error.rows]
            if len(found) == before:
                return []  # what is wrong is none of the rows alone
        else:
            break
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[F]):
    """What the steps before the decision found."""

    standing: TableState
    change_log_state: ChangeLogState
    batch: Batch[F]
    selection: ObjectSelection = field(default_factory=ObjectSelection)
    settled: Settlement = field(default_factory=Settlement)


def work_out(job: Job[F], found: Found[F], observe: StepObserver) -> PreparedBatch[F]:
    """Decide what a batch does, and work its rows out; it is closed where that fails."""
    batch = found.batch
    resolved: MergeResult | None = None
    try:
        with observe("plan"):
            planned = _decided(job, found)
            if planned.evolution.shown:
                batch = job.opened.quarantine.refuse(planned, batch)
                planned = replace(planned, facts=batch.facts)
            if planned.splices is not None:
                refuse_in_part(planned.dimension, planned.facts)
        with observe("resolve"):
            resolved = job.opened.table.resolve(planned, batch.frame)
            _check_sum(planned, resolved)
            refuse_flood(planned.dimension, resolved.rejects, resolved.counts.read)
            if not planned.releases:
                refuse_regressions(planned, resolved, found.selection.reached, found.selection.restarts)
                refuse_covered_rows(planned, resolved.counts)
    except BaseException:
        if resolved is not None:
            resolved.close()
        batch.close()
        raise
    progress = _progress_after(found, planned, resolved)
    return PreparedBatch(
        plan=planned,
        batch=batch,
        resolved=resolved,
        progress=progress,
        selection=found.selection,
        held_before=found.standing.progress.held,
    )


def _reached(seen: Discovery, selection: ObjectSelection, epoch: int) -> LogReached:
    """Return how far a table, and each partition of its topic, has come in the log of its source in this epoch."""
    progress, records = seen.standing.progress, [r for r in seen.change_log_state.records if r.is_of(epoch)]
    told = {item.order: selection.partition_end(item.name) for item in selection.objects}
    ends = {order: end for order, end in told.items() if end is not None}
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


def _partitions_after(found: Found[F], planned: MergePlan) -> Mapping[int, LogReached] | None:
    """Return how far each partition has come in the log of the source, once the batch is committed."""
    before = {} if planned.replaces else found.standing.progress.partitions or {}
    reached = LogReached(ends=found.selection.reached.ends, partitions=before)
    for item in planned.facts.objects:
        for span in item.spans:
            reached = reached.after(item.object.order, span)
    kept = {end: known._replace(read_time=None, has_begun=False) for end, known in reached.partitions.items()}
    return kept or None


def _snapshot_after(found: Found[F], planned: MergePlan) -> SnapshotPlace | None:
    """Return where the highest initial snapshot lies in the log of the source, once the batch is committed."""
    reached = LogReached()
    if not planned.replaces:
        progress = found.standing.progress
        reached = LogReached(snapshot=progress.snapshot, has_begun=found.selection.reached.has_begun)
    for item in planned.facts.objects:
        reached = reduce(LogReached.with_span, item.spans, reached)
    return reached.snapshot


def _logs_after(found: Found[F], planned: MergePlan) -> tuple[str, ...] | None:
    """Return the logs that the changes of a table came from, once the batch is committed."""
    before = () if planned.replaces else found.standing.progress.logs or ()
    new = {str(span.log) for item in planned.facts.objects for span in item.spans if span.log.is_told}
    return tuple(sorted({*before, *new})) or None


def _decided(job: Job[F], found: Found[F]) -> MergePlan:
    """Return what applying a batch will do; raises as `plan`, `refuse_refused_files` and `refuse_small_load` do."""
    change_log_state, progress = found.change_log_state, found.standing.progress
    releases = frozenset(entry.position for entry in found.settled.entries)
    planned = plan(
        job.dimension,
        found.batch.facts,
        progress,
        stored=found.standing.schema,
        capabilities=job.opened.table.capabilities,
        seen=change_log_state.objects.values(),
        records=change_log_state.records,
        in_part=change_log_state.in_part,
        holds=tuple(hold for hold in change_log_state.holds if hold.position not in releases),
        releases=releases,
        repaired=frozenset(entry.position for entry in found.settled.repaired),
        ran=0 if job.ledger_writer is None else job.ledger_writer.now(),
        is_first=found.selection.is_first,
    )
    in_log = [item.in_log for item in planned.facts.objects]
    has_order = not (releases or planned.appends)  # without a key nothing is put in order
    suspects = find_suspects(in_log, found.selection.reached) if has_order else frozenset[int]()
    planned = replace(planned, suspect_objects=suspects)
    awaited = planned.epoch + (planned.splices is not None)  # what an operator says is of the next epoch
    acked = change_log_state.acked(awaited)
    refuse_refused_files(planned, progress, acked.get(REFUSED_ALARM, frozenset()))
    refuse_small_load(planned, progress, acked)
    return planned


def _check_sum(planned: MergePlan, resolved: MergeResult) -> None:
    counts, read = resolved.counts, 0 if planned.releases else planned.facts.read
    is_told = sum(resolved.rejects.values()) == counts.quarantined
    if not counts.add_up() or counts.read != read or not is_told:
        raise ConservationError(
            f"{planned.dimension.name}: the counts of batch {planned.batch} do not add up",
            found=f"{read} rows were read, and counted as {counts}; refused: {dict(resolved.rejects)}",
            todo="Nothing was applied. This is a defect of lakeward: please report it.",
        )


def _progress_after(found: Found[F], planned: MergePlan, resolved: MergeResult) -> Progress:
    before, facts = found.standing.progress, planned.facts
    objects = [item.object.name for item in facts.objects]
    reached = [position for position in (before.high_water, facts.greatest) if position is not None]
    times = [time for time in (before.time, None if planned.releases else facts.time) if time is not None]
    known = facts.ahead if planned.replaces else before.ahead
    replaces_rows = planned.replaces and planned.dimension.history is None
    current = (before.current or 0) + resolved.current
    ahead = [found for found in (known, facts.ahead) if found is not None]
    return replace(
        before,
        batch=planned.batch,
        epoch=planned.epoch,
        high_water=max(reached, default=None),
        mark=_mark_after(found, planned),
        object=objects[-1] if objects else before.object,
        time=max(times, default=None),
        rows=resolved.written if replaces_rows else before.rows + resolved.written - resolved.removed,
        current=current if planned.dimension.keeps_ended else None,
        numbered=_numbered_after(planned, resolved),
        held=resolved.held,
        inexact_since=(None if planned.replaces else before.inexact_since) or facts.inexact_since,
        ahead=max(ahead, default=None),
        backwards=before.backwards if planned.releases else backwards(planned, resolved.rejects),
        twin=before.twin if planned.releases else first_twin(planned, found.change_log_state.objects.values()),
        sequences=planned.dimension.sequences,
        key=planned.dimension.key,
        match=planned.dimension.match,
        history=options_of(planned.dimension),
        digest=digest_of(item.object for item in facts.objects),
        logs=_logs_after(found, planned),
        partitions=_partitions_after(found, planned),
        snapshot=_snapshot_after(found, planned),
        counts=resolved.counts,
        totals=resolved.counts if planned.replaces else before.totals + resolved.counts,
        others=add_others(None if planned.replaces else before.others, facts.others),
        databases=add_databases(None if planned.replaces else before.databases, facts.databases),
        order_by=_setting_after(planned, found.selection.order_by, found.standing.progress.order_by),
        key_form=_setting_after(planned, found.selection.key_form, found.standing.progress.key_form),
        header=_header_after(planned, before.header),
    )


def _setting_after(planned: MergePlan, told: str | None, before: str | None) -> str | None:
    """Return what a source says of its settings as it is kept once the batch is committed; a load begins anew."""
    return told if told is not None else None if planned.replaces else before


def _header_after(planned: MergePlan, before: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the order of columns in the last header, where it is not the declared one; a load begins anew."""
    found = planned.facts.header
    if found is None:
        return None if planned.replaces else before
    return found or None


def _numbered_after(planned: MergePlan, resolved: MergeResult) -> int | None:
    """Return the highest surrogate number that was given once the batch is committed, None where none is."""
    history = planned.dimension.history
    return planned.numbered + resolved.numbered if history is not None and history.has_numbers else None


def _mark_after(found: Found[F], planned: MergePlan) -> Mark | None:
    """Return the mark once the batch is committed: it is found from the records of all batches."""
    new = [] if planned.record is None else [planned.record]
    records = [*found.change_log_state.records, *new]
    loaded = max((item.loaded for item in records), default=0)
    memory = Memory(epoch=planned.epoch, loaded=loaded, mark=found.standing.progress.mark, records=records)
    return next_mark(memory, planned.dimension.lateness)
