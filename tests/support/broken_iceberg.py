"""Mistakes in code of the Iceberg adapter alone.

Mistakes that a table of any format could make are in `broken_feeds.py` and `broken_answers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutations import Break, Method, broken, patched, wrapped
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from resolution_switches import use_spark, use_spark_in_commands

from lakeward.adapters.formats.iceberg import table
from lakeward.adapters.formats.iceberg.table import IcebergTable
from lakeward.adapters.formats.iceberg.writes.change import Change
from lakeward.adapters.formats.shared.change_log import entries, retention
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.resolution.steps import applicable_events, arrivals, hold_filter
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

DELETE = f"{entries.KIND} = '{entries.DELETE}'"
MOVE = f"{names.OLD} IS NOT NULL"
TRIMS_EACH_BATCH = patched(retention, "_TRIM_EVERY", 1)
COMMITTED: list[IcebergTable] = []


def _commit_rows(right: Method, own: IcebergTable, plan: MergePlan, resolved: MergeResult, _: Progress) -> Commit:
    COMMITTED.append(own)
    committed: Commit = right(own, plan, resolved, own.state().progress)
    return committed


def _commit_progress(right: Method, own: SideTables, progress: Progress) -> None:
    jvm, rows = table.Jvm(own.spark()), COMMITTED[-1]
    java = jvm.table(*rows.name)
    change = table.Change(jvm, java, rows.catalog.io(rows.dimension.name), java.currentSnapshot())
    change.commit(progress, 0, 0)
    right(own, progress)


def _find_in_partition(right: Method, own: Rows, events: DataFrame, gone: DataFrame | None) -> DataFrame:
    key = list(own.plan.dimension.key)
    partition = F.concat(F.lit("a_trunc="), F.expr("a - pmod(a, 3)"), F.lit("/"))
    found = right(own, events, gone).join(events.select(*key, partition.alias("place")), key)
    return found.where(F.col(FILE).isNull() | F.col(FILE).contains(F.col("place"))).drop("place").distinct()


def _hold_without_moves(right: Method, plan: MergePlan, events: DataFrame, barriers: DataFrame) -> Any:
    passes, waits = right(plan, events.where(f"NOT ({MOVE})"), barriers)
    return passes.unionByName(events.where(MOVE), allowMissingColumns=True), waits


def _refuse_late_events(
    right: Method, frame: DataFrame, plan: MergePlan
) -> tuple[DataFrame, Mapping[Reason | None, int]]:
    events, late = right(frame.where(f"{names.REASON} IS NULL"), plan)
    return events.unionByName(frame.where(f"{names.REASON} IS NOT NULL")), late


def _evolve_at_once(right: Method, own: Change, changes: Sequence[SchemaChange]) -> None:
    right(own, changes)
    own.transaction.commitTransaction()
    own.table.refresh()
    own.transaction = own.table.newTransaction()


KEEPS_PROGRESS_APART = broken(
    "commits the rows before the progress",
    wrapped(IcebergTable, "commit", _commit_rows),
    wrapped(SideTables, "trim", _commit_progress),
)
NULLS_WHAT_THE_FILES_LACK = broken(
    "writes NULL into a column that the files of an update lack",
    use_spark_in_commands,
    patched(Rows, "with_stored_values", lambda _self, upserts, _judged: upserts),
)
COMMITS_COLUMNS_ALONE = broken(
    "adds new columns in a commit before that of the rows", wrapped(Change, "evolve", _evolve_at_once)
)

BROKEN: Mapping[str, Sequence[Break]] = {
    "in order": (
        broken(
            "treats every event as newer than the stored row",
            *(use_spark, patched(resolution, "_is_newer", lambda _plan: "true")),
        ),
        KEEPS_PROGRESS_APART,
        broken(
            "finds the row of a key only in the partition of the event",
            *(use_spark, wrapped(Rows, "find_stored", _find_in_partition)),
        ),
        broken(
            "trims with each batch what the source may still deliver again",
            TRIMS_EACH_BATCH,
            patched(side_table_pair, "trim", lambda side_tables, *_: side_tables.table.forget(DELETE)),
        ),
    ),
    "late": (
        broken(
            "trims deletes above the low watermark",
            TRIMS_EACH_BATCH,
            patched(retention, "_passed", lambda _, now, __: f"({DELETE} and {names.BATCH} <= {now.batch})"),
        ),
    ),
    "in part": (
        broken(
            "does not hold key changes of a held key",
            *(use_spark, wrapped(hold_filter, "split_chains", _hold_without_moves)),
        ),
    ),
    "parts of loaded rows": (
        broken(
            "remembers events without base rows",
            *(use_spark, patched(ChangeLogTable, "bases", lambda _self, _upto: None)),
        ),
    ),
    "truncated": (
        broken(
            "truncates only rows with other events in the batch",
            *(use_spark, patched(Rows, "with_truncated", lambda _self, stood: stood)),
        ),
        broken(
            "applies events older than an earlier truncate",
            *(use_spark, patched(core_plan, "remembered_truncates", lambda _records, _mark: frozenset())),
        ),
    ),
    "undecided": (
        broken(
            "holds an undecided key change without later events of its batch",
            use_spark,
            wrapped(
                *(applicable_events, "split_by_holds"),
                lambda right, tables, plan, arrived, events: right(
                    tables, plan, replace(arrived, has_refused=False), events
                ),
            ),
        ),
    ),
    "late and bad": (
        broken(
            "holds the key of a bad row that is below the low watermark",
            *(use_spark, wrapped(arrivals, "late_as_rejects", _refuse_late_events)),
        ),
    ),
    "mended": (
        broken(
            "treats a copy of a row that is or was in quarantine as a new row",
            use_spark,
            patched(arrivals, "without_copies", lambda frame, _plan: (frame, resolution.CopyCounts())),
        ),
    ),
}
"""The mistakes, by the script that shows them."""

CRASH: Mapping[Break, tuple[str, str]] = {KEEPS_PROGRESS_APART: ("commit", "after")}
"""The step at which a process must crash to show some mistakes."""
