"""Working out full loads of tables that have no row: nothing is met, so no event is judged."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.spark.frames.event_frame import IS_EVENT, range_of
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def is_load_alone(plan: MergePlan) -> bool:
    """Return whether a batch is rows of a full load alone, all of them readable, that meet no memory."""
    meets = plan.folds or plan.has_late or plan.copies or plan.holds or plan.releases or plan.truncates.all
    return plan.facts.is_of_loads and not (meets or plan.facts.rejects)


def meets_nothing(plan: MergePlan, rows: Rows) -> bool:
    """Return whether a batch is rows of a full load alone, all of them readable, for a table without rows."""
    return is_load_alone(plan) and not rows.are_there


def meets_a_row(events: DataFrame, rows: Rows) -> bool:
    """Return whether a row stands with the key of an event; files whose keys are all others are not read."""
    if not rows.are_there:
        return False
    dimension = rows.plan.dimension
    stand = rows.all(range_of(events, dimension))
    return not stand.join(events, list(dimension.key), "left_semi").isEmpty()


def repeats_a_key(events: DataFrame, dimension: Dimension) -> bool:
    """Return whether two events have the same key."""
    counted = events.groupBy(*map(quoted, dimension.key)).agg(F.expr("count(*) AS rows"))
    return not counted.where("rows > 1").isEmpty()


def load_of(plan: MergePlan, outcome: Outcome, *, removed: int = 0) -> MergeResult:
    """Return what a load does of which every row goes into the table, in the place of so many that are removed."""
    count = sum(plan.facts.operations.values())
    counts = Counts(read=plan.facts.read, skipped=plan.facts.skipped, applied=count)
    return MergeResult(counts=counts, written=count, removed=removed, detail=outcome)


def by_loading(plan: MergePlan, frame: DataFrame, rows: Rows) -> MergeResult | None:
    """Write the rows of a full load as they come; return None where a key comes twice."""
    passing = frame.where(IS_EVENT)
    return None if repeats_a_key(passing, plan.dimension) else load_of(plan, Outcome(passing, table=rows.table))
