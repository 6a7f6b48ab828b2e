"""Working out a snapshot that is put between others of a history."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.resolution.steps.held_keys import held_keys
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.frames.event_frame import IS_REJECT
from lakeward.adapters.spark.history.snapshot_splice import spliced
from lakeward.adapters.spark.history.version_rows import VersionRows
from lakeward.adapters.spark.merge.resolution import events_of
from lakeward.core.history.older_snapshots import SnapshotSpan
from lakeward.core.history.snapshot_splice import refuse_broken, refuse_incomplete_snapshot
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def by_splicing(
    kept: Keeping, plan: MergePlan, shown: VersionRows, span: SnapshotSpan, frame: DataFrame, rows: Rows
) -> MergeResult:
    """Put a snapshot between others; none of its rows is late, a copy or behind a hold."""
    refuse_incomplete_snapshot(plan.dimension, plan.facts)
    done = spliced(plan, shown, span, rows.all(), events_of(frame))
    if wrong := done.wrong():
        refuse_broken(plan.dimension, plan.facts, wrong.keys, wrong.example)
    f, numbering = plan.facts, done.numbering(plan.numbered)
    upserts = done.rows(numbering)
    outcome = Outcome(
        upserts=upserts,
        removed=done.removed(),
        rejects=frame.where(IS_REJECT) if f.rejects else None,
        table=rows.table,
    )
    refused, applied = sum(f.rejects.values()), sum(f.operations.values())
    return MergeResult(
        counts=Counts(read=f.read, skipped=f.skipped, quarantined=refused, applied=applied),
        written=upserts.count(),
        removed=done.removed().count(),
        current=done.opened(),
        numbered=numbering.given,
        held=len(held_keys(kept, plan, frame)),
        rejects=f.rejects,
        detail=outcome,
    )
