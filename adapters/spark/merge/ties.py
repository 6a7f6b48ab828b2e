"""Find events that tie with a stored or remembered event: `lakeward.core.merge.ties` for frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.event_frame import IS_EVENT, has_order
from lakeward.adapters.spark.merge.duplicates import first_value_columns, within_batch_range
from lakeward.adapters.spark.merge.fold.fold_items import KEY, OLD_KEY, Key, with_absent
from lakeward.adapters.spark.merge.resolution import SMALL, hashed
from lakeward.adapters.spark.sql import names
from lakeward.core.plan import MergePlan

OTHER_OBJECT, OTHER_ROW = "_lakeward_other_object", "_lakeward_other_row"
"""Columns of a tied event: object and row of the event that it ties with."""

_CONTENT, _KNOWN, _IS_ROW, _FIRST = (f"_lakeward_{name}" for name in ("content", "known", "is_row", "first"))
_LEAST, _MOST, _ROW_CONTENTS, _SHOWN_CONTENT = (
    f"_lakeward_{name}" for name in ("least", "most", "row_contents", "shown_content")
)
_PLACE: Final = (names.SEQUENCE, KEY, OLD_KEY)
"""Columns that are equal for events that tie."""

_DIFFERS: Final = (
    f"({_LEAST} != {_CONTENT} OR {_MOST} != {_CONTENT} "
    f"OR (size({_ROW_CONTENTS}) > 0 AND NOT array_contains({_ROW_CONTENTS}, {_SHOWN_CONTENT})) "
    f"OR ({_LEAST} IS NULL AND size({_ROW_CONTENTS}) = 0 AND {_FIRST}.content != {_CONTENT}))"
)
"""SQL: whether an event differs from a known event, from what a row shows, or else from the first event."""


def find_ties(
    frame: DataFrame, plan: MergePlan, remembered: Sequence[DataFrame], row_facts: DataFrame | None
) -> DataFrame | None:
    """Return the events that tie with an earlier one, each with the place of that one; None if there are none.

    `remembered` are remembered events. `row_facts` are stored rows as the facts that may have written them
    (`stored_facts`). Events of objects that were delivered before are not compared again.
    """
    if plan.facts.least is None:
        return None
    is_new = f"{names.OBJECT} NOT IN ({', '.join(map(str, sorted(plan.copies)))})" if plan.copies else "true"
    arrived = _facts(with_absent(frame.where(f"{IS_EVENT} AND {is_new}"), plan), plan, is_known=False)
    facts = [arrived, *[_facts(within_batch_range(events, plan), plan, is_known=True) for events in remembered]]
    if row_facts is not None:
        facts.append(_facts(within_batch_range(row_facts, plan), plan, is_known=True, is_row=True))
    places = _differing_places(reduce(DataFrame.unionByName, facts)).localCheckpoint()
    if places.isEmpty():
        return None
    joinable = F.broadcast(places) if plan.facts.read <= SMALL else places
    other = [f"{_FIRST}.object AS {OTHER_OBJECT}", f"{_FIRST}.row AS {OTHER_ROW}"]
    own = (names.SEQUENCE, names.OBJECT, names.ROW, names.ARRIVAL, names.OPERATION)
    ties = arrived.join(joinable, [*_PLACE]).where(_DIFFERS).selectExpr(*own, *other).localCheckpoint()
    return None if ties.isEmpty() else ties


def _differing_places(facts: DataFrame) -> DataFrame:
    """Return the places where an event arrived and contents differ, with the known contents and the first event."""
    place = f"struct(NOT {_KNOWN}, {names.OBJECT}, {names.ROW})"
    event, row = f"{_KNOWN} AND NOT {_IS_ROW}", f"CASE WHEN {_IS_ROW} THEN {_SHOWN_CONTENT} END"
    first = f"struct({_CONTENT} AS content, {names.OBJECT} AS object, {names.ROW} AS row)"
    return (
        facts.groupBy(*_PLACE)
        .agg(
            F.expr(f"min(CASE WHEN {event} THEN {_CONTENT} END) AS {_LEAST}"),
            F.expr(f"max(CASE WHEN {event} THEN {_CONTENT} END) AS {_MOST}"),
            F.expr(f"collect_set({row}) AS {_ROW_CONTENTS}"),
            F.expr(f"min_by({first}, {place}) AS {_FIRST}"),
            F.expr(f"min({_CONTENT}) != max({_CONTENT}) AND NOT bool_and({_KNOWN}) AS differ"),
        )
        .where("differ")
        .drop("differ")
    )


def _facts(events: DataFrame, plan: MergePlan, *, is_known: bool, is_row: bool = False) -> DataFrame:
    """Return the columns that decide a tie, and the hash of what a row shows. Of a delete only its key counts."""
    named = Key(plan.with_all_columns).with_key_texts(events.where(has_order()))
    unset = f"coalesce(array_sort({names.UNSET}), CAST(array() AS array<string>))"
    content, shown_content = (
        f"CASE WHEN {names.OPERATION} = 'delete' THEN 0L ELSE xxhash64({hashed(plan, left_out)}, {unset}) END"
        for left_out in ((), first_value_columns(plan))
    )
    arrival = "bigint(NULL)" if is_known else names.ARRIVAL
    return named.selectExpr(
        *(names.SEQUENCE, KEY, f"coalesce({OLD_KEY}, '') AS {OLD_KEY}"),
        *(names.OBJECT, names.ROW, names.OPERATION, f"{arrival} AS {names.ARRIVAL}"),
        *(
            f"{content} AS {_CONTENT}",
            f"{shown_content} AS {_SHOWN_CONTENT}",
            f"{is_known} AS {_KNOWN}",
            f"{is_row} AS {_IS_ROW}",
        ),
    )
