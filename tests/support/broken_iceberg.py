"""Mistakes in code of the Iceberg adapter alone: each function makes one.

Mistakes that a table of any format could make are in `broken_feeds.py` and `broken_answers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from ways import use_spark, use_spark_in_commands

from lakeward.adapters.formats.iceberg import table
from lakeward.adapters.formats.iceberg.table import IcebergTable
from lakeward.adapters.formats.iceberg.writes.change import Change
from lakeward.adapters.formats.shared.change_log import entries, retention
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.resolution.steps import applicable_events, arrivals, hold_filter
from lakeward.adapters.formats.shared.resolution.steps.arrivals import Arrivals
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables import side_table_pair
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.merge import resolution
from lakeward.adapters.spark.merge.resolution import FILE
from lakeward.adapters.spark.sql import names
from lakeward.core import plan as core_plan
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import SchemaChange

Break = Callable[[pytest.MonkeyPatch], None]


def by_spark(break_it: Break) -> Break:
    """Return a mistake in how Spark resolves batches, with Spark resolving every batch."""

    @wraps(break_it)
    def broken(patch: pytest.MonkeyPatch) -> None:
        use_spark(patch)
        break_it(patch)

    return broken


@by_spark
def checks_nothing_for_being_stale(patch: pytest.MonkeyPatch) -> None:
    """Treats every event as newer than the stored row."""
    patch.setattr(resolution, "_is_newer", lambda _plan: "true")


def keeps_progress_apart(patch: pytest.MonkeyPatch) -> None:
    """Commits the rows before the progress."""
    commit, trim, tables = IcebergTable.commit, SideTables.trim, []

    def rows_alone(self: IcebergTable, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        tables.append(self)
        return commit(self, plan, resolved, self.state().progress)

    def progress_after(self: SideTables, progress: Progress) -> None:
        jvm, rows = table.Jvm(self.spark()), tables[-1]
        java = jvm.table(*rows.name)
        change = table.Change(jvm, java, rows.catalog.io(rows.dimension.name), java.currentSnapshot())
        change.commit(progress, 0, 0)
        trim(self, progress)

    patch.setattr(IcebergTable, "commit", rows_alone)
    patch.setattr(SideTables, "trim", progress_after)


@by_spark
def looks_into_one_partition_only(patch: pytest.MonkeyPatch) -> None:
    """Finds the row of a key only in the partition of the event."""
    find_stored = Rows.find_stored

    def in_its_partition(self: Rows, events: DataFrame, gone: DataFrame | None) -> DataFrame:
        key = list(self.plan.dimension.key)
        partition = F.concat(F.lit("a_trunc="), F.expr("a - pmod(a, 3)"), F.lit("/"))
        places = events.select(*key, partition.alias("place"))
        return (
            find_stored(self, events, gone)
            .join(places, key)
            .where(F.col(FILE).isNull() | F.col(FILE).contains(F.col("place")))
            .drop("place")
            .distinct()
        )

    patch.setattr(Rows, "find_stored", in_its_partition)


def forgets_deletes_too_early(patch: pytest.MonkeyPatch) -> None:
    """Trims with each batch what the source may still deliver again."""

    def trim(beside: ChangeLogTable, _progress: Progress, *_more: object) -> None:
        beside.table.forget(f"{entries.KIND} = '{entries.DELETE}'")

    patch.setattr(retention, "_TRIM_EVERY", 1)
    patch.setattr(side_table_pair, "trim", trim)


def forgets_deletes_above_the_mark(patch: pytest.MonkeyPatch) -> None:
    """Trims deletes above the low watermark."""
    patch.setattr(retention, "_TRIM_EVERY", 1)

    def passed(_beside: ChangeLogTable, progress: Progress, _holds: object) -> str:
        return f"({entries.KIND} = '{entries.DELETE}' and {names.BATCH} <= {progress.batch})"

    patch.setattr(retention, "_passed", passed)


@by_spark
def holds_a_copy_again(patch: pytest.MonkeyPatch) -> None:
    """Treats a copy of a row that is or was in quarantine as a new row."""
    patch.setattr(arrivals, "without_copies", lambda frame, _plan: (frame, resolution.CopyCounts()))


@by_spark
def keeps_no_bases(patch: pytest.MonkeyPatch) -> None:
    """Remembers events without base rows."""
    patch.setattr(ChangeLogTable, "bases", lambda _self, _upto: None)


@by_spark
def lets_key_changes_pass_held_keys(patch: pytest.MonkeyPatch) -> None:
    """Does not hold key changes of a held key."""
    part = hold_filter.split_chains

    def apart(plan: MergePlan, events: DataFrame, barriers: DataFrame) -> tuple[DataFrame, DataFrame]:
        is_move = f"{names.OLD} IS NOT NULL"
        passes, waits = part(plan, events.where(f"NOT ({is_move})"), barriers)
        return passes.unionByName(events.where(is_move), allowMissingColumns=True), waits

    patch.setattr(hold_filter, "split_chains", apart)


@by_spark
def lets_pass_what_follows_an_undecided_change(patch: pytest.MonkeyPatch) -> None:
    """Holds an undecided key change without later events of its batch."""
    part = hold_filter.split_by_holds

    def apart(side_tables: SideTables, plan: MergePlan, arrived: Arrivals, events: DataFrame) -> Any:
        return part(side_tables, plan, replace(arrived, has_refused=False), events)

    patch.setattr(applicable_events, "split_by_holds", apart)


@by_spark
def holds_what_comes_too_late(patch: pytest.MonkeyPatch) -> None:
    """Holds the key of a bad row that is below the low watermark."""
    late_as_rejects = arrivals.late_as_rejects

    def of_events(frame: DataFrame, plan: MergePlan) -> tuple[DataFrame, Mapping[Reason | None, int]]:
        events, late = late_as_rejects(frame.where(f"{names.REASON} IS NULL"), plan)
        return events.unionByName(frame.where(f"{names.REASON} IS NOT NULL")), late

    patch.setattr(arrivals, "late_as_rejects", of_events)


def nulls_what_the_files_lack(patch: pytest.MonkeyPatch) -> None:
    """Writes NULL into a column that the files of an update lack."""
    use_spark_in_commands(patch)
    patch.setattr(Rows, "with_stored_values", lambda _self, upserts, _judged: upserts)


def changes_columns_in_a_commit_of_their_own(patch: pytest.MonkeyPatch) -> None:
    """Adds new columns in a commit before that of the rows."""
    evolve = Change.evolve

    def at_once(self: Change, changes: Sequence[SchemaChange]) -> None:
        evolve(self, changes)
        self.transaction.commitTransaction()
        self.table.refresh()
        self.transaction = self.table.newTransaction()

    patch.setattr(Change, "evolve", at_once)


@by_spark
def truncates_what_the_batch_names_alone(patch: pytest.MonkeyPatch) -> None:
    """Truncates only rows with other events in the batch."""
    patch.setattr(Rows, "with_truncated", lambda _self, stood: stood)


@by_spark
def forgets_truncates(patch: pytest.MonkeyPatch) -> None:
    """Applies events older than an earlier truncate."""
    patch.setattr(core_plan, "remembered_truncates", lambda _records, _mark: frozenset())


BROKEN: Mapping[str, Sequence[Break]] = {
    "in order": (
        checks_nothing_for_being_stale,
        keeps_progress_apart,
        looks_into_one_partition_only,
        forgets_deletes_too_early,
    ),
    "late": (forgets_deletes_above_the_mark,),
    "in part": (lets_key_changes_pass_held_keys,),
    "parts of loaded rows": (keeps_no_bases,),
    "truncated": (truncates_what_the_batch_names_alone, forgets_truncates),
    "undecided": (lets_pass_what_follows_an_undecided_change,),
    "late and bad": (holds_what_comes_too_late,),
    "mended": (holds_a_copy_again,),
}
"""The mistakes, by the script that shows them."""

CRASH: Mapping[Break, tuple[str, str]] = {keeps_progress_apart: ("commit", "after")}
"""The step at which a process must crash to show some mistakes."""
