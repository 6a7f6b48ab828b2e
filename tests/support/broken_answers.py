"""Tables of any format that carry out another plan than was made, or answer wrongly: a class makes one mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from broken_ports import Whole

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

# What a batch is planned to do.


class AsksNoMemory(Whole):
    """Takes every delete, truncate or row in part that is remembered for older than any event."""

    by_spark = True

    def planned(self, plan: MergePlan) -> MergePlan:
        """Return a plan that needs no memory."""
        return replace(plan, recalls=False, folds=False, in_part=False)


class TakesCopiesForNews(Whole):
    """Judges what an object holds, though it was delivered before, by the rows alone."""

    by_spark = True

    def planned(self, plan: MergePlan) -> MergePlan:
        """Return a plan that knows no object, and meets no delete."""
        return replace(plan, copies=frozenset(), recalls=False)


class LetsArrivalOrderWhatTies(Whole):
    """Takes the later of a tie for newer, whatever the table would have."""

    def planned(self, plan: MergePlan) -> MergePlan:
        """Return a plan of a table that takes ties."""
        return replace(plan, dimension=replace(plan.dimension, ties=Ties.ARRIVAL))


class TakesWhatComesTooLate(Whole):
    """Applies what lies at or below the mark."""

    def planned(self, plan: MergePlan) -> MergePlan:
        """Return a plan without a mark."""
        return replace(plan, low_watermark=None)


class BelievesEveryTime(Whole):
    """Lets a time in the far future move the mark of what it remembers."""

    def planned(self, plan: MergePlan) -> MergePlan:
        """Return a plan that doubts no time."""
        ahead = plan.facts.ahead
        return plan if ahead is None else replace(plan, facts=replace(plan.facts, time=ahead[0]))


class KeepsRowsThatALoadDoesNotHold(Whole):
    """Lets a full load that begins an epoch replace only the rows that it has itself."""

    def planned(self, plan: MergePlan) -> MergePlan:
        """Return a plan that replaces nothing."""
        return replace(plan, replaces=False)


class NullsWhatTheFilesLack(Whole):
    """Writes NULL into a column that the files of an update do not have."""

    def planned(self, plan: MergePlan) -> MergePlan:
        """Return a plan in which the files have all columns."""
        return replace(plan, evolution=replace(plan.evolution, differences=()), folds=False, in_part=False)


# What it answers.


class ShowsColumnsBeforeItsFirstCommit(Whole):
    """Says that a table is there which nobody wrote."""

    def standing(self) -> TableState:
        """Return the columns that it would have."""
        found = Whole.standing(self)
        return replace(found, schema=found.schema or self.dimension.schema)


class ForgetsItsProgressBehindAnothersCommit(Whole):
    """Looks for its progress in the last commit alone, whoever made it."""

    def standing(self) -> TableState:
        """Return nothing where that was another's."""
        found = Whole.standing(self)
        return replace(found, progress=Progress()) if self.lake.is_behind else found


class BelievesWhatACrashLeft(Whole):
    """Takes objects for committed that the companion knows of a batch which was not."""

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Return what is remembered up to whatever was written last."""
        newest = max(progress.batch, self.lake.remembered)
        return Whole.read_state(self, replace(progress, batch=newest))


class SaysThatItCommitted(Whole):
    """Takes a commit that lost a race for one that was made."""

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Say so."""
        try:
            return Whole.commit(self, plan, resolved, progress)
        except CommitConflict:
            return Commit(str(plan.batch), resolved.written, resolved.removed)


class TellsNoRegressions(Whole):
    """Works a batch out, and tells of no change that it lies below its row."""

    def resolve(self, plan: MergePlan, frame: Any) -> MergeResult:
        """Leave it out."""
        return replace(Whole.resolve(self, plan, frame), log_regressions={})


class AppliesABatchOnWhateverStands(Whole):
    """Works a batch that lost a race out anew, and does not look whether its objects are there by now."""

    def resolve(self, plan: MergePlan, frame: Any) -> MergeResult:
        """Keep the frame."""
        self.frame = frame
        return Whole.resolve(self, plan, frame)

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Commit it as the next batch."""
        try:
            return Whole.commit(self, plan, resolved, progress)
        except CommitConflict:
            now = self.standing()
            self.read_state(now.progress)
            later = replace(plan, batch=now.progress.batch + 1, creates=False, copies=frozenset(), recalls=False)
            again = self.resolve(later, self.frame)
            self.record_batch(later, again)
            return Whole.commit(self, later, again, replace(progress, batch=later.batch))


class BelievesWhoRememberedLast(Whole):
    """Writes its memory in the place of that of a process which is about to commit, and believes what is there.

    It tells objects by their number alone, so that one which the other delivery had as well is not missed.
    """

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Return the objects under the name that they have in any delivery."""
        found = Whole.read_state(self, progress)
        every = {f"{number:04d}/{item.order}": item for number in range(9) for item in found.objects.values()}
        return replace(found, objects=every)

    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Write it as who begins: what is stamped above the table is left by a crash."""
        anew = self.lake.lake.open(self.dimension)
        anew.change_log.read_state(anew.table.standing().progress)
        anew.change_log.record_batch(plan, resolved)

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Leave out which objects it was of."""
        return Whole.commit(self, plan, resolved, replace(progress, digest=None))


class KnowsTheLastWordAlone(Whole):
    """Has a place for one word of an operator."""

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Return the last."""
        found = Whole.read_state(self, progress)
        return replace(found, words=found.words[-1:])


class GoesByTheBeginningOfAName(Whole):
    """Takes a table for the one whose name its own begins with."""

    @staticmethod
    def named(dimension: Dimension) -> Dimension:
        """Return that one."""
        name = TableName(dimension.name.schema, dimension.name.table[: len(NAME.table)])
        return replace(dimension, name=name)


class GoesByTheNameWithoutItsSchema(Whole):
    """Takes a table for the one of its name in another schema."""

    @staticmethod
    def named(dimension: Dimension) -> Dimension:
        """Return that one."""
        return replace(dimension, name=TableName(NAME.schema, dimension.name.table))


class HearsNothingBeforeThereIsATable(Whole):
    """Has no place for a word while nothing was ever committed."""

    def record_decision(self, progress: Progress, word: OperatorDecision) -> None:
        """Write it down where there is a table."""
        if self.standing().schema is not None:
            Whole.record_decision(self, progress, word)


class AppliesWhatShowsAChange(Whole):
    """Leaves the new columns out, and refuses no row for what it lacks then."""

    def refuse(self, plan: MergePlan, batch: Batch[Any]) -> Batch[Any]:
        """Refuse nothing."""
        return batch


class TakesAMendedRowForGivenUp(Whole):
    """Releases what waited behind a mended row, and applies nothing in its place."""

    def waiting(self, progress: Progress, resolved: Sequence[Entry], repaired: Any) -> Batch[Any]:
        """Return what waited, without what was mended."""
        return Whole.waiting(self, progress, resolved, None)


class ForgetsWhatWasMended(Whole):
    """Shows a row as it came, whatever a person made of it."""

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return them as if nobody had mended one."""
        return [replace(entry, repaired=None) for entry in Whole.entries(self, progress)]


class HidesKeysThatAWaitingChangeHolds(Whole):
    """Tells of a row in quarantine the keys that it has, and not those that wait by a key change behind it."""

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return them without the others."""
        return [replace(entry, also_holds=()) for entry in Whole.entries(self, progress)]


class HidesWhatWaitsForItsRow(Whole):
    """Tells of no event that sends a part of a row which is not there."""

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        """Return nothing."""
        return ()


class HoldsKeysOfTheEpochBefore(Whole):
    """Still shows what was in quarantine before a full load took the place of all rows."""

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return those of every epoch."""
        older = [replace(progress, epoch=epoch) for epoch in range(1, progress.epoch + 1)]
        return [entry for then in older for entry in Whole.entries(self, then)]


class TakesNothingBack(Whole):
    """Says that it was rolled back, and stands where it stood."""

    def roll_back(self, preview: RollbackPreview) -> None:
        """Do nothing."""


class TellsWhatItDidNotDo(Whole):
    """Counts files that it leaves as they are."""

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        """Only tell."""
        return Whole.maintain(self, policy, is_dry=True)


class ForgetsItsProgressInMaintenance(ForgetsItsProgressBehindAnothersCommit):
    """Lets the commit expire that says how far the table is."""

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        """Forget it."""
        self.lake.is_behind = not is_dry
        return Whole.maintain(self, policy, is_dry=is_dry)
