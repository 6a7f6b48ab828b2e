"""Tables of any format with a wrong plan or wrong answers: each class makes one mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from broken_ports import AnyTable

from lakeward.core.dimension import Dimension, TableName, Ties
from lakeward.core.errors import CommitConflict
from lakeward.core.plan import MergePlan
from lakeward.core.ports import (
    Batch,
    ChangeLogState,
    Commit,
    Entry,
    MaintenancePolicy,
    MaintenanceReport,
    MergeResult,
    OperatorDecision,
    RollbackPreview,
    TableState,
)
from lakeward.core.progress import Progress
from lakeward.plugins.testing.scripts import NAME

# The plan of a batch.


class IgnoresTheChangeLog(AnyTable):
    """Ignores remembered deletes, truncates and partial rows."""

    by_spark = True

    def change_plan(self, plan: MergePlan) -> MergePlan:
        return replace(plan, recalls=False, folds=False, folds_remembered=False)


class AppliesCopies(AnyTable):
    """Resolves the events of a repeated object again, by the rows alone."""

    by_spark = True

    def change_plan(self, plan: MergePlan) -> MergePlan:
        return replace(plan, copies=frozenset(), recalls=False)


class LetsArrivalOrderWhatTies(AnyTable):
    """Applies the later of tied events, for any policy."""

    def change_plan(self, plan: MergePlan) -> MergePlan:
        return replace(plan, dimension=replace(plan.dimension, ties=Ties.ARRIVAL))


class AppliesLateEvents(AnyTable):
    """Applies events at or below the low watermark."""

    def change_plan(self, plan: MergePlan) -> MergePlan:
        return replace(plan, low_watermark=None)


class BelievesTimesInTheFuture(AnyTable):
    """Raises the low watermark of the change log by a time in the far future."""

    def change_plan(self, plan: MergePlan) -> MergePlan:
        ahead = plan.facts.ahead
        return plan if ahead is None else replace(plan, facts=replace(plan.facts, time=ahead[0]))


class KeepsRowsMissingFromALoad(AnyTable):
    """Replaces, at a reload, only the rows that the load has."""

    def change_plan(self, plan: MergePlan) -> MergePlan:
        return replace(plan, replaces=False)


class NullsMissingColumns(AnyTable):
    """Writes NULL into a column that the files of an update lack."""

    def change_plan(self, plan: MergePlan) -> MergePlan:
        return replace(plan, evolution=replace(plan.evolution, differences=()), folds=False, folds_remembered=False)


# The answers of a table.


class ShowsColumnsBeforeItsFirstCommit(AnyTable):
    """Reports columns of a table that was never written."""

    def state(self) -> TableState:
        own_state = AnyTable.state(self)
        return replace(own_state, schema=own_state.schema or self.dimension.schema)


class ForgetsItsProgressBehindAnothersCommit(AnyTable):
    """Reads its progress only from the last commit, also if it is of another writer."""

    def state(self) -> TableState:
        found = AnyTable.state(self)
        return replace(found, progress=Progress()) if self.lake.is_behind else found


class BelievesEntriesOfACrash(AnyTable):
    """Takes objects of an uncommitted batch in the change log for committed."""

    def read_state(self, progress: Progress) -> ChangeLogState:
        newest = max(progress.batch, self.lake.recorded_batch)
        return AnyTable.read_state(self, replace(progress, batch=newest))


class ReportsAFailedCommitAsSuccessful(AnyTable):
    """Reports a commit that failed with a conflict as successful."""

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        try:
            return AnyTable.commit(self, plan, resolved, progress)
        except CommitConflict:
            return Commit(str(plan.batch), resolved.written, resolved.removed)


class ReportsNoRegressions(AnyTable):
    """Reports no log regressions."""

    def resolve(self, plan: MergePlan, frame: Any) -> MergeResult:
        return replace(AnyTable.resolve(self, plan, frame), log_regressions={})


class AppliesABatchAfterAnyConflict(AnyTable):
    """After a conflict, commits the batch without checking that its objects were applied in the meantime."""

    def resolve(self, plan: MergePlan, frame: Any) -> MergeResult:
        self.frame = frame
        return AnyTable.resolve(self, plan, frame)

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        try:
            return AnyTable.commit(self, plan, resolved, progress)
        except CommitConflict:
            now = self.state()
            self.read_state(now.progress)
            later = replace(plan, batch=now.progress.batch + 1, creates=False, copies=frozenset(), recalls=False)
            again = self.resolve(later, self.frame)
            self.record_batch(later, again)
            return AnyTable.commit(self, later, again, replace(progress, batch=later.batch))


class BelievesTheLastChangeLog(AnyTable):
    """Overwrites the change log of another process before its commit, and trusts any change log.

    It identifies objects by number alone, so that an object of both deliveries is not missed.
    """

    def read_state(self, progress: Progress) -> ChangeLogState:
        found = AnyTable.read_state(self, progress)
        every = {f"{number:04d}/{item.order}": item for number in range(9) for item in found.objects.values()}
        return replace(found, objects=every)

    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        anew = self.lake.lake.open(self.dimension)
        anew.change_log.read_state(anew.table.state().progress)
        anew.change_log.record_batch(plan, resolved)

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        return AnyTable.commit(self, plan, resolved, replace(progress, digest=None))


class KeepsOnlyTheLastDecision(AnyTable):
    """Keeps only the last operator decision."""

    def read_state(self, progress: Progress) -> ChangeLogState:
        found = AnyTable.read_state(self, progress)
        return replace(found, decisions=found.decisions[-1:])


class ComparesPrefixesOfNames(AnyTable):
    """Confuses a table with another whose name is a prefix of its own."""

    @staticmethod
    def named(dimension: Dimension) -> Dimension:
        name = TableName(dimension.name.schema, dimension.name.table[: len(NAME.table)])
        return replace(dimension, name=name)


class ComparesNamesWithoutSchema(AnyTable):
    """Confuses tables of the same name in different schemas."""

    @staticmethod
    def named(dimension: Dimension) -> Dimension:
        return replace(dimension, name=TableName(NAME.schema, dimension.name.table))


class LosesDecisionsBeforeTheFirstCommit(AnyTable):
    """Loses operator decisions before the first commit."""

    def record_decision(self, progress: Progress, decision: OperatorDecision) -> None:
        if self.state().schema is not None:
            AnyTable.record_decision(self, progress, decision)


class AppliesRowsWithNewColumns(AnyTable):
    """Drops new columns without refusing rows that have values in them."""

    def refuse(self, plan: MergePlan, batch: Batch[Any]) -> Batch[Any]:
        return batch


class DiscardsRepairedRows(AnyTable):
    """Releases the events behind a repaired row without applying the row."""

    def read_replay(self, progress: Progress, resolved: Sequence[Entry], repaired: Any) -> Batch[Any]:
        return AnyTable.read_replay(self, progress, resolved, None)


class LosesRepairs(AnyTable):
    """Loses the repair of a row."""

    def entries(self, progress: Progress) -> Sequence[Entry]:
        return [replace(entry, repaired=None) for entry in AnyTable.entries(self, progress)]


class HidesKeysThatAWaitingChangeHolds(AnyTable):
    """Hides keys that are held through key changes of waiting events."""

    def entries(self, progress: Progress) -> Sequence[Entry]:
        return [replace(entry, also_holds=()) for entry in AnyTable.entries(self, progress)]


class HidesIncompleteRows(AnyTable):
    """Hides events that wait for their row."""

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        return ()


class HoldsKeysOfTheEpochBefore(AnyTable):
    """Shows the quarantine of older epochs after a reload."""

    def entries(self, progress: Progress) -> Sequence[Entry]:
        older = [replace(progress, epoch=epoch) for epoch in range(1, progress.epoch + 1)]
        return [entry for then in older for entry in AnyTable.entries(self, then)]


class RollsNothingBack(AnyTable):
    """Reports a rollback without making one."""

    def roll_back(self, preview: RollbackPreview) -> None:
        """Do nothing."""


class ReportsMaintenanceThatItDidNotDo(AnyTable):
    """Reports files that it did not compact or remove."""

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        return AnyTable.maintain(self, policy, is_dry=True)


class ForgetsItsProgressInMaintenance(ForgetsItsProgressBehindAnothersCommit):
    """Expires the commit with the progress."""

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        self.lake.is_behind = not is_dry
        return AnyTable.maintain(self, policy, is_dry=is_dry)
