"""Working out full loads of tables that have no row: nothing is met, so no event is judged."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.events import IS_EVENT
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.tables.outcome import Outcome
from lakeward.adapters.tables.rows import Rows
from lakeward.core.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Resolved


def meets_nothing(plan: MergePlan, rows: Rows) -> bool:
    """Return whether a batch is rows of a full load alone, all of them readable, for a table without rows."""
    meets = plan.folds or plan.has_late or plan.copies or plan.holds or plan.releases or plan.truncates.all
    return plan.facts.is_of_loads and not (meets or plan.facts.rejects or rows.are_there)


def by_loading(plan: MergePlan, frame: DataFrame, rows: Rows) -> Resolved | None:
    """Write the rows of a full load as they come; return None where a key comes twice."""
    passing, key = frame.where(IS_EVENT), [quoted(name) for name in plan.dimension.key]
    if not passing.groupBy(*key).agg(F.expr("count(*) AS rows")).where("rows > 1").isEmpty():
        return None
    f = plan.facts
    count = sum(f.operations.values())
    return Resolved(
        counts=Counts(read=f.read, skipped=f.skipped, applied=count),
        written=count,
        removed=0,
        detail=Outcome(upserts=passing, table=rows.table),
    )
