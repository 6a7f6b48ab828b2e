"""Split a batch into events that pass and events that wait behind a hold of a key, for folded batches."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.merge.fold.fold_items import (
    EVENT_PLACE,
    KEY,
    OLD_KEY,
    PLACE_COLUMNS,
    Key,
    place_literal,
)
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import place_type
from lakeward.core.plan import MergePlan

_PLACE: Final = "_lakeward_place"
_BARRIER, _OLD_BARRIER = "_lakeward_barrier", "_lakeward_old_barrier"
_ADDED: Final = (KEY, OLD_KEY, _PLACE)


def split_chains(plan: MergePlan, events: DataFrame, barriers: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Split events into those that pass and those that wait behind a barrier of one of their keys.

    `barriers` have a key and a position each. A key change that waits is itself a barrier for both of its keys,
    unless a truncate lies above it.
    """
    key = Key(plan.with_all_columns)
    events_with_keys = key.with_key_texts(events).selectExpr("*", f"{EVENT_PLACE} AS {_PLACE}").localCheckpoint()
    key_changes = events_with_keys.where(f"{OLD_KEY} IS NOT NULL{_above(plan)}").selectExpr(KEY, OLD_KEY, _PLACE)
    barriers_by_key = _lowest_places(barriers.selectExpr(f"{key.text()} AS {KEY}", f"{EVENT_PLACE} AS {_PLACE}"))
    count = -1
    while (waiting := _behind_barriers(key_changes, barriers_by_key)).count() > count:
        waiting = waiting.localCheckpoint()
        count = waiting.count()
        both = waiting.select(KEY, _PLACE).unionByName(waiting.selectExpr(f"{OLD_KEY} AS {KEY}", _PLACE))
        barriers_by_key = _lowest_places(barriers_by_key.unionByName(both))
    all_waiting = _behind_barriers(events_with_keys, barriers_by_key).localCheckpoint()
    # The columns get other names: Spark 3.5 takes both sides for the same columns and fails when the result is
    # joined again.
    places = {name: f"_lakeward_waits_{name.removeprefix(names.PREFIX)}" for name in PLACE_COLUMNS}
    waiting_places = all_waiting.selectExpr(*[f"{name} AS {other}" for name, other in places.items()])
    is_waiting = [F.col(name) == F.col(other) for name, other in places.items()]
    passing = events_with_keys.join(waiting_places, is_waiting, "left_anti")
    return passing.drop(*_ADDED), all_waiting.drop(*_ADDED)


def _above(plan: MergePlan) -> str:
    """Return a further SQL condition: no truncate lies above the event."""
    if not plan.truncates.all:
        return ""
    return f" AND {_PLACE} > {place_literal(plan.truncates.all[-1], place_type(plan.dimension.sequences))}"


def _lowest_places(barriers_by_key: DataFrame) -> DataFrame:
    return barriers_by_key.groupBy(KEY).agg(F.expr(f"min({_PLACE}) AS {_PLACE}")).localCheckpoint()


def _behind_barriers(events: DataFrame, barriers_by_key: DataFrame) -> DataFrame:
    """Return the events with a key that is held from an earlier place."""
    by_key = F.broadcast(barriers_by_key.selectExpr(KEY, f"{_PLACE} AS {_BARRIER}"))
    by_old = F.broadcast(barriers_by_key.selectExpr(f"{KEY} AS {OLD_KEY}", f"{_PLACE} AS {_OLD_BARRIER}"))
    with_barriers = events.join(by_key, KEY, "left").join(by_old, OLD_KEY, "left")
    return with_barriers.where(f"{_PLACE} > {_BARRIER} OR {_PLACE} > {_OLD_BARRIER}").drop(_BARRIER, _OLD_BARRIER)
