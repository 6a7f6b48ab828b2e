"""Working out batches of tables without a key: every fact is a row of its own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakeward.adapters.spark.events import IS_EVENT, IS_REJECT
from lakeward.adapters.spark.resolve import Known, reject_without_key
from lakeward.adapters.tables.keeping import Keeping
from lakeward.adapters.tables.outcome import Outcome
from lakeward.adapters.tables.resolving.counting import rejects_of
from lakeward.adapters.tables.rows import Loaded, Rows
from lakeward.core.counts import Counts
from lakeward.core.events import Operation
from lakeward.core.memory import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Resolved


def by_appending(kept: Keeping, plan: MergePlan, frame: DataFrame, table: Loaded | None) -> Resolved:
    """Add the rows that were inserted or read; what would change one that stands goes into quarantine."""
    frame = reject_without_key(frame, plan.dimension)
    f = plan.facts
    written = sum(f.operations.get(operation, 0) for operation in (Operation.INSERT, Operation.READ))
    refused = sum(f.operations.values()) - written
    outcome = Outcome(
        upserts=frame.where(IS_EVENT),
        rejects=frame.where(IS_REJECT) if refused or f.rejects else None,
        drops_all=plan.replaces,
        table=table,
    )
    read = Counts(read=f.read, skipped=f.skipped, quarantined=refused + sum(f.rejects.values()), applied=written)
    return Resolved(
        counts=Counts() if plan.releases else read,
        written=written,
        removed=Rows(plan, table, kept.spark).count() if plan.replaces else 0,
        rejects=rejects_of(plan, Known(), {Reason.NO_KEY: refused}),
        detail=outcome,
    )
