"""The instants from which the events of a batch are valid in a history, and events that have none and need one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from lakeward.adapters.spark.history.instants import add_instants, undated_reason
from lakeward.adapters.spark.merge.resolution import reject_explained
from lakeward.adapters.spark.sql import names
from lakeward.core.events import Operation
from lakeward.core.history.instants import instant_of_time, valid_instant_range
from lakeward.core.history.options import ByColumn, History
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.quarantine import repair


def with_effective_times(
    plan: MergePlan, frame: DataFrame, objects: Callable[[], Mapping[int, str]]
) -> tuple[MergePlan, DataFrame]:
    """Return a batch with the instant of each event; events that need one and have none are rejects.

    `objects` returns the names of source objects by their order. Raises RepairError for a repaired row without an
    instant.
    """
    if plan.dimension.history is None:
        return plan, frame
    frame = add_instants(frame, plan.dimension, plan.epoch, plan.begun_at, is_first=plan.is_first)
    message = undated_reason(frame, plan.dimension) if _may_be_undated(plan, plan.dimension.history) else None
    if message is None:
        return plan, frame
    undated_rows = frame.selectExpr(names.OBJECT, names.ROW, names.OPERATION, f"{message} AS message").where(
        "message IS NOT NULL"
    )
    if plan.releases:
        for order, row, _, detail in undated_rows.take(1):
            raise repair.is_undated(plan.dimension, objects().get(order, order), row, detail)
        return plan, frame
    counts_by_operation = {
        Operation(row[0]): row["count"] for row in undated_rows.groupBy(names.OPERATION).count().collect()
    }
    if not counts_by_operation:
        return plan, frame
    operations = Counter(plan.facts.operations) - Counter(counts_by_operation)
    rejects = Counter(plan.facts.rejects) + Counter({Reason.UNDATED: sum(counts_by_operation.values())})
    facts = replace(plan.facts, operations=operations, rejects=rejects)
    return replace(plan, facts=facts), reject_explained(frame, plan.dimension, Reason.UNDATED, message)


def _may_be_undated(plan: MergePlan, history: History) -> bool:
    """Return whether events of a batch may lack an instant.

    Events that are dated by their time have one, unless the time lies beyond the open end of the history.
    """
    facts = plan.facts
    if isinstance(history.validity, ByColumn) or plan.releases:
        return True
    ahead = 0 if facts.ahead is None else facts.ahead.time
    return instant_of_time(max(facts.time or 0, ahead, plan.begun_at), history) > valid_instant_range(history)[1]
