"""Resolve batches of tables without a key: every fact is a row of its own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.steps.counts import rejects_of
from lakeward.adapters.formats.shared.rows.table_rows import Rows, TableSnapshot
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.event_frame import IS_EVENT, IS_REJECT, count_operations
from lakeward.adapters.spark.merge.resolution import reject_without_key, without_copies
from lakeward.core.events import Operation
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def resolve_append(
    side_tables: SideTables, plan: MergePlan, frame: DataFrame, table: TableSnapshot | None
) -> MergeResult:
    """Append inserted and read rows. Updates, deletes and truncates go into quarantine."""
    frame, copies = without_copies(frame, plan)
    facts = plan.facts
    operations = count_operations(frame) if plan.copies else facts.operations
    frame = reject_without_key(frame, plan.dimension)
    written = sum(operations.get(operation, 0) for operation in (Operation.INSERT, Operation.READ))
    refused = sum(operations.values()) - written
    rejects = rejects_of(plan, copies, {Reason.NO_KEY: refused})
    detail = MergeDetail(
        upserts=frame.where(IS_EVENT),
        rejects=frame.where(IS_REJECT) if refused or facts.rejects else None,
        drops_all=plan.replaces,
        table=table,
    )
    counts = Counts(
        read=facts.read,
        skipped=facts.skipped,
        duplicates=copies.rows,
        quarantined=sum(rejects.values()),
        applied=written,
    )
    return MergeResult(
        counts=Counts() if plan.releases else counts,
        written=written,
        removed=Rows(plan, table, side_tables.spark).count() if plan.replaces else 0,
        rejects=rejects,
        detail=detail,
    )
