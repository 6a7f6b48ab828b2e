"""Tables of any format with a wrong plan or wrong answers. A mistake of several statements is a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from broken_ports import AnyTable, mutate_table
from mutations import Method, change_result, skip

from lakeward.core.dimension import TableName, Ties
from lakeward.core.errors import CommitConflict
from lakeward.core.plan import MergePlan
from lakeward.core.ports import ChangeLogState, Commit, Entry, MaintenancePolicy, MaintenanceReport, MergeResult
from lakeward.core.progress import Progress
from lakeward.plugins.testing.scripts import NAME

# The plan of a batch.

IgnoresTheChangeLog = mutate_table(
    "ignores remembered deletes, truncates and partial rows",
    by_spark=True,
    change_plan=lambda plan: replace(plan, recalls=False, folds=False, folds_remembered=False),
)
AppliesCopies = mutate_table(
    "resolves the events of a repeated object again, by the rows alone",
    by_spark=True,
    change_plan=lambda plan: replace(plan, copies=frozenset(), recalls=False),
)
LetsArrivalOrderWhatTies = mutate_table(
    "applies the later of tied events, for any policy",
    change_plan=lambda plan: replace(plan, dimension=replace(plan.dimension, ties=Ties.ARRIVAL)),
)
AppliesLateEvents = mutate_table(
    "applies events at or below the low watermark", change_plan=lambda plan: replace(plan, low_watermark=None)
)
BelievesTimesInTheFuture = mutate_table(
    "raises the low watermark of the change log by a time in the far future",
    change_plan=lambda plan: replace(
        plan, facts=replace(plan.facts, time=(plan.facts.ahead or [plan.facts.time])[0])
    ),
)
KeepsRowsMissingFromALoad = mutate_table(
    "replaces, at a reload, only the rows that the load has", change_plan=lambda plan: replace(plan, replaces=False)
)
NullsMissingColumns = mutate_table(
    "writes NULL into a column that the files of an update lack",
    change_plan=lambda plan: replace(
        plan, evolution=replace(plan.evolution, differences=()), folds=False, folds_remembered=False
    ),
)

# The table state, and commits.

ShowsColumnsBeforeItsFirstCommit = mutate_table(
    "reports columns of a table that was never written",
    state=lambda right, own: replace(right(), schema=right().schema or own.dimension.schema),
)
ForgetsItsProgressBehindAnothersCommit = mutate_table(
    "reads its progress only from the last commit, also if it is of another writer",
    state=lambda right, own: replace(right(), progress=Progress()) if own.lake.is_behind else right(),
)
ReportsNoRegressions = mutate_table(
    "reports no log regressions", resolve=change_result(lambda result: replace(result, log_regressions={}))
)


class ForgetsItsProgressInMaintenance(ForgetsItsProgressBehindAnothersCommit):
    """Expires the commit with the progress."""

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        self.lake.is_behind = not is_dry
        return AnyTable.maintain(self, policy, is_dry=is_dry)


class ReportsAFailedCommitAsSuccessful(AnyTable):
    """Reports a commit that failed with a conflict as successful."""

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        try:
            return AnyTable.commit(self, plan, resolved, progress)
        except CommitConflict:
            return Commit(str(plan.batch), resolved.written, resolved.removed)


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


# The change log.

BelievesEntriesOfACrash = mutate_table(
    "takes objects of an uncommitted batch in the change log for committed",
    read_state=lambda right, own, progress: right(
        replace(progress, batch=max(progress.batch, own.lake.recorded_batch))
    ),
)
KeepsOnlyTheLastDecision = mutate_table(
    "keeps only the last operator decision",
    read_state=change_result(lambda found: replace(found, decisions=found.decisions[-1:])),
)
LosesDecisionsBeforeTheFirstCommit = mutate_table(
    "loses operator decisions before the first commit",
    record_decision=lambda right, own, *of: own.state().schema and right(*of),
)


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


# The name of the table, its quarantine, versions and maintenance.


def _entries(**fields: Any) -> Method:
    return change_result(lambda entries: [replace(entry, **fields) for entry in entries])


def _entries_of_all_epochs(right: Method, _: AnyTable, progress: Progress) -> Sequence[Entry]:
    older = [replace(progress, epoch=epoch) for epoch in range(1, progress.epoch + 1)]
    return [entry for then in older for entry in right(then)]


ComparesPrefixesOfNames = mutate_table(
    "confuses a table with another whose name is a prefix of its own",
    named=lambda own: replace(own, name=TableName(own.name.schema, own.name.table[: len(NAME.table)])),
)
ComparesNamesWithoutSchema = mutate_table(
    "confuses tables of the same name in different schemas",
    named=lambda own: replace(own, name=TableName(NAME.schema, own.name.table)),
)
AppliesRowsWithNewColumns = mutate_table(
    "drops new columns without refusing rows that have values in them", refuse=lambda _, __, ___, batch: batch
)
LosesRepairs = mutate_table("loses the repair of a row", entries=_entries(repaired=None))
HidesKeysThatAWaitingChangeHolds = mutate_table(
    "hides keys that are held through key changes of waiting events", entries=_entries(also_holds=())
)
HidesIncompleteRows = mutate_table("hides events that wait for their row", incomplete=lambda *_: ())
HoldsKeysOfTheEpochBefore = mutate_table(
    "shows the quarantine of older epochs after a reload", entries=_entries_of_all_epochs
)
RollsNothingBack = mutate_table("reports a rollback without making one", roll_back=skip)
ReportsMaintenanceThatItDidNotDo = mutate_table(
    "reports files that it did not compact or remove",
    maintain=lambda right, _, policy, is_dry: right(policy, is_dry=True),
)
