"""From when the events of a batch count in a history, and those that do not say it and must."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from lakeward.adapters.spark.history.instants import dated, undated
from lakeward.adapters.spark.merge.resolution import told_rejects
from lakeward.adapters.spark.sql import names
from lakeward.core.events import Operation
from lakeward.core.history.instants import instant_of_time, valid_instant_range
from lakeward.core.history.options import ByColumn, History
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.quarantine import repair


def with_instants(
    plan: MergePlan, frame: DataFrame, objects: Callable[[], Mapping[int, str]]
) -> tuple[MergePlan, DataFrame]:
    """Return a batch whose events say from when they count; those that do not and must are rejects.

    Raises MendError for one that a person mended; `objects` gives the names of the source's objects by their order.
    """
    if plan.dimension.history is None:
        return plan, frame
    frame = dated(frame, plan.dimension, plan.epoch, plan.ran, is_first=plan.is_first)
    words = undated(frame, plan.dimension) if _may_be_undated(plan, plan.dimension.history) else None
    if words is None:
        return plan, frame
    wrong = frame.selectExpr(names.OBJECT, names.ROW, names.OPERATION, f"{words} AS words").where(
        "words IS NOT NULL"
    )
    if plan.releases:
        for order, row, _, said in wrong.take(1):
            raise repair.is_undated(plan.dimension, objects().get(order, order), row, said)
        return plan, frame
    found = {Operation(row[0]): row["count"] for row in wrong.groupBy(names.OPERATION).count().collect()}
    if not found:
        return plan, frame
    operations = Counter(plan.facts.operations) - Counter(found)
    rejects = Counter(plan.facts.rejects) + Counter({Reason.UNDATED: sum(found.values())})
    facts = replace(plan.facts, operations=operations, rejects=rejects)
    return replace(plan, facts=facts), told_rejects(frame, plan.dimension, Reason.UNDATED, words)


def _may_be_undated(plan: MergePlan, history: History) -> bool:
    """Whether events may not say from when they count: of times that are shown, and before the open end, all do."""
    facts = plan.facts
    if isinstance(history.validity, ByColumn) or plan.releases:
        return True
    ahead = 0 if facts.ahead is None else facts.ahead.time
    return instant_of_time(max(facts.time or 0, ahead, plan.ran), history) > valid_instant_range(history)[1]
