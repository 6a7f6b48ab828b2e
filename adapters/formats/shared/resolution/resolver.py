"""What a plan does to the rows of a table: `resolved_by` works it out, and nothing is written.

Each step is a module of `lakeward.adapters.formats.shared.resolution.steps`, and hands a value to the next: what a
batch brought that is new (`Arrived`) and, where rows are folded in order, which of its events can be applied
(`Decided`). What comes of it (`Outcome`) the format carries out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.resolution.steps.arrivals import sort_out
from lakeward.adapters.formats.shared.resolution.steps.effective_times import with_instants
from lakeward.adapters.formats.shared.resolution.steps.log_regressions import find_regressions
from lakeward.adapters.formats.shared.resolution.steps.verdicts import has_few_rows
from lakeward.adapters.formats.shared.resolution.strategies.append import by_appending
from lakeward.adapters.formats.shared.resolution.strategies.full_load import by_loading, meets_nothing
from lakeward.adapters.formats.shared.resolution.strategies.image_match import by_images, meets_images
from lakeward.adapters.formats.shared.resolution.strategies.ordered_fold import by_folding
from lakeward.adapters.formats.shared.resolution.strategies.snapshot_splice import by_splicing
from lakeward.adapters.formats.shared.resolution.strategies.whole_rows import by_judging, may_be_judged
from lakeward.adapters.formats.shared.rows.new_rows import written
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.table_rows import Loaded, Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.formats.shared.small_batches.eligibility import NotSmall, reason_for_spark
from lakeward.adapters.formats.shared.small_batches.resolver import by_settling
from lakeward.adapters.spark.execution.cached_frames import freed_on_failure
from lakeward.adapters.spark.execution.parallelism import ROWS_A_PART
from lakeward.adapters.spark.execution.query_plans import as_leaf
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult

_NO_PARTITIONS: Final = Partitions()

DIRECT: Final = "Spark: a full load, written as it was read"

Work: TypeAlias = Callable[[Loaded | None, Partitions], MergeResult]
"""Works out rows of a table as it was loaded, None where it is not there yet, and as it is partitioned."""


def resolved_by(
    kept: Keeping, plan: MergePlan, frame: Frame, table: Loaded | None, partitions: Partitions = _NO_PARTITIONS
) -> MergeResult:
    """Work out what a plan does to a table, or to one that is not there yet.

    Rows of which its `partitions` would not keep a text go into quarantine.
    """
    load = kept.direct_load
    if load is not None and load.events is frame:
        if load.is_by(plan):
            return replace(load.resolved(plan, Rows(plan, table, kept.spark)), way=DIRECT)
        frame = load.source
    plan, frame = partitions.without_unkept(plan, frame)
    reason = reason_for_spark(plan, kept.small_batch)
    if reason is None:
        try:
            resolved = by_settling(kept, plan, frame, table)
        except NotSmall as error:
            reason = str(error)
        else:
            partitions.refuse_unkept(plan, resolved.detail.upserts)
            return resolved
    found = _by_spark(kept, plan, fitted(in_spark(frame), plan.dimension.schema), table, partitions)
    return replace(found, way=f"Spark: {reason}")


def _by_spark(
    kept: Keeping, plan: MergePlan, frame: DataFrame, table: Loaded | None, partitions: Partitions
) -> MergeResult:
    """Work out by Spark what a plan does to a table."""
    plan, frame = with_instants(plan, frame, lambda: kept.change_log.batches.object_names)
    if plan.appends:
        append = by_images if meets_images(plan) else by_appending
        return append(kept, plan, frame, table)
    resolve = reload if plan.replaces else merge
    resolved = resolve(kept, plan, frame, table)
    with freed_on_failure(resolved.close):
        partitions.refuse_unkept(plan, written(plan, resolved))
    return resolved


def merge(kept: Keeping, plan: MergePlan, frame: DataFrame, table: Loaded | None) -> MergeResult:
    """Each event meets the row that stands of its key, if there is one."""
    rows = Rows(plan, table, kept.spark)
    if plan.splices is not None and rows.history is not None:
        return by_splicing(kept, plan, rows.history, plan.splices, frame, rows)
    if meets_nothing(plan, rows) and (loaded := by_loading(plan, frame, rows)) is not None:
        return loaded
    if has_few_rows(plan):
        frame = as_leaf(frame.coalesce(1 + plan.facts.read // ROWS_A_PART))
    regressions = find_regressions(kept, plan, frame, rows)
    plan, arrived = sort_out(kept, plan, frame, rows)
    if plan.folds and may_be_judged(kept, plan, arrived):
        plan = replace(plan, folds=False)
    work_out = by_folding if plan.folds else by_judging
    return replace(work_out(kept, plan, arrived, rows), log_regressions=regressions)


def reload(kept: Keeping, plan: MergePlan, frame: DataFrame, table: Loaded | None) -> MergeResult:
    """The rows of a full load take the place of all that stand, and meet none of them."""
    if plan.dimension.history is not None:  # its rows stay: what the load lacks ends
        return merge(kept, plan, frame, table)
    rows = Rows(plan, table, kept.spark)
    resolved = merge(kept, plan, frame, table if plan.dimension.is_soft else None)
    outcome: Outcome = resolved.detail
    outcome.table, outcome.drops_all = table, True
    with freed_on_failure(resolved.close):
        if plan.dimension.is_soft:
            resolved = _with_lacking(resolved, rows)
        return replace(resolved, removed=rows.count())


def _with_lacking(resolved: MergeResult, rows: Rows) -> MergeResult:
    """Keep the rows that a full load lacks, where deletes are soft: they went."""
    outcome: Outcome = resolved.detail
    upserts = in_spark(outcome.upserts)
    lacking, live = rows.lacking(upserts), rows.live()
    outcome.upserts = upserts.unionByName(lacking, allowMissingColumns=True)
    return replace(
        resolved,
        written=resolved.written + lacking.count(),
        current=resolved.current - (0 if live is None else live.count()),
    )
