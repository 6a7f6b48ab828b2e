"""Resolve full loads of tables without rows. Each row is written as it is, without a verdict."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.spark.frames.event_frame import IS_EVENT, range_of
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def is_load_alone(plan: MergePlan) -> bool:
    """Return whether a batch has only readable rows of full loads, and nothing in the change log concerns it."""
    needs_order = plan.folds or plan.has_late or plan.copies or plan.holds or plan.releases or plan.truncates.all
    return plan.facts.is_of_loads and not (needs_order or plan.facts.rejects)


def meets_no_row(plan: MergePlan, rows: Rows) -> bool:
    """Return whether a batch has only readable rows of full loads, and the table has no rows."""
    return is_load_alone(plan) and not rows.are_there


def has_stored_key(events: DataFrame, rows: Rows) -> bool:
    """Return whether a stored row has the key of an event. Only files whose key range overlaps are read."""
    if not rows.are_there:
        return False
    dimension = rows.plan.dimension
    stored = rows.all(range_of(events, dimension))
    return not stored.join(events, list(dimension.key), "left_semi").isEmpty()


def has_repeated_key(events: DataFrame, dimension: Dimension) -> bool:
    """Return whether two events have the same key."""
    counted = events.groupBy(*map(quoted, dimension.key)).agg(F.expr("count(*) AS rows"))
    return not counted.where("rows > 1").isEmpty()


def load_result(plan: MergePlan, detail: MergeDetail, *, removed: int = 0) -> MergeResult:
    """Return the result of a load whose rows are all written. `removed` is the number of rows that they replace."""
    count = sum(plan.facts.operations.values())
    counts = Counts(read=plan.facts.read, skipped=plan.facts.skipped, applied=count)
    return MergeResult(counts=counts, written=count, removed=removed, detail=detail)


def resolve_full_load(plan: MergePlan, frame: DataFrame, rows: Rows) -> MergeResult | None:
    """Write the rows of a full load as they are; return None if a key comes twice."""
    passing = frame.where(IS_EVENT)
    return (
        None
        if has_repeated_key(passing, plan.dimension)
        else load_result(plan, MergeDetail(passing, table=rows.table))
    )
