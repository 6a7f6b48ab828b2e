"""Ties of a batch: by the policy of the table, tied events go into quarantine or stop the table."""

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
from lakeward.adapters.spark.merge.duplicates import stored_facts
from lakeward.adapters.spark.merge.resolution import ID, IS_NOT_DELETED, reject_each
from lakeward.adapters.spark.merge.ties import OTHER_OBJECT, OTHER_ROW, find_ties
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
    """Return a batch whose tied events are rejects that hold their keys, and the plan with the facts that follow.

    Released events are not compared again. Raises SourceError if the policy is `fail` and there is a tie.
    """
    if plan.dimension.ties is Ties.ARRIVAL or plan.releases:
        return plan, frame
    compares = plan.recalls and not plan.replaces
    remembered = change_log.facts(plan.batch - 1) if compares else []
    ties = find_ties(frame, plan, remembered, facts_of_stored_rows(plan, rows) if compares else None)
    if ties is None:
        return plan, frame
    objects = {
        **change_log.batches.object_names,
        **{item.object.order: item.object.name for item in plan.facts.objects},
    }
    if plan.dimension.ties is Ties.FAIL:
        raise _refusal(plan, ties, objects)
    counts_by_operation = {
        Operation(row[0]): row["count"] for row in ties.groupBy(names.OPERATION).count().collect()
    }
    operations = Counter(plan.facts.operations) - Counter(counts_by_operation)
    rejects = Counter(plan.facts.rejects) + Counter({Reason.TIE: sum(counts_by_operation.values())})
    facts = replace(plan.facts, operations=operations, rejects=rejects)
    return replace(plan, facts=facts), reject_each(frame, plan, _tie_messages(ties, objects))


def facts_of_stored_rows(plan: MergePlan, rows: Rows) -> DataFrame | None:
    """Return the current rows of an `ordered` table as facts, since it remembers no others.

    Return None for any other table, and for one without rows.
    """
    if not (rows.are_there and isinstance(plan.dimension.lateness, Ordered)):
        return None
    stored_rows = rows.all(plan.facts.key_range).where(f"NOT {IS_LOAD}")
    if rows.history is not None:
        stored_rows = rows.history.read(stored_rows).where(f"{ENDS} IS NULL")
    elif plan.dimension.is_soft:
        stored_rows = stored_rows.where(IS_NOT_DELETED)
    return stored_facts(stored_rows, plan)


def without_held(
    plan: MergePlan, frame: DataFrame, rows: Rows, quarantine: QuarantineTable
) -> tuple[DataFrame, int]:
    """Leave out redelivered events of an `ordered` table that were held; return how many they are.

    Other redelivered events are recognised by the stored rows and the change log, and rejects by the quarantine.
    """
    if not (plan.copies and isinstance(plan.dimension.lateness, Ordered)) or plan.releases or plan.replaces:
        return frame, 0
    places = quarantine.held_among(plan.epoch, plan.batch - 1, plan.copies)
    if not places:
        return frame, 0
    held_places = F.broadcast(inline(rows.spark(), {names.OBJECT: "bigint", names.ROW: "bigint"}, places))
    repeated = frame.join(held_places, [names.OBJECT, names.ROW], "left_semi").count()
    return frame.join(held_places, [names.OBJECT, names.ROW], "left_anti"), repeated


def _tie_messages(ties: DataFrame, objects: Mapping[int, str]) -> DataFrame:
    """Return the IDs of tied events, with reason and message."""
    other_objects = [row[0] for row in ties.select(OTHER_OBJECT).distinct().collect()]
    names_by_order = [(order, objects.get(order, str(order))) for order in other_objects]
    object_names = inline(ties.sparkSession, {OTHER_OBJECT: "bigint", "name": "string"}, names_by_order)
    before, after = tie_detail("\n").split("\n")
    message = f"concat({text(before)}, name, ':', {OTHER_ROW}, {text(after)}) AS message"
    identifier = f"shiftleft({names.ARRIVAL}, 2) AS {ID}"
    return ties.join(F.broadcast(object_names), OTHER_OBJECT).selectExpr(
        identifier, f"'{Reason.TIE.value}' AS reason", message
    )


def _refusal(plan: MergePlan, ties: DataFrame, objects: Mapping[int, str]) -> SourceError:
    """Return the error for the first tie."""
    first = ties.orderBy(names.SEQUENCE, names.OBJECT, names.ROW).collect()[0]
    event_place, other_place = (
        f"{objects.get(first[order], first[order])}:{first[row]}"
        for order, row in ((names.OBJECT, names.ROW), (OTHER_OBJECT, OTHER_ROW))
    )
    return refuse_tie(plan.dimension, event_place, other_place)
