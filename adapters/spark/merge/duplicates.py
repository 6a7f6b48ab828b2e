"""Facts that came before under another name, where the sequences of a source are unique.

A fact is (epoch, sequence, key, operation) with its content. Of several in one batch the first
that arrives stands; of those that are known from before, none that arrives.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.event_frame import IS_EVENT, IS_LOAD
from lakeward.adapters.spark.merge.fold.fold_items import with_absent
from lakeward.adapters.spark.merge.resolution import SMALL, hashed, sequence_literal
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.inline_rows import as_json
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.dimension import Ordered
from lakeward.core.merge.fold import columns_of
from lakeward.core.plan import MergePlan

_CONTENT: Final = "_lakeward_content"


def without_facts(frame: DataFrame, plan: MergePlan, known: list[DataFrame]) -> tuple[DataFrame, int]:
    """Leave out the events whose fact is known, or came before in the batch; return how many they are.

    A fact at or below the mark is not looked for: whether it is remembered is by chance.
    """
    if plan.facts.least is None:
        return frame, 0
    events = with_absent(frame.where(f"{IS_EVENT} AND NOT {IS_LOAD}"), plan)  # as they are remembered
    arrived = _facts(events, plan, names.ARRIVAL)
    before = [_facts(in_question(facts, plan), plan, "bigint(NULL)") for facts in known]
    several = (
        reduce(DataFrame.unionByName, [arrived, *before])
        .groupBy(names.SEQUENCE, _CONTENT)
        .agg(
            F.expr(f"min({names.ARRIVAL}) AS first"),
            F.expr(f"count({names.ARRIVAL}) AS arrived"),
            F.expr("count(*) AS every"),
        )
        .where("arrived > 0 AND every > 1")
        .localCheckpoint()
    )
    if several.isEmpty():
        return frame, 0
    is_copy = f"every > arrived OR {names.ARRIVAL} != first"
    copies = (
        arrived.join(several, [names.SEQUENCE, _CONTENT]).where(is_copy).select(names.ARRIVAL).localCheckpoint()
    )
    return _without(frame, copies)


def without_shown(frame: DataFrame, plan: MergePlan, shown: DataFrame) -> tuple[DataFrame, int]:
    """Leave out the events that say what a row shows, as far as it tells what was sent; return how many they are.

    `shown` are rows as facts, of which columns of kind 0 have their first values.
    """
    if plan.facts.least is None:
        return frame, 0
    left_out = kept(plan)
    events = with_absent(frame.where(f"{IS_EVENT} AND NOT {IS_LOAD}"), plan)
    stands = _facts(in_question(shown, plan), plan, "bigint(NULL)", left_out).drop(names.ARRIVAL).distinct()
    arrived = _facts(events, plan, names.ARRIVAL, left_out)
    copies = arrived.join(stands, [names.SEQUENCE, _CONTENT]).select(names.ARRIVAL).localCheckpoint()
    return _without(frame, copies)


def kept(plan: MergePlan) -> Sequence[str]:
    """Return the columns that keep the first value: a row does not tell what was sent of them since."""
    columns = columns_of(plan.dimension)
    return () if columns is None else columns.kept


def _without(frame: DataFrame, copies: DataFrame) -> tuple[DataFrame, int]:
    """Leave out the events of these arrivals; return how many they are."""
    count = copies.count()
    return frame.join(F.broadcast(copies) if count <= SMALL else copies, names.ARRIVAL, "left_anti"), count


def standing_facts(rows: DataFrame, plan: MergePlan) -> DataFrame:
    """Return rows that stand as the facts that may have made them: an `ordered` table has no other memory of them.

    An update has nothing of a column that the batch lacks.
    """
    told = rows.withColumn(names.OPERATION, F.expr("explode(array('insert', 'update', 'read'))"))
    is_sent = f"{names.OPERATION} != 'update'"
    lacking = {name: F.expr(f"CASE WHEN {is_sent} THEN {quoted(name)} END") for name in plan.evolution.absent}
    return with_absent(told.withColumns(lacking), plan)


def _facts(events: DataFrame, plan: MergePlan, arrival: str, left_out: Collection[str] = ()) -> DataFrame:
    content = _content(events, plan, left_out)
    return events.selectExpr(names.SEQUENCE, f"{content} AS {_CONTENT}", f"{arrival} AS {names.ARRIVAL}")


def _content(events: DataFrame, plan: MergePlan, left_out: Collection[str]) -> str:
    """Return what makes the content of a fact, its key included.

    Of a delete an `ordered` table remembers the key alone.
    """
    unset = f"array_sort({names.UNSET})" if names.UNSET in events.columns else "NULL"
    old = f"CASE WHEN {names.OLD} IS NULL THEN '' ELSE {as_json([names.OLD])} END"
    how = f"coalesce({unset}, CAST(array() AS array<string>)), {old if names.OLD in events.columns else text('')}"
    content = f"xxhash64({hashed(plan, left_out)}, {how})"
    if not isinstance(plan.dimension.lateness, Ordered):
        return content
    key = ", ".join(map(quoted, plan.dimension.key))
    return f"CASE WHEN {names.OPERATION} = 'delete' THEN xxhash64({key}) ELSE {content} END"


def in_question(known: DataFrame, plan: MergePlan) -> DataFrame:
    """Return the facts that those of a batch may be copies of."""
    bounds = [bound for bound in (plan.facts.least, plan.facts.greatest) if bound is not None]
    least, greatest = (sequence_literal(plan, bound.sequence) for bound in bounds)
    places = [f"{names.EPOCH} = {plan.epoch}", f"{names.SEQUENCE} BETWEEN {least} AND {greatest}"]
    if plan.mark is not None:
        places.append(f"{names.SEQUENCE} > {sequence_literal(plan, plan.mark.sequence)}")
    return known.where(" AND ".join(places))
