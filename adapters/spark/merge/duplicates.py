"""Find events that another object delivered before, for sources whose sequences are unique.

A fact is (epoch, sequence, key, operation) with its content. Of equal facts in one batch, the first to arrive is
applied. A fact that is already in the change log is not applied again.
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


def without_facts(frame: DataFrame, plan: MergePlan, earlier: list[DataFrame]) -> tuple[DataFrame, int]:
    """Return the frame without repeated events, and how many events were left out.

    An event is left out if its fact is in `earlier`, or came earlier in the batch. Facts at or below the low
    watermark are not compared: the change log may have forgotten them.
    """
    if plan.facts.least is None:
        return frame, 0
    events = with_absent(frame.where(f"{IS_EVENT} AND NOT {IS_LOAD}"), plan)  # as the change log stores them
    arrived = _facts(events, plan, names.ARRIVAL)
    known_facts = [_facts(within_batch_range(facts, plan), plan, "bigint(NULL)") for facts in earlier]
    repeated = (
        reduce(DataFrame.unionByName, [arrived, *known_facts])
        .groupBy(names.SEQUENCE, _CONTENT)
        .agg(
            F.expr(f"min({names.ARRIVAL}) AS first"),
            F.expr(f"count({names.ARRIVAL}) AS arrived"),
            F.expr("count(*) AS total"),
        )
        .where("arrived > 0 AND total > 1")
        .localCheckpoint()
    )
    if repeated.isEmpty():
        return frame, 0
    is_copy = f"total > arrived OR {names.ARRIVAL} != first"
    copies = (
        arrived.join(repeated, [names.SEQUENCE, _CONTENT]).where(is_copy).select(names.ARRIVAL).localCheckpoint()
    )
    return _without(frame, copies)


def without_stored_facts(frame: DataFrame, plan: MergePlan, stored_rows: DataFrame) -> tuple[DataFrame, int]:
    """Return the frame without events that a stored row already shows, and how many events were left out.

    `stored_rows` are stored rows as facts (`stored_facts`). Columns that keep their first value are not compared.
    """
    if plan.facts.least is None:
        return frame, 0
    skipped = first_value_columns(plan)
    events = with_absent(frame.where(f"{IS_EVENT} AND NOT {IS_LOAD}"), plan)
    stored = (
        _facts(within_batch_range(stored_rows, plan), plan, "bigint(NULL)", skipped).drop(names.ARRIVAL).distinct()
    )
    arrived = _facts(events, plan, names.ARRIVAL, skipped)
    copies = arrived.join(stored, [names.SEQUENCE, _CONTENT]).select(names.ARRIVAL).localCheckpoint()
    return _without(frame, copies)


def first_value_columns(plan: MergePlan) -> Sequence[str]:
    """Return the columns that keep their first value (kind 0). A stored row does not show their later values."""
    columns = columns_of(plan.dimension)
    return () if columns is None else columns.first_values


def _without(frame: DataFrame, copies: DataFrame) -> tuple[DataFrame, int]:
    """Return the frame without the events of these arrivals, and how many arrivals there are."""
    count = copies.count()
    return frame.join(F.broadcast(copies) if count <= SMALL else copies, names.ARRIVAL, "left_anti"), count


def stored_facts(rows: DataFrame, plan: MergePlan) -> DataFrame:
    """Return stored rows as the facts that may have written them, one for each operation that writes a row.

    An `ordered` table keeps no other memory of such events. In an update, columns that the batch lacks are NULL.
    """
    facts = rows.withColumn(names.OPERATION, F.expr("explode(array('insert', 'update', 'read'))"))
    is_sent = f"{names.OPERATION} != 'update'"
    lacking = {name: F.expr(f"CASE WHEN {is_sent} THEN {quoted(name)} END") for name in plan.evolution.absent}
    return with_absent(facts.withColumns(lacking), plan)


def _facts(events: DataFrame, plan: MergePlan, arrival: str, left_out: Collection[str] = ()) -> DataFrame:
    """Return sequence and content of events. `arrival` is SQL for the arrival of each, NULL for a known event."""
    content = _content(events, plan, left_out)
    return events.selectExpr(names.SEQUENCE, f"{content} AS {_CONTENT}", f"{arrival} AS {names.ARRIVAL}")


def _content(events: DataFrame, plan: MergePlan, left_out: Collection[str]) -> str:
    """Return SQL for the content of a fact, with its key.

    Of a delete, the change log of an `ordered` table has the key alone, so only the key counts.
    """
    unset = f"array_sort({names.UNSET})" if names.UNSET in events.columns else "NULL"
    old = f"CASE WHEN {names.OLD} IS NULL THEN '' ELSE {as_json([names.OLD])} END"
    unset = f"coalesce({unset}, CAST(array() AS array<string>))"
    content = f"xxhash64({hashed(plan, left_out)}, {unset}, {old if names.OLD in events.columns else text('')})"
    if not isinstance(plan.dimension.lateness, Ordered):
        return content
    key = ", ".join(map(quoted, plan.dimension.key))
    return f"CASE WHEN {names.OPERATION} = 'delete' THEN xxhash64({key}) ELSE {content} END"


def within_batch_range(facts: DataFrame, plan: MergePlan) -> DataFrame:
    """Return the known facts between the least and greatest position of the batch, above the low watermark."""
    bounds = [bound for bound in (plan.facts.least, plan.facts.greatest) if bound is not None]
    least, greatest = (sequence_literal(plan, bound.sequence) for bound in bounds)
    places = [f"{names.EPOCH} = {plan.epoch}", f"{names.SEQUENCE} BETWEEN {least} AND {greatest}"]
    if plan.low_watermark is not None:
        places.append(f"{names.SEQUENCE} > {sequence_literal(plan, plan.low_watermark.sequence)}")
    return facts.where(" AND ".join(places))
