"""Resolve a snapshot that is older than another one that a history already has."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.steps.held_keys import held_keys
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.event_frame import IS_REJECT
from lakeward.adapters.spark.history.snapshot_splice import spliced
from lakeward.adapters.spark.history.version_rows import VersionRows
from lakeward.adapters.spark.merge.resolution import events_of
from lakeward.core.history.older_snapshots import SnapshotSpan
from lakeward.core.history.snapshot_splice import refuse_broken, refuse_incomplete_snapshot
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def resolve_snapshot_splice(
    side_tables: SideTables,
    plan: MergePlan,
    version_rows: VersionRows,
    span: SnapshotSpan,
    frame: DataFrame,
    rows: Rows,
) -> MergeResult:
    """Insert a snapshot between others. None of its rows is late, a copy or behind a hold.

    Raises SourceError if rows of the snapshot cannot be applied, or the versions of a key would break a rule.
    """
    refuse_incomplete_snapshot(plan.dimension, plan.facts)
    splice = spliced(plan, version_rows, span, rows.all(), events_of(frame))
    if broken := splice.wrong():
        refuse_broken(plan.dimension, plan.facts, broken.keys, broken.example)
    facts, numbering = plan.facts, splice.numbering(plan.numbered)
    upserts = splice.rows(numbering)
    detail = MergeDetail(
        upserts=upserts,
        removed=splice.removed(),
        rejects=frame.where(IS_REJECT) if facts.rejects else None,
        table=rows.table,
    )
    refused, applied = sum(facts.rejects.values()), sum(facts.operations.values())
    return MergeResult(
        counts=Counts(read=facts.read, skipped=facts.skipped, quarantined=refused, applied=applied),
        written=upserts.count(),
        removed=splice.removed().count(),
        current=splice.opened(),
        numbered=numbering.given,
        held=len(held_keys(side_tables, plan, frame)),
        rejects=facts.rejects,
        detail=detail,
    )
