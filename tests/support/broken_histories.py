"""Tables with wrong histories that no check before a commit detects: each class makes one mistake.

They change code that the formats share, in `spoil`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from broken_ports import AnyTable, patched, wrapped
from parts import in_parts
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log import base_rows
from lakeward.adapters.formats.shared.resolution.steps import applicable_events
from lakeward.adapters.formats.shared.resolution.steps.table_before import TableBeforeReader
from lakeward.adapters.formats.shared.resolution.strategies import ordered_fold
from lakeward.adapters.spark.history.instants import add_instants
from lakeward.adapters.spark.history.surrogate_numbers import Numbering
from lakeward.adapters.spark.history.version_rows import BEGINS, VersionRows
from lakeward.adapters.spark.merge.fold.batch_fold import TableBefore, fold
from lakeward.adapters.spark.merge.fold.chain_results import Chains
from lakeward.adapters.spark.merge.resolution import ID
from lakeward.adapters.spark.sql import names
from lakeward.core.events import Operation
from lakeward.core.history.options import Track
from lakeward.core.plan import MergePlan


def _writes(ends: str) -> Any:
    """Return a `spoil` that writes versions with another end, after they were checked."""

    def ended(fresh: DataFrame) -> DataFrame:
        return fresh.withColumn("fresh", F.col("fresh").withField("version.ends", F.expr(ends)))

    return wrapped(VersionRows, "rows", lambda rows: lambda self, fresh: rows(self, ended(fresh)))


class EndsAVersionAnInstantEarly(AnyTable):
    """Ends each version one microsecond early, as if its end were its last valid instant."""

    spoil = _writes("fresh.version.ends - 1")


class LeavesEndedVersionsCurrent(AnyTable):
    """Writes a new version without ending the one before."""

    spoil = _writes("CASE WHEN fresh.version.went THEN fresh.version.ends END")


class EndsTheWrongVersion(AnyTable):
    """Ends the new version instead of the one before it."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
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


class KeepsTheVersionThatItCuts(AnyTable):
    """Writes the parts of an ended version that a late event cuts without removing the version."""

    spoil = wrapped(
        VersionRows, "gone", lambda gone: lambda self, rows: gone(self, rows.where("gone.version.ends IS NULL"))
    )


class TracksEveryColumn(AnyTable):
    """Opens versions and moves boundaries for untracked columns."""

    def change_plan(self, plan: MergePlan) -> MergePlan:
        if plan.dimension.history is None:
            return plan
        history = replace(plan.dimension.history, track=Track(), kinds={})
        return replace(plan, dimension=replace(plan.dimension, history=history))


class RemembersNoBases(AnyTable):
    """Remembers the events of a key without its base row."""

    spoil = wrapped(VersionRows, "bases", lambda bases: lambda self, keys: bases(self, keys.limit(0)))


class ForgetsValidTimes(AnyTable):
    """Does not remember valid times: events that are folded again get that of the current run."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        def anew(plan: MergePlan, events: DataFrame, before: TableBefore) -> Chains:
            if before.recorded_batch is None:
                return fold(plan, events, before)
            remembered = before.recorded_batch.drop(names.INSTANT)
            return fold(
                plan, events, replace(before, remembered=add_instants(remembered, plan.dimension, 1, plan.begun_at))
            )

        patch.setattr(applicable_events, "fold", anew)


class RemembersNoWitness(AnyTable):
    """Remembers only updates that opened a version, and no witnesses."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
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


class LetsALateTruncateEndWhatIsCurrentAlone(AnyTable):
    """Does not end a version earlier if a late truncate comes before the one that ended it."""

    spoil = patched(TableBeforeReader, "_remembered_keys", lambda _self: [])


class FoldsTheNewestOfOldTruncates(AnyTable):
    """Ends versions only by the newest truncate below the low watermark."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        def met(plan: MergePlan, events: DataFrame, before: TableBefore) -> Chains:
            truncates = {
                place: instant for place, instant in before.truncates.items() if place in plan.truncates.all
            }
            return fold(plan, events, replace(before, truncates=truncates))

        patch.setattr(applicable_events, "fold", met)


class TrimsTruncatesBelowTheMark(AnyTable):
    """Trims truncates below the low watermark although a held key is older."""

    spoil = patched(base_rows, "truncate_instants", lambda _told, _epoch: {})


class RemovesSupersededVersions(AnyTable):
    """Removes superseded knowledge, like a history without it."""

    spoil = wrapped(
        VersionRows, "rows", lambda rows: lambda self, fresh: rows(self, fresh.where("fresh.known_to IS NULL"))
    )


class OverwritesVersionsOfEqualTimes(AnyTable):
    """Treats a version with unchanged start and end as unchanged, for any cells."""

    SAME = "{0}.begins = {1}.begins AND {0}.version.ends <=> {1}.ends"
    spoil = patched(VersionRows, "_shows_same", lambda _, *both: OverwritesVersionsOfEqualTimes.SAME.format(*both))


class FoldsSupersededVersions(AnyTable):
    """Reads superseded rows of a key too."""

    spoil = patched(VersionRows, "believed", lambda self, rows: rows)


class RenumbersWrittenVersions(AnyTable):
    """Gives each written version a new number, existing ones too."""

    spoil = patched(VersionRows, "_number", lambda self, version: "bigint(NULL)")


class IdentifiesVersionsByStart(AnyTable):
    """Gives a version whose start moved a new number."""

    spoil = patched(
        VersionRows, "_number", lambda _, version: f"get(filter(stood, s -> s.begins = {version}.begins), 0).number"
    )


class NumbersEachPartByItself(AnyTable):
    """Numbers the versions of each Spark partition from the highest number on."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        of = Numbering.of
        in_parts(patch)

        def alike(fresh: DataFrame, highest: int) -> Numbering:
            numbers = of(fresh, highest)
            return replace(numbers, behind=dict.fromkeys(numbers.behind, highest))

        patch.setattr(Numbering, "of", alike)


class NumbersEachBatchFromOne(AnyTable):
    """Ignores the numbers that were given before."""

    def change_plan(self, plan: MergePlan) -> MergePlan:
        return replace(plan, numbered=0)
