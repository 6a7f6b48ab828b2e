"""What a fold leaves of each chain, and what became of each event of the batch in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.version_rows import STORED, VERSIONS, VersionRows
from lakeward.adapters.spark.merge.fold.expression import BY_PLACE, Fold
from lakeward.adapters.spark.merge.fold.fold_items import CHAIN, EVENT_PLACE, KEY, OLD_KEY, PLACE_COLUMNS, place_of
from lakeward.adapters.spark.merge.resolution import standing
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import struct
from lakeward.adapters.spark.sql.names import column
from lakeward.adapters.spark.sql.types import ddl_of

ROWS, VERDICTS, CHANGES = "_lakeward_rows", "_lakeward_verdicts", "_lakeward_changes"
"""The columns of a chain after the batch: its rows by key, a verdict for each of its events, and what becomes of
the versions of each of its keys."""

_STANDS, _LEFT = "_lakeward_stands", "_lakeward_left"
NEWEST, FIRST, SINCE = "_lakeward_newest", "_lakeward_first_instant", "_lakeward_since"
"""Of a key: where its row stands, and of the events that are remembered where the newest lies that left none, the
newest of all, from when the first counts, and the batch with which the last of them came."""

IS_INCOMPLETE: Final = (
    "(array_contains(state.incomplete, e.id) "
    "AND NOT coalesce(try_element_at(state.rows, e.key).place > e.place, false) "
    "AND NOT exists(items, t -> coalesce(t.operation = 'truncate' AND t.place > e.place, false)))"
)
"""Whether an event `e` found no row to complete, and nothing newer of its key made up for that."""


def judged(writer: Fold, gathered: DataFrame, is_truncated: str, history: VersionRows | None) -> DataFrame:
    """Fold the items of each chain, and judge each event of the batch.

    `is_truncated` says of an event that a truncate was there before it that is newer.
    """
    is_mine = "(t.key = e.key OR t.key <=> e.old)"
    overtaken = f"({is_truncated} OR exists(stands, t -> {is_mine} AND greatest(t.place, t.newest) > e.place))"
    verdict = (
        f"CASE WHEN {IS_INCOMPLETE} THEN 'incomplete' "
        f"WHEN exists(stands, t -> {is_mine} AND t.place = e.place) THEN 'duplicates' "
        f"WHEN array_contains(used, e.id) THEN 'applied' WHEN {overtaken} THEN 'stale' ELSE 'superseded' END"
    )
    notes = "".join(
        f", '{note}', array_contains(state.{note}, e.id)" for note in ("undecided", "existing", "missing", "nulled")
    )
    judged = (
        f"transform(array_sort(filter(items, e -> e.id IS NOT NULL), {BY_PLACE}), e -> named_struct("
        "'id', e.id, 'operation', e.operation, 'sequence', e.place.s, 'key', e.key, 'old', e.old, "
        f"'content', e.content, "
        f"'meets', exists(stands, t -> {is_mine} AND t.place.s = e.place.s), "
        f"'verdict', {verdict}{notes}))"
    )
    changes = []
    if history is not None:
        versions = f"coalesce(try_element_at(state.rows, t.key).versions, {history.versions.none})"
        changed = history.changed("t.key", "t.stored", "t.base", versions)
        changes.append(f"transform(stands, t -> {changed}) AS {CHANGES}")
    return (
        gathered.selectExpr("*", f"{writer.over('items')} AS state")
        .selectExpr("*", f"{writer.used} AS used")
        .selectExpr(CHAIN, f"state.rows AS {ROWS}", f"{judged} AS {VERDICTS}", *changes)
    )


def newest_deletes(events: DataFrame, stood: DataFrame) -> DataFrame:
    """Return the newest remembered delete of each key of which no row stands."""
    newest = F.expr(f"max({EVENT_PLACE}) AS place")
    return _departures(events).groupBy(KEY, CHAIN).agg(newest).join(stood.select(KEY), KEY, "left_anti")


def _departures(events: DataFrame) -> DataFrame:
    """Return the events that leave no row of a key: deletes, and key changes by the key that they left."""
    deletes = events.where(f"{names.OPERATION} = 'delete'")
    moves = events.where(f"{OLD_KEY} IS NOT NULL")
    return deletes.unionByName(moves.withColumn(KEY, column(OLD_KEY)))


def newest_of(known: DataFrame) -> DataFrame:
    """Return of each key of remembered events newest place, that of who left none, first instant, last batch."""
    instant = names.INSTANT if names.INSTANT in known.columns else "bigint(NULL)"
    each = (KEY, f"{EVENT_PLACE} AS place", f"{instant} AS instant", names.BATCH)
    entered = known.selectExpr(*each, "false AS is_gone")
    left = _departures(known).selectExpr(*each, "true AS is_gone")
    found = entered.unionByName(left).groupBy(KEY)
    return found.agg(
        F.expr(f"max(place) AS {NEWEST}"),
        F.expr(f"max(CASE WHEN is_gone THEN place END) AS {_LEFT}"),
        F.expr(f"min(instant) AS {FIRST}"),
        F.expr(f"max({names.BATCH}) AS {SINCE}"),
    )


def standing_of(
    keys: DataFrame,
    stood: DataFrame,
    newest: DataFrame | None,
    place_type: str,
    history: VersionRows | None,
    begun: Sequence[DataFrame],
) -> DataFrame:
    """Return for each chain, by key, where what stood of it stands, and the newest event that is remembered.

    Of a history it has the versions that are stored as well, and those that it is folded from, which are `begun`.
    """
    place = place_of([standing(name) for name in PLACE_COLUMNS])
    also = () if history is None else (STORED,)
    found = keys.join(stood.selectExpr(KEY, f"{place} AS {_STANDS}", *also), KEY, "left")
    nothing = f"CAST(NULL AS {place_type})"
    if newest is None:
        found = found.selectExpr("*", f"{nothing} AS {_LEFT}", f"{nothing} AS {NEWEST}")
    else:
        found = found.join(newest.select(KEY, NEWEST, _LEFT), KEY, "left")
    stands = {"key": KEY, "place": f"coalesce({_STANDS}, {_LEFT})", "newest": NEWEST}
    if history is not None:
        none, type_ = history.versions.none, ddl_of(stood.schema[STORED].dataType)
        stands["stored"] = f"coalesce({STORED}, CAST(array() AS {type_}))"
        stands["base"] = f"coalesce({VERSIONS}, {none})"
        versions = reduce(DataFrame.unionByName, [frame.select(KEY, VERSIONS) for frame in begun])
        found = found.join(versions, KEY, "left")
    listed = found.selectExpr(CHAIN, f"{struct(stands)} AS stands")
    return listed.groupBy(CHAIN).agg(F.expr("collect_list(stands) AS stands"))
