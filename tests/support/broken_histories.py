"""Tables that keep histories wrongly, in ways that no check before a commit can see: a class makes one mistake.

They break what the table formats share, by their `spoil`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from broken_ports import Whole
from parts import in_parts
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log import base_rows
from lakeward.adapters.formats.shared.resolution.steps import applicable_events
from lakeward.adapters.formats.shared.resolution.steps.table_before import TableBeforeReader
from lakeward.adapters.formats.shared.resolution.strategies import ordered_fold
from lakeward.adapters.spark.history.instants import dated
from lakeward.adapters.spark.history.surrogate_numbers import Numbering
from lakeward.adapters.spark.history.version_rows import BEGINS, VersionRows
from lakeward.adapters.spark.merge.fold.batch_fold import TableBefore, fold
from lakeward.adapters.spark.merge.fold.chain_results import Chains
from lakeward.adapters.spark.merge.resolution import ID
from lakeward.adapters.spark.sql import names
from lakeward.core.events import Operation
from lakeward.core.history.options import Track
from lakeward.core.plan import MergePlan


def _written(patch: pytest.MonkeyPatch, ends: str) -> None:
    """Let versions be written with another end; they were checked before."""
    rows = VersionRows.rows

    def wrongly(self: VersionRows, fresh: DataFrame) -> DataFrame:
        return rows(self, fresh.withColumn("fresh", F.col("fresh").withField("version.ends", F.expr(ends))))

    patch.setattr(VersionRows, "rows", wrongly)


class EndsAVersionAnInstantEarly(Whole):
    """Takes the end of a version for the last instant at which it is valid."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Write it so."""
        _written(patch, "fresh.version.ends - 1")


class LeavesEndedVersionsCurrent(Whole):
    """Writes the version that a change opens, and does not end the one before."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """End what was deleted, and nothing else."""
        _written(patch, "CASE WHEN fresh.version.went THEN fresh.version.ends END")


class EndsTheWrongVersion(Whole):
    """Ends the version that a change opens, and leaves the one before it as it was."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Give the last version of a key the end of the one before it, and that one the end of the last."""
        rows = VersionRows.rows

        def wrongly(self: VersionRows, fresh: DataFrame) -> DataFrame:
            places = [self.versions.schema.names.index(name) for name in self.dimension.key]
            window = Window.partitionBy(*[f"fresh.version.cells.c{i}" for i in places]).orderBy(
                "fresh.version.begins"
            )
            own, after = F.col("fresh.version.ends"), F.lead("fresh").over(window)
            last = F.coalesce(F.lag("fresh.version.ends").over(window), own)
            swapped = F.when(after.isNull(), last).otherwise(after["version"]["ends"])
            ends = fresh.withColumn("ends", swapped)
            return rows(self, ends.withColumn("fresh", F.col("fresh").withField("version.ends", F.col("ends"))))

        patch.setattr(VersionRows, "rows", wrongly)


class LeavesTheVersionThatItCuts(Whole):
    """Writes what a late event makes of an ended version beside that version, so that it is spliced twice."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Remove current versions alone."""
        gone = VersionRows.gone
        patch.setattr(VersionRows, "gone", lambda self, rows: gone(self, rows.where("gone.version.ends IS NULL")))


class TracksEveryColumn(Whole):
    """Lets a change of a column that a history does not track open a version, and move a boundary."""

    def planned(self, plan: MergePlan) -> MergePlan:
        """Return a plan in which each column is tracked."""
        if plan.dimension.history is None:
            return plan
        history = replace(plan.dimension.history, track=Track(), kinds={})
        return replace(plan, dimension=replace(plan.dimension, history=history))


class RemembersNoBases(Whole):
    """Remembers the events of a key, and not what its versions were before."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Note no version of any key."""
        bases = VersionRows.bases
        patch.setattr(VersionRows, "bases", lambda self, keys: bases(self, keys.limit(0)))


class DatesAnewWhatItRemembers(Whole):
    """Does not remember from when events count: when they are folded again, it is from the run that does so."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Fold them so."""

        def anew(plan: MergePlan, events: DataFrame, before: TableBefore) -> Chains:
            if before.remembered is None:
                return fold(plan, events, before)
            remembered = before.remembered.drop(names.INSTANT)
            return fold(plan, events, replace(before, remembered=dated(remembered, plan.dimension, 1, plan.ran)))

        patch.setattr(applicable_events, "fold", anew)


class RemembersNoWitness(Whole):
    """Remembers of updates those that opened a version, and not that a value still held."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Forget an update at whose instant no version begins."""
        changes = ordered_fold._changes

        def forgetful(plan: MergePlan, passing: DataFrame, chains: Chains) -> DataFrame:
            assert chains.history is not None
            begins = chains.history.read(chains.rows()).select(
                *plan.dimension.key, F.col(BEGINS).alias(names.INSTANT)
            )
            updates = passing.where(f"{names.OPERATION} = '{Operation.UPDATE.value}'")
            witnesses = updates.join(begins, [*plan.dimension.key, names.INSTANT], "left_anti").select(ID)
            return changes(plan, passing.join(witnesses, ID, "left_anti"), chains)

        patch.setattr(ordered_fold, "_changes", forgetful)


class LetsALateTruncateEndWhatIsCurrentAlone(Whole):
    """Leaves a version as it is that a newer truncate ended, where one comes that ends it earlier."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Touch no key for being remembered."""
        patch.setattr(TableBeforeReader, "_remembered_keys", lambda _self: [])


class FoldsTheNewestOfOldTruncates(Whole):
    """Lets of the truncates that the mark has passed the newest end a version, though others did before it."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Fold those that a mirror needs."""

        def met(plan: MergePlan, events: DataFrame, before: TableBefore) -> Chains:
            kept = {place: instant for place, instant in before.truncates.items() if place in plan.truncates.all}
            return fold(plan, events, replace(before, truncates=kept))

        patch.setattr(applicable_events, "fold", met)


class TrimsTruncatesBelowTheMark(Whole):
    """Keeps no truncate that the mark has passed, though a key that is held goes on from before it."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Trim as a mirror does, which needs to know of them no more than that they were."""
        patch.setattr(base_rows, "truncate_instants", lambda _told, _epoch: {})


class RewritesWhatWasKnown(Whole):
    """Takes away what a batch finds to be otherwise, as a history does that keeps no more."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Write nothing of it."""
        rows = VersionRows.rows
        patch.setattr(VersionRows, "rows", lambda self, fresh: rows(self, fresh.where("fresh.known_to IS NULL")))


class OverwritesWhatBeginsAndEndsAsBefore(Whole):
    """Takes a version that begins and ends as before for what was believed, whatever it shows."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Compare no cells."""
        same = "{0}.begins = {1}.begins AND {0}.version.ends <=> {1}.ends"
        patch.setattr(VersionRows, "_shows_same", lambda self, stored, version: same.format(stored, version))


class FoldsWhatIsBelievedNoMore(Whole):
    """Reads all rows of a key, those that were found to be otherwise as well."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Leave none out."""
        patch.setattr(VersionRows, "believed", lambda self, rows: rows)


class NumbersAnewWhatItWrites(Whole):
    """Gives each version that is written a number of its own, one that stood before as well."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Find none that lives on."""
        patch.setattr(VersionRows, "_number", lambda self, version: "bigint(NULL)")


class KnowsAVersionByItsStartAlone(Whole):
    """Gives a version whose start moved a number that is new."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Ask for nothing else."""
        found = "get(filter(stood, s -> s.begins = {}.begins), 0).number"
        patch.setattr(VersionRows, "_number", lambda self, version: found.format(version))


class NumbersEachPartByItself(Whole):
    """Numbers the versions of each part of a frame from the highest number on, as if there were no other."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Let all parts begin behind the same one."""
        of = Numbering.of
        in_parts(patch)

        def alike(fresh: DataFrame, highest: int) -> Numbering:
            found = of(fresh, highest)
            return replace(found, behind=dict.fromkeys(found.behind, highest))

        patch.setattr(Numbering, "of", alike)


class NumbersEachBatchFromOne(Whole):
    """Takes no heed of the numbers that were given before."""

    def planned(self, plan: MergePlan) -> MergePlan:
        """Know of none."""
        return replace(plan, numbered=0)
