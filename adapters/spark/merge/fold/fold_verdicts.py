"""Run the fold of each chain and judge each event of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.version_rows import STORED, VERSIONS, VersionRows
from lakeward.adapters.spark.merge.fold.expression import BY_PLACE, Fold
from lakeward.adapters.spark.merge.fold.fold_items import CHAIN, EVENT_PLACE, KEY, OLD_KEY, PLACE_COLUMNS, place_of
from lakeward.adapters.spark.merge.resolution import stored_column
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import struct
from lakeward.adapters.spark.sql.names import column
from lakeward.adapters.spark.sql.types import ddl_of

ROWS, VERDICTS, CHANGES = "_lakeward_rows", "_lakeward_verdicts", "_lakeward_changes"
"""Columns of a chain after the batch: its rows by key, a verdict for each of its events, and the version changes of
each of its keys.
"""

_STORED_PLACE, _DEPARTURE = "_lakeward_stored_place", "_lakeward_departure"
NEWEST, FIRST, SINCE = "_lakeward_newest", "_lakeward_first_instant", "_lakeward_since"
"""Columns of a key: the place of its stored row; and of its remembered events the place of the newest that left no
row, the place of the newest of all, the first instant, and the last batch.
"""

IS_INCOMPLETE: Final = (
    "(array_contains(state.incomplete, e.id) "
    "AND NOT coalesce(try_element_at(state.rows, e.key).place > e.place, false) "
    "AND NOT exists(items, t -> coalesce(t.operation = 'truncate' AND t.place > e.place, false)))"
)
"""SQL: whether an event `e` found no row to complete, and nothing newer of its key replaced it."""


def judge_events(writer: Fold, gathered: DataFrame, is_truncated: str, history: VersionRows | None) -> DataFrame:
    """Fold the items of each chain, and return its rows and a verdict for each event of the batch.

    `is_truncated` is SQL for whether a truncate that was applied before is newer than the event.
    """
    is_own_key = "(t.key = e.key OR t.key <=> e.old)"
    is_overtaken = (
        f"({is_truncated} OR exists(key_states, t -> {is_own_key} AND greatest(t.place, t.newest) > e.place))"
    )
    verdict = (
        f"CASE WHEN {IS_INCOMPLETE} THEN 'incomplete' "
        f"WHEN exists(key_states, t -> {is_own_key} AND t.place = e.place) THEN 'duplicates' "
        f"WHEN array_contains(used, e.id) THEN 'applied' WHEN {is_overtaken} THEN 'stale' ELSE 'superseded' END"
    )
    notes = "".join(
        f", '{note}', array_contains(state.{note}, e.id)" for note in ("undecided", "existing", "missing", "nulled")
    )
    verdicts = (
        f"transform(array_sort(filter(items, e -> e.id IS NOT NULL), {BY_PLACE}), e -> named_struct("
        "'id', e.id, 'operation', e.operation, 'sequence', e.place.s, 'key', e.key, 'old', e.old, "
        f"'content', e.content, "
        f"'meets', exists(key_states, t -> {is_own_key} AND t.place.s = e.place.s), "
        f"'verdict', {verdict}{notes}))"
    )
    changes = []
    if history is not None:
        versions = f"coalesce(try_element_at(state.rows, t.key).versions, {history.versions.none})"
        changed = history.changed("t.key", "t.stored", "t.base", versions)
        changes.append(f"transform(key_states, t -> {changed}) AS {CHANGES}")
    return (
        gathered.selectExpr("*", f"{writer.over('items')} AS state")
        .selectExpr("*", f"{writer.used} AS used")
        .selectExpr(CHAIN, f"state.rows AS {ROWS}", f"{verdicts} AS {VERDICTS}", *changes)
    )


def newest_deletes(events: DataFrame, stored: DataFrame) -> DataFrame:
    """Return the newest remembered delete of each key that has no stored row."""
    newest = F.expr(f"max({EVENT_PLACE}) AS place")
    return _departures(events).groupBy(KEY, CHAIN).agg(newest).join(stored.select(KEY), KEY, "left_anti")


def _departures(events: DataFrame) -> DataFrame:
    """Return the events that remove the row of a key: deletes, and key changes under their old key."""
    deletes = events.where(f"{names.OPERATION} = 'delete'")
    key_changes = events.where(f"{OLD_KEY} IS NOT NULL")
    return deletes.unionByName(key_changes.withColumn(KEY, column(OLD_KEY)))


def newest_of(remembered: DataFrame) -> DataFrame:
    """Return for each key of remembered events its newest places, first instant and last batch.

    The newest places are that of all its events, and that of the events that left no row.
    """
    instant = names.INSTANT if names.INSTANT in remembered.columns else "bigint(NULL)"
    columns = (KEY, f"{EVENT_PLACE} AS place", f"{instant} AS instant", names.BATCH)
    all_events = remembered.selectExpr(*columns, "false AS is_gone")
    departures = _departures(remembered).selectExpr(*columns, "true AS is_gone")
    by_key = all_events.unionByName(departures).groupBy(KEY)
    return by_key.agg(
        F.expr(f"max(place) AS {NEWEST}"),
        F.expr(f"max(CASE WHEN is_gone THEN place END) AS {_DEPARTURE}"),
        F.expr(f"min(instant) AS {FIRST}"),
        F.expr(f"max({names.BATCH}) AS {SINCE}"),
    )


def chain_states(
    keys: DataFrame,
    stored: DataFrame,
    newest: DataFrame | None,
    place_type: str,
    history: VersionRows | None,
    fold_starts: Sequence[DataFrame],
) -> DataFrame:
    """Return for each chain the state of its keys: the place of the stored row, and the newest remembered place.

    For a history it also has the stored versions, and the versions from which the fold starts (`fold_starts`).
    """
    place = place_of([stored_column(name) for name in PLACE_COLUMNS])
    versions_column = () if history is None else (STORED,)
    states = keys.join(stored.selectExpr(KEY, f"{place} AS {_STORED_PLACE}", *versions_column), KEY, "left")
    nothing = f"CAST(NULL AS {place_type})"
    if newest is None:
        states = states.selectExpr("*", f"{nothing} AS {_DEPARTURE}", f"{nothing} AS {NEWEST}")
    else:
        states = states.join(newest.select(KEY, NEWEST, _DEPARTURE), KEY, "left")
    key_states = {"key": KEY, "place": f"coalesce({_STORED_PLACE}, {_DEPARTURE})", "newest": NEWEST}
    if history is not None:
        none, type_ = history.versions.none, ddl_of(stored.schema[STORED].dataType)
        key_states["stored"] = f"coalesce({STORED}, CAST(array() AS {type_}))"
        key_states["base"] = f"coalesce({VERSIONS}, {none})"
        versions = reduce(DataFrame.unionByName, [frame.select(KEY, VERSIONS) for frame in fold_starts])
        states = states.join(versions, KEY, "left")
    structs = states.selectExpr(CHAIN, f"{struct(key_states)} AS key_states")
    return structs.groupBy(CHAIN).agg(F.expr("collect_list(key_states) AS key_states"))
