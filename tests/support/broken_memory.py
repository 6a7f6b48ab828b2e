"""The reference adapter, broken on purpose: each class makes one mistake that the laws must show.

Mistakes that a table of any format could make are in `broken_feeds.py` and `broken_answers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import broken_answers
import broken_feeds
from broken_ports import AnyTable

from lakeward.adapters.memory import Frame, MemoryQueue, MemoryTable, facts_of
from lakeward.core.dimension import Ties
from lakeward.core.events import (
    READ_SEQUENCE,
    UNSET,
    ChangeEvent,
    Key,
    Operation,
    Position,
)
from lakeward.core.merge.change_log import ChangeLogContents, Reason, Reject
from lakeward.core.merge.delivery import DeliveryResult
from lakeward.core.merge.facts import Capability
from lakeward.core.merge.fold import Row
from lakeward.core.merge.ties import ties_with
from lakeward.core.plan import MergePlan
from lakeward.core.ports import (
    Batch,
    Commit,
    Entry,
    MaintenancePolicy,
    MaintenanceReport,
    MergeResult,
    Notice,
    OperatorDecision,
    RollbackPreview,
)
from lakeward.core.progress import Progress
from lakeward.plugins.testing.bench import COLUMNS
from lakeward.plugins.testing.scripts import NAME


def _events(frame: Frame) -> list[ChangeEvent]:
    return [item for item in frame if isinstance(item, ChangeEvent)]


def _counted(resolved: MergeResult, **more: int) -> MergeResult:
    counts = resolved.counts
    return replace(resolved, counts=replace(counts, **{n: getattr(counts, n) + v for n, v in more.items()}))


class ChangesEvents(MemoryTable):
    """Resolves other events than those delivered."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        items = [self.change(plan, item) if isinstance(item, ChangeEvent) else item for item in frame]
        return MemoryTable.resolve(self, plan, items)

    def change(self, plan: MergePlan, event: ChangeEvent) -> ChangeEvent:
        raise NotImplementedError


class ChangesRows(MemoryTable):
    """Writes other rows than those resolved."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        resolved = MemoryTable.resolve(self, plan, frame)
        self.change(plan, frame, resolved.detail.rows)
        return resolved

    def change(self, plan: MergePlan, frame: Frame, rows: dict[Key, Row | None]) -> None:
        raise NotImplementedError


class ForgetsEntries(MemoryTable):
    """Resolves a batch with another change log."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        memory, self.memory = self.memory, self.known(plan)
        try:
            return MemoryTable.resolve(self, plan, frame)
        finally:
            self.memory = memory

    def known(self, plan: MergePlan) -> ChangeLogContents:
        raise NotImplementedError


class LetsSnapshotRowsReplace(ChangesEvents):
    """Gives snapshot rows without a position the sequence of the last change, so that they are newer by arrival."""

    def change(self, plan: MergePlan, event: ChangeEvent) -> ChangeEvent:
        if event.position.sequence != READ_SEQUENCE:
            return event
        newest = max((record.greatest.sequence for record in self.memory.records), default=READ_SEQUENCE)
        return replace(event, position=event.position._replace(sequence=newest))


class FindsTiesOfOneBatchOnly(MemoryTable):
    """Finds only ties within a batch."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        events = _events(frame)
        has_ties = bool(ties_with(events, (), {}))
        ties = plan.dimension.ties if has_ties else Ties.ARRIVAL
        return MemoryTable.resolve(self, replace(plan, dimension=replace(plan.dimension, ties=ties)), frame)


class HoldsTheLaterKeyOfATieAlone(MemoryTable):
    """Reports only the new key of a tied key change as held."""

    def entries(self, progress: Progress) -> Sequence[Entry]:
        entries = MemoryTable.entries(self, progress)
        return [replace(entry, other_key=None) if entry.reason == Reason.TIE.value else entry for entry in entries]


class TreatsEveryEventAsNewer(MemoryTable):
    """Treats every event as newer than stored rows and remembered deletes."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        rows, memory = self.rows, self.memory
        self.rows = {key: replace(row, position=Position(0, 0, 0, 0)) for key, row in rows.items()}
        waiting = {place: change for place, change in memory.changes.items() if change.waiting}
        self.memory = replace(memory, changes=waiting)
        try:
            return MemoryTable.resolve(self, plan, frame)
        finally:
            self.rows, self.memory = rows, memory


@dataclass(slots=True)
class KeepsProgressApart(MemoryTable):
    """Commits the rows before the progress."""

    late: Progress | None = None

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        self.late = progress
        return MemoryTable.commit(self, plan, resolved, self.progress)

    def trim(self, progress: Progress) -> None:
        self.progress = progress
        MemoryTable.trim(self, progress)


class DropsRowsThatMove(ChangesRows):
    """Removes a row whose partition (by threes of `a`) changes without writing the new one."""

    def change(self, plan: MergePlan, frame: Frame, rows: dict[Key, Row | None]) -> None:
        for key, row in rows.items():
            before = self.rows.get(key)
            if row is not None and before is not None and _partition(before) != _partition(row):
                rows[key] = None


def _partition(row: Row) -> int:
    value = row.cells["a"]
    assert isinstance(value, int)
    return value // 3


class ForgetsDeletesTooEarly(MemoryTable):
    """Trims what the source may still deliver again."""

    def trim(self, progress: Progress) -> None:
        MemoryTable.trim(self, progress)
        self.memory = _without_deletes(self.memory)


def _without_deletes(memory: ChangeLogContents) -> ChangeLogContents:
    return replace(memory, changes={place: c for place, c in memory.changes.items() if c.waiting})


class ForgetsDeletesAboveTheMark(MemoryTable):
    """Does not remember deletes above the low watermark."""

    def trim(self, progress: Progress) -> None:
        MemoryTable.trim(self, progress)
        changes = {p: c for p, c in self.memory.changes.items() if c.event.operation is not Operation.DELETE}
        self.memory = replace(self.memory, changes=changes)


class AppliesRepairedRowsAlone(ForgetsEntries):
    """Forgets the events that waited behind a repaired row."""

    def known(self, plan: MergePlan) -> ChangeLogContents:
        changes = {place: change for place, change in self.memory.changes.items() if not change.waiting}
        return replace(self.memory, changes=changes) if plan.repaired else self.memory


class TruncatesOnlyRowsOfTheBatch(ChangesRows):
    """Truncates only rows with other events in the batch."""

    def change(self, plan: MergePlan, frame: Frame, rows: dict[Key, Row | None]) -> None:
        named = {key for event in _events(frame) for key in event.keys}
        for key in [key for key in rows if plan.truncates.arrived and key not in named]:
            del rows[key]


class NullsUnsentCellsOfRepairedRows(ChangesEvents):
    """Writes NULL for unsent cells of a repaired row."""

    def change(self, plan: MergePlan, event: ChangeEvent) -> ChangeEvent:
        cells = {name: None if cell is UNSET else cell for name, cell in event.cells.items()}
        return replace(event, cells=cells) if plan.releases else event


class LeavesTheOldKeyOfARepairedRow(ChangesEvents):
    """Applies a repaired key change as an update of the new key."""

    def change(self, plan: MergePlan, event: ChangeEvent) -> ChangeEvent:
        return replace(event, old_key=None) if plan.releases else event


class KeepsRowsMissingFromALoad(ChangesRows):
    """Replaces, at a reload, only the rows that the load has."""

    def change(self, plan: MergePlan, frame: Frame, rows: dict[Key, Row | None]) -> None:
        for key in [key for key, row in rows.items() if row is None and plan.replaces]:
            del rows[key]


class KeepsTheNewestVersionAlone(MemoryTable):
    """Keeps only the newest version."""

    def rows_after(self, settled: DeliveryResult) -> dict[Key, Row]:
        rows = MemoryTable.rows_after(self, settled)
        return {key: replace(row, versions=row.versions[-1:]) for key, row in rows.items()}


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


class LeavesVersionsMissingFromALoad(ChangesRows):
    """Does not end versions of rows that a full load lacks."""

    def change(self, plan: MergePlan, frame: Frame, rows: dict[Key, Row | None]) -> None:
        held = {key for item in frame for key in item.keys}
        for key in [key for key in rows if plan.replaces and key not in held]:
            del rows[key]


class DeletesForGood(MemoryTable):
    """Removes rows in spite of soft deletes."""

    def rows_after(self, settled: DeliveryResult) -> dict[Key, Row]:
        return {key: row for key, row in MemoryTable.rows_after(self, settled).items() if not row.deleted}


class IgnoresLateChangesOfDeletedRows(ChangesRows):
    """Ignores late changes of a softly deleted row."""

    def change(self, plan: MergePlan, frame: Frame, rows: dict[Key, Row | None]) -> None:
        for key, row in rows.items():
            before = self.rows.get(key)
            if row is not None and before is not None and row.deleted and before.deleted:
                rows[key] = replace(row, cells=before.cells)


class IdentifiesObjectsByNumberAlone(MemoryTable):
    """Treats an object of a new epoch as a copy of an old one with its name."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        numbers = {number for record in self.memory.records for number in record.objects}
        items = [item for item in frame if not (plan.epoch > 1 and item.position.object in numbers)]
        return _counted(
            MemoryTable.resolve(self, plan, items), read=len(frame) - len(items), duplicates=len(frame) - len(items)
        )


class AppliesLateEvents(ForgetsEntries):
    """Applies events at or below the low watermark."""

    def known(self, plan: MergePlan) -> ChangeLogContents:
        return replace(self.memory, low_watermark=None)


class BelievesTimesInTheFuture(MemoryTable):
    """Raises the low watermark of the change log by a time in the far future."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        return MemoryTable.resolve(self, replace(plan, facts=replace(plan.facts, believed=None)), frame)


class TakesNoListForAnEmptyOne(ChangesEvents):
    """Stores NULL lists as empty ones."""

    def change(self, plan: MergePlan, event: ChangeEvent) -> ChangeEvent:
        lists = [column.name for column in plan.evolution.schema if column.type.name == "list"]
        return replace(event, cells={**event.cells, **{name: event.cells.get(name) or [] for name in lists}})


class CutsKeysInQuarantine(MemoryTable):
    """Cuts keys in quarantine at 255 characters."""

    def key_text(self, key: Key) -> str:
        return MemoryTable.key_text(self, tuple(part[:255] if isinstance(part, str) else part for part in key))


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
        every = MemoryTable.entries(self, progress)
        self.quarantined = own
        return every


class CommitsOnAnyTableState(MemoryTable):
    """Does not check that the table state is the one of the prepared batch."""

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        self.progress = replace(self.progress, batch=plan.batch - 1)
        return MemoryTable.commit(self, plan, resolved, progress)


class ForgetsWhichObjectsItCommitted(MemoryTable):
    """Trusts the last written change log."""

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        return MemoryTable.commit(self, plan, resolved, replace(progress, digest=None))


class AcknowledgesFirst(MemoryQueue):
    """Acknowledges a notice when it is received."""

    def receive(self) -> Sequence[Notice]:
        received = MemoryQueue.receive(self)
        self.acknowledge(received)
        return received


class DoesNotRollBackItsChangeLog(MemoryTable):
    """Rolls back rows and progress without the change log."""

    def roll_back(self, preview: RollbackPreview) -> None:
        memory = self.memory
        MemoryTable.roll_back(self, preview)
        self.memory = memory


class DoesNotRestoreTrimmedChanges(MemoryTable):
    """Drops later entries of the change log without restoring trimmed ones."""

    def roll_back(self, preview: RollbackPreview) -> None:
        now, batch = self.memory, preview.version.progress.batch
        MemoryTable.roll_back(self, preview)
        self.memory.changes = {p: change for p, change in now.changes.items() if change.batch <= batch}
        self.memory.bases = {key: base for key, base in now.bases.items() if base.batch <= batch}


class KeepsLaterRepairs(MemoryTable):
    """Rolls back everything except repairs of rows in quarantine."""

    def roll_back(self, preview: RollbackPreview) -> None:
        repaired = self.repaired
        MemoryTable.roll_back(self, preview)
        self.repaired = repaired


class RollsBackRowsAlone(MemoryTable):
    """Rolls back rows without progress, so that later objects are never applied again."""

    def roll_back(self, preview: RollbackPreview) -> None:
        after = MemoryTable(self.dimension)
        for name in ("progress", "memory", "objects", "epochs", "quarantined", "given_up", "shown", "kept"):
            value = getattr(self, name)
            setattr(after, name, dict(value) if isinstance(value, dict) else value)
        MemoryTable.roll_back(self, preview)
        for name in ("progress", "memory", "objects", "epochs", "quarantined", "given_up", "shown", "kept"):
            setattr(self, name, getattr(after, name))


class MaintainsInADryRun(MemoryTable):
    """Changes rows in a dry run of maintenance."""

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        if is_dry:
            self.rows = dict(list(self.rows.items())[:1])
        return MemoryTable.maintain(self, policy, is_dry=is_dry)


class MakesARowOfAPart(ChangesEvents):
    """Creates a row for an update without a stored row, with NULL in missing columns."""

    def change(self, plan: MergePlan, event: ChangeEvent) -> ChangeEvent:
        return replace(event, was_whole=True)


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


class RefusesAllRowsOfChangedFiles(MemoryTable):
    """Refuses every row of an object with a new column, also rows without a value in it."""

    def refuse(self, plan: MergePlan, batch: Batch[Frame]) -> Batch[Frame]:
        return _all_refused(plan, batch, *Operation)


class RefusesDeletesThatShowAChange(MemoryTable):
    """Refuses deletes with a value in a new column."""

    def refuse(self, plan: MergePlan, batch: Batch[Frame]) -> Batch[Frame]:
        return _all_refused(plan, MemoryTable.refuse(self, plan, batch), Operation.DELETE)


class ForgetsDecisionsWithABatch(MemoryTable):
    """Forgets operator decisions with the next batch."""

    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        self.words.clear()
        MemoryTable.record_batch(self, plan, resolved)


class CommitsADecisionAsABatch(MemoryTable):
    """Commits an operator decision as a batch."""

    def record_decision(self, progress: Progress, decision: OperatorDecision) -> None:
        MemoryTable.record_decision(self, progress, decision)
        self.progress = replace(self.progress, batch=self.progress.batch + 1)


class TakesKeysForOthers(ChangesEvents):
    """Takes a key for an earlier one that gives the same text if its parts are joined by commas."""

    def change(self, plan: MergePlan, event: ChangeEvent) -> ChangeEvent:
        text = ",".join(map(str, event.key))
        equal = next((other for other in self.rows if ",".join(map(str, other)) == text), event.key)
        return replace(event, key=equal)


BY_LAW: Mapping[str, Sequence[type[MemoryTable] | type[AnyTable]]] = {
    "a_soft_delete_keeps_the_last_values": (DeletesForGood, IgnoresLateChangesOfDeletedRows),
    "a_deleted_row_keeps_its_last_values": (DeletesForGood, IgnoresLateChangesOfDeletedRows),
    "a_row_missing_from_a_load_is_deleted_and_keeps_its_values": (DeletesForGood, LeavesVersionsMissingFromALoad),
    "an_object_delivered_again_changes_nothing": (ForgetsDeletesTooEarly,),
    "a_late_change_overwrites_nothing_newer": (TreatsEveryEventAsNewer, ForgetsDeletesAboveTheMark),
    "a_snapshot_row_without_a_position_replaces_no_change": (TreatsEveryEventAsNewer, LetsSnapshotRowsReplace),
    "a_truncate_removes_every_older_row": (TruncatesOnlyRowsOfTheBatch,),
    "a_full_load_replaces_all_rows": (KeepsRowsMissingFromALoad,),
    "a_change_that_ties_with_a_stored_one_is_held_or_stops_the_table": (
        broken_answers.LetsArrivalOrderWhatTies,
        FindsTiesOfOneBatchOnly,
    ),
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
    "operator_decisions_are_stored_with_the_table": (
        ForgetsDecisionsWithABatch,
        CommitsADecisionAsABatch,
    ),
    "a_batch_is_applied_once_after_a_crash_at_any_step": (KeepsProgressApart,),
    "tables_of_one_lake_are_independent": (MixesQuarantines,),
    "maintenance_changes_no_row_and_hides_no_progress": (MaintainsInADryRun,),
    "only_one_of_two_processes_commits_a_batch": (CommitsOnAnyTableState,),
    "a_batch_of_another_process_is_not_applied_again": (CommitsOnAnyTableState,),
    "no_object_is_forgotten_when_two_processes_write_at_once": (ForgetsWhichObjectsItCommitted,),
    "any_sequence_of_moves_matches_the_reference_adapter": (
        TreatsEveryEventAsNewer,
        broken_feeds.NullsUnsentCells,
        broken_feeds.HoldsNothing,
        broken_answers.ForgetsItsProgressBehindAnothersCommit,
    ),
    "inserts_and_updates_both_upsert": (broken_feeds.NeverUpdates,),
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
    "a_reload_ends_versions_of_missing_rows": (LeavesVersionsMissingFromALoad,),
    "a_rollback_restores_the_table_and_the_next_batch_follows": (
        DoesNotRollBackItsChangeLog,
        DoesNotRestoreTrimmedChanges,
        KeepsLaterRepairs,
        RollsBackRowsAlone,
    ),
}
"""Mistakes by the law of the conformance kit that must show them."""
