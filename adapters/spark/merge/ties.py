"""Events that tie with one that stands: `lakeward.core.merge.ties` for frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.event_frame import IS_EVENT, has_order
from lakeward.adapters.spark.merge.duplicates import in_question, kept
from lakeward.adapters.spark.merge.fold.fold_items import KEY, OLD_KEY, Key, with_absent
from lakeward.adapters.spark.merge.resolution import SMALL, hashed
from lakeward.adapters.spark.sql import names
from lakeward.core.plan import MergePlan

OTHER_OBJECT, OTHER_ROW = "_lakeward_other_object", "_lakeward_other_row"
"""Where the event lies that stands, of one that ties with it."""

_CONTENT, _KNOWN, _IS_ROW, _FIRST = (f"_lakeward_{name}" for name in ("content", "known", "is_row", "first"))
_LEAST, _MOST, _SHOWN, _TOLD = (f"_lakeward_{name}" for name in ("least", "most", "shown", "told"))
_PLACE: Final = (names.SEQUENCE, KEY, OLD_KEY)
"""What events must have in common to tie."""

_DIFFERS: Final = (
    f"({_LEAST} != {_CONTENT} OR {_MOST} != {_CONTENT} "
    f"OR (size({_SHOWN}) > 0 AND NOT array_contains({_SHOWN}, {_TOLD})) "
    f"OR ({_LEAST} IS NULL AND size({_SHOWN}) = 0 AND {_FIRST}.content != {_CONTENT}))"
)
"""Whether an event does not say what one that is known says, or a row shows; else the first that came says."""


def tied(
    frame: DataFrame, plan: MergePlan, known: Sequence[DataFrame], shown: DataFrame | None
) -> DataFrame | None:
    """Return the events that tie with one that stands, each with the place of that; None where there is none.

    `known` are events that are remembered, `shown` what rows that stand may have been made by. Objects that were
    delivered before have met them.
    """
    if plan.facts.least is None:
        return None
    is_new = f"{names.OBJECT} NOT IN ({', '.join(map(str, sorted(plan.copies)))})" if plan.copies else "true"
    came = _facts(with_absent(frame.where(f"{IS_EVENT} AND {is_new}"), plan), plan, is_known=False)
    parts = [came, *[_facts(in_question(facts, plan), plan, is_known=True) for facts in known]]
    if shown is not None:
        parts.append(_facts(in_question(shown, plan), plan, is_known=True, is_row=True))
    places = _places(reduce(DataFrame.unionByName, parts)).localCheckpoint()
    if places.isEmpty():
        return None
    sent = F.broadcast(places) if plan.facts.read <= SMALL else places
    other = [f"{_FIRST}.object AS {OTHER_OBJECT}", f"{_FIRST}.row AS {OTHER_ROW}"]
    mine = (names.SEQUENCE, names.OBJECT, names.ROW, names.ARRIVAL, names.OPERATION)
    found = came.join(sent, [*_PLACE]).where(_DIFFERS).selectExpr(*mine, *other).localCheckpoint()
    return None if found.isEmpty() else found


def _places(facts: DataFrame) -> DataFrame:
    """Return the places at which something came and not all say the same, with what stands there."""
    place = f"struct(NOT {_KNOWN}, {names.OBJECT}, {names.ROW})"
    event, row = f"{_KNOWN} AND NOT {_IS_ROW}", f"CASE WHEN {_IS_ROW} THEN {_TOLD} END"
    first = f"struct({_CONTENT} AS content, {names.OBJECT} AS object, {names.ROW} AS row)"
    return (
        facts.groupBy(*_PLACE)
        .agg(
            F.expr(f"min(CASE WHEN {event} THEN {_CONTENT} END) AS {_LEAST}"),
            F.expr(f"max(CASE WHEN {event} THEN {_CONTENT} END) AS {_MOST}"),
            F.expr(f"collect_set({row}) AS {_SHOWN}"),
            F.expr(f"min_by({first}, {place}) AS {_FIRST}"),
            F.expr(f"min({_CONTENT}) != max({_CONTENT}) AND NOT bool_and({_KNOWN}) AS differ"),
        )
        .where("differ")
        .drop("differ")
    )


def _facts(events: DataFrame, plan: MergePlan, *, is_known: bool, is_row: bool = False) -> DataFrame:
    """Return what ties are told by, and what of it a row tells; of a delete its key is all that counts."""
    named = Key(plan.whole).named(events.where(has_order()))
    unset = f"coalesce(array_sort({names.UNSET}), CAST(array() AS array<string>))"
    content, told = (
        f"CASE WHEN {names.OPERATION} = 'delete' THEN 0L ELSE xxhash64({hashed(plan, left_out)}, {unset}) END"
        for left_out in ((), kept(plan))
    )
    arrival = "bigint(NULL)" if is_known else names.ARRIVAL
    return named.selectExpr(
        *(names.SEQUENCE, KEY, f"coalesce({OLD_KEY}, '') AS {OLD_KEY}"),
        *(names.OBJECT, names.ROW, names.OPERATION, f"{arrival} AS {names.ARRIVAL}"),
        *(f"{content} AS {_CONTENT}", f"{told} AS {_TOLD}", f"{is_known} AS {_KNOWN}", f"{is_row} AS {_IS_ROW}"),
    )
