"""The reference adapter, broken on purpose: each mistake is one that the laws must show.

Mistakes that a table of any format could make are in `broken_feeds.py` and `broken_answers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import broken_answers
import broken_feeds
from broken_ports import AnyTable
from mutations import Method, first, mutate

from lakeward.adapters.memory import Frame, MemoryQueue, MemoryTable, facts_of
from lakeward.core.events import UNSET, ChangeEvent, Key, Operation, Position
from lakeward.core.merge.change_log import ChangeLogContents, Reason, Reject
from lakeward.core.merge.delivery import DeliveryResult
from lakeward.core.merge.facts import Capability
from lakeward.core.merge.fold import Row
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Batch, Entry, MergeResult, Notice, OperatorDecision, RollbackPreview
from lakeward.core.progress import Progress
from lakeward.plugins.testing.bench import COLUMNS
from lakeward.plugins.testing.scripts import NAME

Rows = dict[Key, Row | None]

_mutate = partial(mutate, MemoryTable)


def of_events(change: Callable[[MemoryTable, MergePlan, ChangeEvent], ChangeEvent]) -> Method:
    """Return a `resolve` of other events than those delivered."""
    return lambda right, own, plan, frame: right(
        plan, [change(own, plan, item) if isinstance(item, ChangeEvent) else item for item in frame]
    )


def of_rows(change: Callable[[MemoryTable, MergePlan, Frame, Rows], None]) -> Method:
    """Return a `resolve` after which other rows are written than those resolved."""

    def resolve(right: Method, own: MemoryTable, plan: MergePlan, frame: Frame) -> MergeResult:
        resolved = right(plan, frame)
        change(own, plan, frame, resolved.detail.rows)
        return resolved

    return resolve


def of_memory(known: Callable[[MemoryTable, MergePlan], ChangeLogContents]) -> Method:
    """Return a `resolve` with another change log."""

    def resolve(right: Method, own: MemoryTable, plan: MergePlan, frame: Frame) -> MergeResult:
        memory, own.memory = own.memory, known(own, plan)
        try:
            return right(plan, frame)
        finally:
            own.memory = memory

    return resolve


# Events and plans.


def _without_unsent_cells(_: MemoryTable, plan: MergePlan, event: ChangeEvent) -> ChangeEvent:
    cells = {name: None if cell is UNSET else cell for name, cell in event.cells.items()}
    return replace(event, cells=cells) if plan.releases else event


def _resolve_without_copies(right: Method, own: MemoryTable, plan: MergePlan, frame: Frame) -> MergeResult:
    known = {number for record in own.memory.records for number in record.objects}
    items = [item for item in frame if not (plan.epoch > 1 and item.position.object in known)]
    resolved, copies = right(plan, items), len(frame) - len(items)
    counts = resolved.counts
    return replace(
        resolved, counts=replace(counts, read=counts.read + copies, duplicates=counts.duplicates + copies)
    )


def _with_lists(_: MemoryTable, plan: MergePlan, event: ChangeEvent) -> ChangeEvent:
    lists = [column.name for column in plan.evolution.schema if column.type.name == "list"]
    return replace(event, cells={**event.cells, **{name: event.cells.get(name) or [] for name in lists}})


def _with_joined_key(own: MemoryTable, _: MergePlan, event: ChangeEvent) -> ChangeEvent:
    text = ",".join(map(str, event.key))
    return replace(event, key=next((key for key in own.rows if ",".join(map(str, key)) == text), event.key))


NullsUnsentCellsOfRepairedRows = _mutate(
    "writes NULL for unsent cells of a repaired row", resolve=of_events(_without_unsent_cells)
)
LeavesTheOldKeyOfARepairedRow = _mutate(
    "applies a repaired key change as an update of the new key",
    resolve=of_events(lambda _, plan, event: replace(event, old_key=None) if plan.releases else event),
)
IdentifiesObjectsByNumberAlone = _mutate(
    "treats an object of a new epoch as a copy of an old one with its name", resolve=_resolve_without_copies
)
BelievesTimesInTheFuture = _mutate(
    "raises the low watermark of the change log by a time in the far future",
    resolve=lambda right, _, plan, frame: right(replace(plan, facts=replace(plan.facts, believed=None)), frame),
)
TakesNoListForAnEmptyOne = _mutate("stores NULL lists as empty ones", resolve=of_events(_with_lists))
TakesKeysForOthers = _mutate(
    "takes a key for an earlier one that gives the same text if its parts are joined by commas",
    resolve=of_events(_with_joined_key),
)
MakesARowOfAPart = _mutate(
    "creates a row for an update without a stored row, with NULL in missing columns",
    resolve=of_events(lambda _, __, event: replace(event, was_whole=True)),
)

# The change log.


def _without_changes(memory: ChangeLogContents, is_known: Callable[[ChangeEvent, bool], bool]) -> ChangeLogContents:
    """Return a change log with only these changes, by event and whether it waits."""
    kept = {place: one for place, one in memory.changes.items() if is_known(one.event, one.waiting)}
    return replace(memory, changes=kept)


def _trim_changes(is_known: Callable[[ChangeEvent, bool], bool]) -> Method:
    """Return a `trim` after which only these changes are known."""

    def trim(right: Method, own: MemoryTable, progress: Progress) -> None:
        right(progress)
        own.memory = _without_changes(own.memory, is_known)

    return trim


def _resolve_as_newest(right: Method, own: MemoryTable, plan: MergePlan, frame: Frame) -> MergeResult:
    rows, own.rows = own.rows, {key: replace(row, position=Position(0, 0, 0, 0)) for key, row in own.rows.items()}
    try:
        return of_memory(lambda *_: _without_changes(own.memory, lambda _, waits: waits))(right, own, plan, frame)
    finally:
        own.rows = rows


def _set_progress(own: MemoryTable, progress: Progress) -> None:
    own.progress = progress


def _use_batch_before(own: MemoryTable, plan: MergePlan, *_: object) -> None:
    own.progress = replace(own.progress, batch=plan.batch - 1)


TreatsEveryEventAsNewer = _mutate(
    "treats every event as newer than stored rows and remembered deletes", resolve=_resolve_as_newest
)
ForgetsDeletesTooEarly = _mutate(
    "trims what the source may still deliver again", trim=_trim_changes(lambda _, waits: waits)
)
ForgetsDeletesAboveTheMark = _mutate(
    "does not remember deletes above the low watermark",
    trim=_trim_changes(lambda event, _: event.operation is not Operation.DELETE),
)
AppliesRepairedRowsAlone = _mutate(
    "forgets the events that waited behind a repaired row",
    resolve=of_memory(
        lambda own, plan: _without_changes(own.memory, lambda _, waits: not (waits and plan.repaired))
    ),
)
AppliesLateEvents = _mutate(
    "applies events at or below the low watermark",
    resolve=of_memory(lambda own, _: replace(own.memory, low_watermark=None)),
)
KeepsProgressApart = _mutate(
    "commits the rows before the progress",
    commit=lambda right, own, plan, resolved, _: right(plan, resolved, own.progress),
    trim=first(_set_progress),
)
CommitsOnAnyTableState = _mutate(
    "does not check that the table state is the one of the prepared batch", commit=first(_use_batch_before)
)

# Rows and versions.


def _delete_moved(own: MemoryTable, _: MergePlan, __: Frame, rows: Rows) -> None:
    for key, row in rows.items():
        before = own.rows.get(key)
        if row is not None and before is not None and before.cells["a"] // 3 != row.cells["a"] // 3:
            rows[key] = None


def _keep_other_rows(_: MemoryTable, plan: MergePlan, frame: Frame, rows: Rows) -> None:
    named = {key for item in frame if isinstance(item, ChangeEvent) for key in item.keys}
    for key in [key for key in rows if plan.truncates.arrived and key not in named]:
        del rows[key]


def _keep_missing_rows(_: MemoryTable, plan: MergePlan, frame: Frame, rows: Rows) -> None:
    held = {key for item in frame for key in item.keys}
    for key in [key for key in rows if plan.replaces and key not in held]:
        del rows[key]


def _keep_deleted_cells(own: MemoryTable, _: MergePlan, __: Frame, rows: Rows) -> None:
    for key, row in rows.items():
        before = own.rows.get(key)
        if row is not None and before is not None and row.deleted and before.deleted:
            rows[key] = replace(row, cells=before.cells)


def _rows_with_newest_version(right: Method, _: MemoryTable, settled: DeliveryResult) -> dict[Key, Row]:
    return {key: replace(row, versions=row.versions[-1:]) for key, row in right(settled).items()}


DropsRowsThatMove = _mutate(
    "removes a row whose partition (by threes of `a`) changes without writing the new one",
    resolve=of_rows(_delete_moved),
)
TruncatesOnlyRowsOfTheBatch = _mutate(
    "truncates only rows with other events in the batch", resolve=of_rows(_keep_other_rows)
)
KeepsRowsMissingFromALoad = _mutate(
    "replaces, at a reload, only the rows and versions that the load has", resolve=of_rows(_keep_missing_rows)
)
IgnoresLateChangesOfDeletedRows = _mutate(
    "ignores late changes of a softly deleted row", resolve=of_rows(_keep_deleted_cells)
)
KeepsTheNewestVersionAlone = _mutate("keeps only the newest version", rows_after=_rows_with_newest_version)
DeletesForGood = _mutate(
    "removes rows in spite of soft deletes",
    rows_after=lambda right, _, settled: {key: row for key, row in right(settled).items() if not row.deleted},
)


@dataclass
class KeepsHistoriesAlone(MemoryTable):
    """Correct, with histories as its only capability. It breaks no law, and mistakes in it must break theirs."""

    capabilities: frozenset[Capability] = frozenset({Capability.HISTORY})


@dataclass
class KeepsHistoriesWithoutParts(MemoryTable):
    """Correct, without truncates, partial rows and key changes."""

    CAN: ClassVar[frozenset[str]] = frozenset({"history", "bitemporal", "numbers", "reload", COLUMNS})
    capabilities: frozenset[Capability] = frozenset(
        {Capability.HISTORY, Capability.BITEMPORAL, Capability.NUMBERS, Capability.RELOAD}
    )


# The quarantine.


class MixesQuarantines(MemoryTable):
    """Mixes the quarantines of all tables. The first table of a lake is that of the kit."""

    every: ClassVar[dict[int, list[Reject]]] = {}

    def __post_init__(self) -> None:
        if self.dimension.name == NAME:
            self.every.clear()

    def hold(self, plan: MergePlan, resolved: MergeResult) -> None:
        MemoryTable.hold(self, plan, resolved)
        self.every.setdefault(plan.batch, []).extend(self.quarantined[plan.batch])

    def entries(self, progress: Progress) -> Sequence[Entry]:
        own, self.quarantined = self.quarantined, self.every
        found = MemoryTable.entries(self, progress)
        self.quarantined = own
        return found


def _all_refused(plan: MergePlan, batch: Batch[Frame], *kinds: Operation) -> Batch[Frame]:
    items = [
        Reject(item.position, Reason.SCHEMA, item.keys, item.transaction, item.time)
        if isinstance(item, ChangeEvent) and item.operation in kinds
        else item
        for item in batch.frame
    ]
    found = facts_of(plan.dimension, items)
    facts = replace(batch.facts, operations=found.operations, rejects=found.rejects)
    return Batch(items, facts, batch.close)


HoldsTheLaterKeyOfATieAlone = _mutate(
    "reports only the new key of a tied key change as held",
    entries=lambda right, _, progress: [
        replace(entry, other_key=None) if entry.reason == Reason.TIE.value else entry for entry in right(progress)
    ],
)
CutsKeysInQuarantine = _mutate(
    "cuts keys in quarantine at 255 characters",
    key_text=lambda right, _, key: right(tuple(part[:255] if isinstance(part, str) else part for part in key)),
)
RefusesAllRowsOfChangedFiles = _mutate(
    "refuses every row of an object with a new column, also rows without a value in it",
    refuse=lambda _, __, plan, batch: _all_refused(plan, batch, *Operation),
)
RefusesDeletesThatShowAChange = _mutate(
    "refuses deletes with a value in a new column",
    refuse=lambda right, _, plan, batch: _all_refused(plan, right(plan, batch), Operation.DELETE),
)

# Operator decisions, rollback and maintenance.


def _commit_decision(right: Method, own: MemoryTable, progress: Progress, decision: OperatorDecision) -> None:
    right(progress, decision)
    own.progress = replace(own.progress, batch=own.progress.batch + 1)


def _without_rollback_of(*names: str) -> Method:
    """Return a `roll_back` that keeps these attributes."""

    def roll_back(right: Method, own: MemoryTable, preview: RollbackPreview) -> None:
        kept = {name: getattr(own, name) for name in names}
        kept = {name: dict(one) if isinstance(one, dict) else one for name, one in kept.items()}
        right(preview)
        for name, one in kept.items():
            setattr(own, name, one)

    return roll_back


def _roll_back_without_trimmed(right: Method, own: MemoryTable, preview: RollbackPreview) -> None:
    now, batch = own.memory, preview.version.progress.batch
    right(preview)
    own.memory.changes = {place: change for place, change in now.changes.items() if change.batch <= batch}
    own.memory.bases = {key: base for key, base in now.bases.items() if base.batch <= batch}


def _maintain_rows(right: Method, own: MemoryTable, policy: object, *, is_dry: bool) -> object:
    if is_dry:
        own.rows = dict(list(own.rows.items())[:1])
    return right(policy, is_dry=is_dry)


def _receive_and_acknowledge(right: Method, own: MemoryQueue) -> Sequence[Notice]:
    received = right()
    own.acknowledge(received)
    return received


ForgetsDecisionsWithABatch = _mutate(
    "forgets operator decisions with the next batch", record_batch=first(lambda own, *_: own.decisions.clear())
)
CommitsADecisionAsABatch = _mutate("commits an operator decision as a batch", record_decision=_commit_decision)
DoesNotRollBackItsChangeLog = _mutate(
    "rolls back rows and progress without the change log", roll_back=_without_rollback_of("memory")
)
DoesNotRestoreTrimmedChanges = _mutate(
    "drops later entries of the change log without restoring trimmed ones", roll_back=_roll_back_without_trimmed
)
KeepsLaterRepairs = _mutate(
    "rolls back everything except repairs of rows in quarantine", roll_back=_without_rollback_of("repaired")
)
RollsBackRowsAlone = _mutate(
    "rolls back rows without progress, so that later objects are never applied again",
    roll_back=_without_rollback_of(
        *("progress", "memory", "objects", "epochs", "quarantined", "given_up", "shown", "states")
    ),
)
MaintainsInADryRun = _mutate("changes rows in a dry run of maintenance", maintain=_maintain_rows)
AcknowledgesFirst = mutate(
    MemoryQueue, "acknowledges a notice when it is received", receive=_receive_and_acknowledge
)

BY_LAW: Mapping[str, Sequence[type[MemoryTable] | type[AnyTable]]] = {
    "a_soft_delete_keeps_the_last_values": (DeletesForGood, IgnoresLateChangesOfDeletedRows),
    "a_deleted_row_keeps_its_last_values": (DeletesForGood, IgnoresLateChangesOfDeletedRows),
    "a_row_missing_from_a_load_is_deleted_and_keeps_its_values": (DeletesForGood, KeepsRowsMissingFromALoad),
    "an_object_delivered_again_changes_nothing": (ForgetsDeletesTooEarly,),
    "a_late_change_overwrites_nothing_newer": (TreatsEveryEventAsNewer, ForgetsDeletesAboveTheMark),
    "a_snapshot_row_without_a_position_replaces_no_change": (TreatsEveryEventAsNewer,),
    "a_truncate_removes_every_older_row": (TruncatesOnlyRowsOfTheBatch,),
    "a_full_load_replaces_all_rows": (KeepsRowsMissingFromALoad,),
    "a_change_that_ties_with_a_stored_one_is_held_or_stops_the_table": (broken_answers.LetsArrivalOrderWhatTies,),
    "ties_are_held_until_an_operator_decides": (broken_answers.LetsArrivalOrderWhatTies,),
    "ties_of_partial_rows_and_key_changes_are_held": (
        broken_answers.LetsArrivalOrderWhatTies,
        HoldsTheLaterKeyOfATieAlone,
    ),
    "only_rows_that_show_a_column_change_are_refused": (
        RefusesAllRowsOfChangedFiles,
        RefusesDeletesThatShowAChange,
    ),
    "an_update_without_a_column_creates_no_row": (MakesARowOfAPart,),
    "a_value_is_read_back_unchanged": (TakesKeysForOthers, CutsKeysInQuarantine),
    "a_value_of_every_type_is_read_back_unchanged": (TakesNoListForAnEmptyOne,),
    "operator_decisions_are_stored_with_the_table": (ForgetsDecisionsWithABatch, CommitsADecisionAsABatch),
    "a_batch_is_applied_once_after_a_crash_at_any_step": (KeepsProgressApart,),
    "tables_of_one_lake_are_independent": (MixesQuarantines,),
    "maintenance_changes_no_row_and_hides_no_progress": (MaintainsInADryRun,),
    "a_batch_of_another_process_is_not_applied_again": (CommitsOnAnyTableState,),
    "any_sequence_of_moves_matches_the_reference_adapter": (
        TreatsEveryEventAsNewer,
        broken_feeds.NullsUnsentCells,
        broken_feeds.HoldsNothing,
        broken_answers.ForgetsItsProgressBehindAnothersCommit,
    ),
    "partial_rows_and_key_changes_give_the_rows_of_the_source": (broken_feeds.NullsUnsentCells,),
    "waiting_events_are_applied_in_order": (broken_feeds.LeavesThePositionOfANoOp,),
    "any_delivery_gives_the_rows_of_the_source": (DropsRowsThatMove, ForgetsDeletesTooEarly),
    "a_crash_at_any_step_changes_nothing": (KeepsProgressApart,),
    "every_step_of_the_pipeline_is_tried_with_a_crash": (KeepsProgressApart,),
    "repaired_and_discarded_rows_give_the_rows_of_the_corrected_feed": (AppliesRepairedRowsAlone,),
    "any_order_within_the_lateness_gives_the_rows_of_the_source": (ForgetsDeletesAboveTheMark,),
    "events_below_the_low_watermark_are_refused": (AppliesLateEvents,),
    "a_time_in_the_future_moves_no_watermark": (BelievesTimesInTheFuture,),
    "a_table_without_a_key_has_each_event_once": (KeepsProgressApart,),
    "repaired_partial_rows_and_key_changes_are_applied_at_their_position": (
        NullsUnsentCellsOfRepairedRows,
        LeavesTheOldKeyOfARepairedRow,
    ),
    "a_reload_leaves_only_the_new_epoch": (KeepsRowsMissingFromALoad, IdentifiesObjectsByNumberAlone),
    "a_reload_of_partial_rows_leaves_only_the_new_epoch": (KeepsRowsMissingFromALoad,),
    "a_reload_without_a_key_leaves_only_the_new_epoch": (KeepsRowsMissingFromALoad,),
    "any_order_and_any_crash_give_the_same_history": (KeepsTheNewestVersionAlone,),
    "a_reload_ends_versions_of_missing_rows": (KeepsRowsMissingFromALoad,),
    "a_rollback_restores_the_table_and_the_next_batch_follows": (
        DoesNotRollBackItsChangeLog,
        DoesNotRestoreTrimmedChanges,
        KeepsLaterRepairs,
        RollsBackRowsAlone,
    ),
}
"""Mistakes by the law of the conformance kit that must show them."""
