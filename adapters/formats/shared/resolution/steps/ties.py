"""Ties of a batch, as the table would have them: those that tie go into quarantine, or the table stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.quarantine import QuarantineTable
from lakeward.adapters.spark.frames.event_frame import IS_LOAD
from lakeward.adapters.spark.history.version_rows import ENDS
from lakeward.adapters.spark.merge.duplicates import standing_facts
from lakeward.adapters.spark.merge.resolution import ID, STANDS, as_told
from lakeward.adapters.spark.merge.ties import OTHER_OBJECT, OTHER_ROW, tied
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.adapters.spark.sql.names import text
from lakeward.core.dimension import Ordered, Ties
from lakeward.core.errors import SourceError
from lakeward.core.events import Operation
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.ties import refuse_tie, tie_detail
from lakeward.core.plan import MergePlan


def without_ties(
    plan: MergePlan, frame: DataFrame, rows: Rows, change_log: ChangeLogTable
) -> tuple[MergePlan, DataFrame]:
    """Return a batch with the events as rejects that tie with one that stands; they hold their keys.

    Raises SourceError where the table is to stop at one. What waited and is released met others as it came.
    """
    if plan.dimension.ties is Ties.ARRIVAL or plan.releases:
        return plan, frame
    is_asked = plan.recalls and not plan.replaces
    known = change_log.facts(plan.batch - 1) if is_asked else []
    found = tied(frame, plan, known, shown(plan, rows) if is_asked else None)
    if found is None:
        return plan, frame
    objects = {
        **change_log.batches.object_names,
        **{one.object.order: one.object.name for one in plan.facts.objects},
    }
    if plan.dimension.ties is Ties.FAIL:
        raise _refusal(plan, found, objects)
    counted = {Operation(row[0]): row["count"] for row in found.groupBy(names.OPERATION).count().collect()}
    operations = Counter(plan.facts.operations) - Counter(counted)
    rejects = Counter(plan.facts.rejects) + Counter({Reason.TIE: sum(counted.values())})
    facts = replace(plan.facts, operations=operations, rejects=rejects)
    return replace(plan, facts=facts), as_told(frame, plan, _in_words(found, objects))


def shown(plan: MergePlan, rows: Rows) -> DataFrame | None:
    """Return the rows of an `ordered` table as the facts that may have made them: it remembers no others."""
    if not (rows.are_there and isinstance(plan.dimension.lateness, Ordered)):
        return None
    stands = rows.all(plan.facts.key_range).where(f"NOT {IS_LOAD}")
    if rows.history is not None:
        stands = rows.history.read(stands).where(f"{ENDS} IS NULL")
    elif plan.dimension.is_soft:
        stands = stands.where(STANDS)
    return standing_facts(stands, plan)


def without_held(plan: MergePlan, frame: DataFrame, rows: Rows, kept: QuarantineTable) -> tuple[DataFrame, int]:
    """Leave out of what an `ordered` table is given again the events that were held; return how many they are.

    All other events are told by what stands, and what is remembered. A reject is known as one.
    """
    if not (plan.copies and isinstance(plan.dimension.lateness, Ordered)) or plan.releases or plan.replaces:
        return frame, 0
    places = kept.held_among(plan.epoch, plan.batch - 1, plan.copies)
    if not places:
        return frame, 0
    held = F.broadcast(inline(rows.spark(), {names.OBJECT: "bigint", names.ROW: "bigint"}, places))
    again = frame.join(held, [names.OBJECT, names.ROW], "left_semi").count()
    return frame.join(held, [names.OBJECT, names.ROW], "left_anti"), again


def _in_words(found: DataFrame, objects: Mapping[int, str]) -> DataFrame:
    """Return the IDs of events that tie, with the reason and what is wrong in words."""
    orders = [row[0] for row in found.select(OTHER_OBJECT).distinct().collect()]
    listed = [(order, objects.get(order, str(order))) for order in orders]
    named = inline(found.sparkSession, {OTHER_OBJECT: "bigint", "name": "string"}, listed)
    before, after = tie_detail("\n").split("\n")
    words = f"concat({text(before)}, name, ':', {OTHER_ROW}, {text(after)}) AS words"
    identifier = f"shiftleft({names.ARRIVAL}, 2) AS {ID}"
    return found.join(F.broadcast(named), OTHER_OBJECT).selectExpr(
        identifier, f"'{Reason.TIE.value}' AS reason", words
    )


def _refusal(plan: MergePlan, found: DataFrame, objects: Mapping[int, str]) -> SourceError:
    first = found.orderBy(names.SEQUENCE, names.OBJECT, names.ROW).collect()[0]
    one, other = (
        f"{objects.get(first[order], first[order])}:{first[row]}"
        for order, row in ((names.OBJECT, names.ROW), (OTHER_OBJECT, OTHER_ROW))
    )
    return refuse_tie(plan.dimension, one, other)
