"""Find objects whose rows are all refused for one reason, in a surveyed event frame."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.event_frame import SKIPPED, Group, by_object
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.adapters.spark.frames.local_survey import first_rejects as first_local_rejects
from lakeward.adapters.spark.sql import names
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.facts import READ_REASONS, Refusal


def find_refusals(frame: Frame, groups_of_objects: Sequence[Group]) -> Mapping[int, Refusal]:
    """Return, by the order of the object, the refusal of each object of which no row can be read for one reason.

    The frame is read again only if there is such an object.
    """
    rows: dict[int, tuple[Reason, int]] = {}
    for order, groups in by_object(groups_of_objects).items():
        rows_read = [group for group in groups if group.reason != SKIPPED]
        reasons = {group.reason for group in rows_read}
        if len(reasons) == 1 and (reason := reasons.pop()) in _READ:
            rows[order] = (Reason(reason), sum(group.rows for group in rows_read))
    if not rows:
        return {}
    firsts = first_local_rejects(frame, rows) if isinstance(frame, LocalFrame) else _first_rejects(frame, rows)
    return {order: Refusal(*rows[order], row, detail) for order, (row, detail) in firsts.items()}


def _first_rejects(frame: DataFrame, objects: Collection[int]) -> Mapping[int, tuple[int, str]]:
    """Return the row number of the first reject of each object, and its explanation."""
    firsts = (
        frame.where(F.col(names.OBJECT).isin(list(objects)) & (F.col(names.REASON) != SKIPPED))
        .groupBy(names.OBJECT)
        .agg(F.min(names.ROW).alias("row"), F.min_by(names.DETAIL, names.ROW).alias("detail"))
        .collect()
    )
    return {first[names.OBJECT]: (first["row"], first["detail"] or "") for first in firsts}


_READ = frozenset(reason.value for reason in READ_REASONS)
