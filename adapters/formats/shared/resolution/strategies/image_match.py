"""Resolve batches of tables without a key whose rows are found by their before images."""

from __future__ import annotations

from collections import Counter
from typing import Final

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.rows.table_rows import Rows, TableSnapshot
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.execution.cached_frames import freed_on_failure
from lakeward.adapters.spark.frames.event_frame import IS_EVENT, IS_REJECT, IS_TRUNCATE
from lakeward.adapters.spark.merge.image_match import IS_REMOVAL, Images, fitted_images, is_whole
from lakeward.adapters.spark.merge.resolution import CopyCounts, as_no_key, as_rejects, events_of, without_copies
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Match
from lakeward.core.events import Operation
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.image_match import NO_TRUNCATE, NOT_THERE, NOT_WHOLE
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult
from lakeward.core.quarantine.repair import no_image

_REMOVALS: Final = (Operation.UPDATE, Operation.DELETE)


def needs_image_match(plan: MergePlan) -> bool:
    """Return whether a batch must be compared with stored rows. A batch of new rows alone is appended."""
    may_remove = bool(plan.copies) or any(plan.facts.operations.get(operation) for operation in _REMOVALS)
    return plan.dimension.match is Match.IMAGE and may_remove


def resolve_by_images(
    side_tables: SideTables, plan: MergePlan, frame: DataFrame, table: TableSnapshot | None
) -> MergeResult:
    """Remove one stored row for each before image, and add the after images."""
    _check_repairs(side_tables, plan, frame)
    rows, frame = Rows(plan, table, side_tables.spark), fitted_images(frame, plan.dimension.schema)
    frame, copies = without_copies(frame, plan)
    frame = as_no_key(frame, plan.dimension, IS_TRUNCATE, NO_TRUNCATE)
    frame = as_no_key(frame, plan.dimension, f"{IS_REMOVAL} AND NOT {is_whole(frame)}", NOT_WHOLE)
    compares = rows.are_there and not plan.replaces
    images = Images(plan, events_of(frame), rows.all_as_after() if compares else None)
    with freed_on_failure(images.close):
        frame = as_rejects(frame, plan, images.failed, Reason.NO_KEY, NOT_THERE, names.TEXT)
        return _resolved(plan, frame, copies, images, rows)


def _resolved(plan: MergePlan, frame: DataFrame, copies: CopyCounts, images: Images, rows: Rows) -> MergeResult:
    """Return the result of a batch; its rejects are in the frame already."""
    refused_count = frame.where(f"{names.REASON} = '{Reason.NO_KEY.value}'").count()
    rejects = Counter(plan.facts.rejects) - Counter(copies.rejects) + Counter({Reason.NO_KEY: refused_count})
    superseded, applied = images.superseded.count(), frame.where(IS_EVENT).count()
    detail = MergeDetail(
        upserts=images.written,
        removed=None if plan.replaces else images.removed,
        rejects=frame.where(IS_REJECT) if rejects else None,
        drops_all=plan.replaces,
        table=rows.table,
        cached=[images.stored_rows],
    )
    counts = Counts(
        read=plan.facts.read,
        skipped=plan.facts.skipped,
        duplicates=copies.rows,
        quarantined=sum(rejects.values()),
        superseded=superseded,
        applied=applied - superseded,
    )
    return MergeResult(
        counts=counts,
        written=images.written.count(),
        removed=rows.count() if plan.replaces else images.removed.count(),
        rejects=rejects,
        detail=detail,
        close=detail.close,
    )


def _check_repairs(side_tables: SideTables, plan: MergePlan, frame: DataFrame) -> None:
    """Raise RepairError if a repaired row updates or deletes another row."""
    repaired_row = frame.where(IS_REMOVAL).head() if plan.releases else None
    if repaired_row is not None:
        order = repaired_row[names.OBJECT]
        raise no_image(
            plan.dimension, side_tables.change_log.batches.object_names.get(order, order), repaired_row[names.ROW]
        )
