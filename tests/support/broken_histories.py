"""Tables with wrong histories or soft deletes that no check before a commit detects.

They change code that the formats share, in `spoil`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from broken_ports import mutate_table
from mutations import Method, patched, wrapped
from parts import split_chains
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log import base_rows
from lakeward.adapters.formats.shared.resolution.steps import applicable_events
from lakeward.adapters.formats.shared.resolution.steps.table_before import TableBeforeReader
from lakeward.adapters.formats.shared.resolution.strategies import ordered_fold
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.spark.history.instants import add_instants
from lakeward.adapters.spark.history.surrogate_numbers import Numbering
from lakeward.adapters.spark.history.version_rows import BEGINS, VersionRows
from lakeward.adapters.spark.merge.fold.batch_fold import TableBefore
from lakeward.adapters.spark.merge.fold.chain_results import Chains
from lakeward.adapters.spark.merge.resolution import ID, IS_NOT_DELETED
from lakeward.adapters.spark.sql import names
from lakeward.core.events import Operation
from lakeward.core.history.options import Track
from lakeward.core.plan import MergePlan

# Histories.


def _writes(ends: str) -> Any:
    """Return a `spoil` that writes versions with another end, after they were checked."""

    def ended(fresh: DataFrame) -> DataFrame:
        return fresh.withColumn("fresh", F.col("fresh").withField("version.ends", F.expr(ends)))

    return wrapped(VersionRows, "rows", lambda rows, self, fresh: rows(self, ended(fresh)))


def _swap_ends(rows: Method, self: VersionRows, fresh: DataFrame) -> DataFrame:
    places = [self.versions.schema.names.index(name) for name in self.dimension.key]
    window = Window.partitionBy(*[f"fresh.version.cells.c{i}" for i in places]).orderBy("fresh.version.begins")
    own, after = F.col("fresh.version.ends"), F.lead("fresh").over(window)
    last = F.coalesce(F.lag("fresh.version.ends").over(window), own)
    ends = fresh.withColumn("ends", F.when(after.isNull(), last).otherwise(after["version"]["ends"]))
    return rows(self, ends.withColumn("fresh", F.col("fresh").withField("version.ends", F.col("ends"))))


def _track_all(plan: MergePlan) -> MergePlan:
    history = plan.dimension.history and replace(plan.dimension.history, track=Track(), kinds={})
    return replace(plan, dimension=replace(plan.dimension, history=history))


def _fold_with_new_times(fold: Method, plan: MergePlan, events: DataFrame, before: TableBefore) -> Chains:
    if before.remembered is None:
        return fold(plan, events, before)
    remembered = add_instants(before.remembered.drop(names.INSTANT), plan.dimension, 1, plan.begun_at)
    return fold(plan, events, replace(before, remembered=remembered))


def _changes_without_witnesses(changes: Method, plan: MergePlan, passing: DataFrame, chains: Chains) -> DataFrame:
    assert chains.history is not None
    key = plan.dimension.key
    begins = chains.history.read(chains.rows()).select(*key, F.col(BEGINS).alias(names.INSTANT))
    updates = passing.where(f"{names.OPERATION} = '{Operation.UPDATE.value}'")
    witnesses = updates.join(begins, [*key, names.INSTANT], "left_anti").select(ID)
    return changes(plan, passing.join(witnesses, ID, "left_anti"), chains)


def _fold_newest_truncates(fold: Method, plan: MergePlan, events: DataFrame, before: TableBefore) -> Chains:
    kept = {place: instant for place, instant in before.truncates.items() if place in plan.truncates.all}
    return fold(plan, events, replace(before, truncates=kept))


EndsAVersionAnInstantEarly = mutate_table(
    "ends each version one microsecond early, as if its end were its last valid instant",
    spoil=_writes("fresh.version.ends - 1"),
)
LeavesEndedVersionsCurrent = mutate_table(
    "writes a new version without ending the one before",
    spoil=_writes("CASE WHEN fresh.version.went THEN fresh.version.ends END"),
)
EndsTheWrongVersion = mutate_table(
    "ends the new version instead of the one before it", spoil=wrapped(VersionRows, "rows", _swap_ends)
)
KeepsTheVersionThatItCuts = mutate_table(
    "writes the parts of an ended version that a late event cuts without removing the version",
    spoil=wrapped(
        VersionRows, "gone", lambda gone, self, rows: gone(self, rows.where("gone.version.ends IS NULL"))
    ),
)
TracksEveryColumn = mutate_table(
    "opens versions and moves boundaries for untracked columns", change_plan=_track_all
)
RemembersNoBases = mutate_table(
    "remembers the events of a key without its base row",
    spoil=wrapped(VersionRows, "bases", lambda bases, self, keys: bases(self, keys.limit(0))),
)
ForgetsValidTimes = mutate_table(
    "does not remember valid times: events that are folded again get that of the current run",
    spoil=wrapped(applicable_events, "fold", _fold_with_new_times),
)
RemembersNoWitness = mutate_table(
    "remembers only updates that opened a version, and no witnesses",
    spoil=wrapped(ordered_fold, "_changes", _changes_without_witnesses),
)
LetsALateTruncateEndWhatIsCurrentAlone = mutate_table(
    "does not end a version earlier if a late truncate comes before the one that ended it",
    spoil=patched(TableBeforeReader, "_remembered_keys", lambda _self: []),
)
FoldsTheNewestOfOldTruncates = mutate_table(
    "ends versions only by the newest truncate below the low watermark",
    spoil=wrapped(applicable_events, "fold", _fold_newest_truncates),
)
TrimsTruncatesBelowTheMark = mutate_table(
    "trims truncates below the low watermark although a held key is older",
    spoil=patched(base_rows, "truncate_instants", lambda _truncates, _epoch: {}),
)
RemovesSupersededVersions = mutate_table(
    "removes superseded knowledge, like a history without it",
    spoil=wrapped(VersionRows, "rows", lambda rows, self, fresh: rows(self, fresh.where("fresh.known_to IS NULL"))),
)
OverwritesVersionsOfEqualTimes = mutate_table(
    "treats a version with unchanged start and end as unchanged, for any cells",
    spoil=patched(
        VersionRows,
        "_shows_same",
        lambda _, one, other: f"{one}.begins = {other}.begins AND {one}.version.ends <=> {other}.ends",
    ),
)
FoldsSupersededVersions = mutate_table(
    "reads superseded rows of a key too", spoil=patched(VersionRows, "believed", lambda self, rows: rows)
)

# Surrogate numbers.


def _number_parts_alike(patch: pytest.MonkeyPatch) -> None:
    of = Numbering.of
    split_chains(patch)

    def alike(fresh: DataFrame, highest: int) -> Numbering:
        found = of(fresh, highest)
        return replace(found, behind=dict.fromkeys(found.behind, highest))

    patch.setattr(Numbering, "of", alike)


RenumbersWrittenVersions = mutate_table(
    "gives each written version a new number, existing ones too",
    spoil=patched(VersionRows, "_number", lambda self, version: "bigint(NULL)"),
)
IdentifiesVersionsByStart = mutate_table(
    "gives a version whose start moved a new number",
    spoil=patched(
        VersionRows, "_number", lambda _, version: f"get(filter(stood, s -> s.begins = {version}.begins), 0).number"
    ),
)
NumbersEachPartByItself = mutate_table(
    "numbers the versions of each Spark partition from the highest number on", spoil=_number_parts_alike
)
NumbersEachBatchFromOne = mutate_table(
    "ignores the numbers that were given before", change_plan=lambda plan: replace(plan, numbered=0)
)

# Soft deletes.


def _rows_without_deleted(rows: Method, self: Chains, *numbering: Numbering) -> DataFrame:
    found = rows(self, *numbering)
    return found.where(IS_NOT_DELETED) if self.plan.dimension.is_soft else found


def _rows_without_deleted_cells(rows: Method, self: Chains, *numbering: Numbering) -> DataFrame:
    found, dimension = rows(self, *numbering), self.plan.dimension
    own = [name for name in dimension.schema.names if dimension.is_soft and name not in dimension.key]
    return found.withColumns({name: F.expr(f"CASE WHEN {IS_NOT_DELETED} THEN {name} END") for name in own})


DeletesForGood = mutate_table(
    "removes rows in spite of soft deletes", spoil=wrapped(Chains, "rows", _rows_without_deleted)
)
EmptiesDeletedRows = mutate_table(
    "keeps only the key of a deleted row", spoil=wrapped(Chains, "rows", _rows_without_deleted_cells)
)
RemovesRowsMissingFromALoad = mutate_table(
    "removes rows that a full load lacks, as with hard deletes",
    spoil=patched(Rows, "lacking", lambda _self, others: others.limit(0)),
)
