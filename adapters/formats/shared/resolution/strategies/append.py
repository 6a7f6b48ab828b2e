"""Working out batches of tables without a key: every fact is a row of its own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.resolution.steps.counts import rejects_of
from lakeward.adapters.formats.shared.rows.table_rows import Loaded, Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.frames.event_frame import IS_EVENT, IS_REJECT, count_operations
from lakeward.adapters.spark.merge.resolution import reject_without_key, without_copies
from lakeward.core.events import Operation
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def by_appending(kept: Keeping, plan: MergePlan, frame: DataFrame, table: Loaded | None) -> MergeResult:
    """Add the rows that were inserted or read; what would change one that stands goes into quarantine."""
    frame, known = without_copies(frame, plan)
    f = plan.facts
    operations = count_operations(frame) if plan.copies else f.operations
    frame = reject_without_key(frame, plan.dimension)
    written = sum(operations.get(operation, 0) for operation in (Operation.INSERT, Operation.READ))
    refused = sum(operations.values()) - written
    rejects = rejects_of(plan, known, {Reason.NO_KEY: refused})
    outcome = Outcome(
        upserts=frame.where(IS_EVENT),
        rejects=frame.where(IS_REJECT) if refused or f.rejects else None,
        drops_all=plan.replaces,
        table=table,
    )
    counts = Counts(
        read=f.read,
        skipped=f.skipped,
        duplicates=known.rows,
        quarantined=sum(rejects.values()),
        applied=written,
    )
    return MergeResult(
        counts=Counts() if plan.releases else counts,
        written=written,
        removed=Rows(plan, table, kept.spark).count() if plan.replaces else 0,
        rejects=rejects,
        detail=outcome,
    )
