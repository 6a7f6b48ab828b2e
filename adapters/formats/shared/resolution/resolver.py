"""Resolve a batch: work out what a plan does to the rows of a table, and write nothing.

The steps are modules of `lakeward.adapters.formats.shared.resolution.steps`. Each passes a value to the next one:
the new rows of a batch (`Arrivals`), and, where events are folded in order, the events that can be applied
(`ApplicableEvents`). `strategies` has a module for each way to resolve a batch. The table format writes the result
(`MergeDetail`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.column_batches.batch import remembers_many
from lakeward.adapters.formats.shared.column_batches.resolver import resolve_columns
from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.steps.arrivals import sort_arrivals
from lakeward.adapters.formats.shared.resolution.steps.effective_times import with_effective_times
from lakeward.adapters.formats.shared.resolution.steps.log_regressions import find_regressions
from lakeward.adapters.formats.shared.resolution.steps.verdicts import has_few_rows
from lakeward.adapters.formats.shared.resolution.strategies.append import resolve_append
from lakeward.adapters.formats.shared.resolution.strategies.full_load import meets_no_row, resolve_full_load
from lakeward.adapters.formats.shared.resolution.strategies.image_match import needs_image_match, resolve_by_images
from lakeward.adapters.formats.shared.resolution.strategies.ordered_fold import resolve_in_order
from lakeward.adapters.formats.shared.resolution.strategies.snapshot_splice import resolve_snapshot_splice
from lakeward.adapters.formats.shared.resolution.strategies.whole_rows import resolve_whole_rows, whole_rows_suffice
from lakeward.adapters.formats.shared.rows.new_rows import rows_to_write
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.table_rows import Rows, TableSnapshot
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.formats.shared.small_batches.batch import reason_for_spark
from lakeward.adapters.formats.shared.small_batches.resolver import resolve_small_batch
from lakeward.adapters.spark.execution.cached_frames import freed_on_failure
from lakeward.adapters.spark.execution.parallelism import ROWS_A_PART
from lakeward.adapters.spark.execution.query_plans import as_leaf
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame, in_spark
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult

_NO_PARTITIONS: Final = Partitions()

DIRECT: Final = "Spark: a full load, written as it was read"

Resolve: TypeAlias = Callable[[TableSnapshot | None, Partitions], MergeResult]
"""A function that resolves a batch, given a snapshot of the table (None before the first batch) and its partitions.
"""


def resolve_plan(
    side_tables: SideTables,
    plan: MergePlan,
    frame: Frame,
    table: TableSnapshot | None,
    partitions: Partitions = _NO_PARTITIONS,
) -> MergeResult:
    """Resolve a plan against a table, or against one that does not exist yet.

    Rows with a value that the `partitions` cannot store without changing it become rejects.
    """
    direct_load = side_tables.direct_load
    if direct_load is not None and direct_load.events is frame:
        if direct_load.is_by(plan):
            return replace(direct_load.resolved(plan, Rows(plan, table, side_tables.spark)), way=DIRECT)
        frame = direct_load.source
    plan, frame = partitions.reject_lossy_texts(plan, frame)
    reason = reason_for_spark(plan, side_tables.small_batch)
    try:
        resolved = _without_spark(side_tables, plan, frame, table, reason)
    except SparkNeeded as error:
        reason = str(error) if reason is None else f"{reason}, and {error}"
        resolved = None
    if resolved is not None:
        partitions.refuse_lossy_texts(plan, resolved.detail.upserts)
        return resolved
    resolved = _by_spark(side_tables, plan, fitted(in_spark(frame), plan.dimension.schema), table, partitions)
    return replace(resolved, way=f"Spark: {reason}")


def _without_spark(
    side_tables: SideTables, plan: MergePlan, frame: Frame, table: TableSnapshot | None, reason: str | None
) -> MergeResult | None:
    """Resolve a batch with the core, or in columns if it is in this process; None if it is in Spark.

    `reason` says why the core does not resolve it. Raises SparkNeeded if Spark must do it.
    """
    if reason is None:
        if isinstance(frame, LocalFrame) and remembers_many(side_tables, plan):
            with suppress(SparkNeeded):  # the core resolves what cannot be resolved in columns
                return resolve_columns(side_tables, plan, frame, table)
        return resolve_small_batch(side_tables, plan, frame, table)
    if isinstance(frame, LocalFrame) and side_tables.small_batch:
        return resolve_columns(side_tables, plan, frame, table)
    return None


def _by_spark(
    side_tables: SideTables, plan: MergePlan, frame: DataFrame, table: TableSnapshot | None, partitions: Partitions
) -> MergeResult:
    """Resolve a plan with Spark."""
    plan, frame = with_effective_times(plan, frame, lambda: side_tables.change_log.batches.object_names)
    if plan.appends:
        append = resolve_by_images if needs_image_match(plan) else resolve_append
        return append(side_tables, plan, frame, table)
    resolve = reload if plan.replaces else merge
    resolved = resolve(side_tables, plan, frame, table)
    with freed_on_failure(resolved.close):
        partitions.refuse_lossy_texts(plan, rows_to_write(plan, resolved))
    return resolved


def merge(side_tables: SideTables, plan: MergePlan, frame: DataFrame, table: TableSnapshot | None) -> MergeResult:
    """Resolve events against the stored row of each key."""
    rows = Rows(plan, table, side_tables.spark)
    if plan.splices is not None and rows.history is not None:
        return resolve_snapshot_splice(side_tables, plan, rows.history, plan.splices, frame, rows)
    if meets_no_row(plan, rows) and (load_result := resolve_full_load(plan, frame, rows)) is not None:
        return load_result
    if has_few_rows(plan):
        frame = as_leaf(frame.coalesce(1 + plan.facts.read // ROWS_A_PART))
    regressions = find_regressions(side_tables, plan, frame, rows)
    plan, arrivals = sort_arrivals(side_tables, plan, frame, rows)
    if plan.folds and whole_rows_suffice(side_tables, plan, has_late=bool(arrivals.late)):
        plan = replace(plan, folds=False)
    resolve = resolve_in_order if plan.folds else resolve_whole_rows
    return replace(resolve(side_tables, plan, arrivals, rows), log_regressions=regressions)


def reload(side_tables: SideTables, plan: MergePlan, frame: DataFrame, table: TableSnapshot | None) -> MergeResult:
    """Resolve a full load whose rows replace all rows of the table."""
    if plan.dimension.history is not None:  # a history keeps its rows, and the load ends the keys that it lacks
        return merge(side_tables, plan, frame, table)
    rows = Rows(plan, table, side_tables.spark)
    resolved = merge(side_tables, plan, frame, table if plan.dimension.is_soft else None)
    detail: MergeDetail = resolved.detail
    detail.table, detail.drops_all = table, True
    with freed_on_failure(resolved.close):
        if plan.dimension.is_soft:
            resolved = _add_missing_rows(resolved, rows)
        return replace(resolved, removed=rows.count())


def _add_missing_rows(resolved: MergeResult, rows: Rows) -> MergeResult:
    """Add the stored rows that a full load lacks, as soft deletes."""
    detail: MergeDetail = resolved.detail
    upserts = in_spark(detail.upserts)
    lacking, live = rows.lacking(upserts), rows.live()
    detail.upserts = upserts.unionByName(lacking, allowMissingColumns=True)
    return replace(
        resolved,
        written=resolved.written + lacking.count(),
        current=resolved.current - (0 if live is None else live.count()),
    )
