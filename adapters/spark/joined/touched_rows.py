"""`lakeward.core.joined.touched` as frames: which joined rows changes of their sources may have changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.joined.sides import (
    INSTANT,
    UNDATED,
    Frames,
    Side,
    all_there,
    equal_links,
    numbered,
    sides,
)
from lakeward.adapters.spark.merge.fold.fold_items import CHAIN, EVENT_PLACE, KEY, OLD_KEY, Key, links_of
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.joined.joining import Joining

_PLACE, _IS_NEW = "_lakeward_place", "_lakeward_is_new"
_REACHED: Final = {INSTANT: "reached", UNDATED: "undated"}
"""What dates the changes of a key, and what that is called beside rows of another source."""

_TOGETHER: Final = (f"max({INSTANT}) AS {INSTANT}", f"array_distinct(flatten(collect_set({UNDATED}))) AS {UNDATED}")
"""What dates several changes together."""


def touched(joining: Joining, changes: Frames, before: Frames, tables: Frames) -> DataFrame | None:
    """Return the keys of the joined table that changes of its sources may have changed, in its own columns.

    Beside each is the greatest instant of these changes, and of which sources some have none. `changes` have keys
    of sources with an instant, `before` the touched rows as they were; it is None where there are no changes.
    """
    of, joined = sides(joining), joining.joined
    found: dict[str, DataFrame] = {}
    for name in reversed(tuple(joined.sources)):
        side, parts = of[name], []
        if name in changes:
            parts.append(_changed(side, changes[name], before.get(name), tables[name]))
        for other in joined.beneath(name):
            if other in found:
                reached = found[other].withColumnsRenamed(_REACHED)
                links = equal_links(side.columns(joined.sources[other].to), numbered(of[other].links))
                there = tables[name].join(reached, links, "inner")
                parts.append(_linked(there, side.links))
        if parts:
            every = reduce(DataFrame.unionByName, parts).where(all_there(numbered(side.links)))
            found[name] = every.groupBy(*numbered(side.links)).agg(*map(F.expr, _TOGETHER))
    keys = found.get(joined.driving)
    if keys is None:
        return None
    shown = zip(numbered(of[joined.driving].links), joining.dimension.key, strict=True)
    return keys.selectExpr(*[f"{link} AS {quoted(name)}" for link, name in shown], INSTANT, UNDATED)


def _changed(side: Side, changes: DataFrame, before: DataFrame | None, table: DataFrame) -> DataFrame:
    """Return by what the touched rows of a source are found, and were; where its key tells, nothing is read."""
    undated = f"CASE WHEN {side.instant} IS NULL THEN array({side.place}) ELSE CAST(array() AS array<int>) END"
    reached = changes.selectExpr(*side.key, f"{side.instant} AS reached", f"{undated} AS undated")
    if not side.joining.needs_before(side.name):
        return _linked(reached, side.links)
    rows = table if before is None else table.unionByName(before)
    return _linked(rows.join(reached, side.key), side.links)


def _linked(rows: DataFrame, links: Sequence[str]) -> DataFrame:
    pairs = zip(links, numbered(links), strict=True)
    dated = [f"{own} AS {name}" for name, own in _REACHED.items()]
    return rows.selectExpr(*[f"{link} AS {number}" for link, number in pairs], *dated)


def carried(table: Dimension, events: DataFrame, are_new: str) -> DataFrame:
    """Return the keys of a table whose state remembered events may have changed, with the times of these.

    The new ones are those that meet a condition. An event of a key counts on each that key changes behind it have
    joined to that one, up to the last event of such a key: what these took over may be another row, or none.
    """
    key = Key(table)
    named = key.named(events).selectExpr("*", f"{are_new} AS {_IS_NEW}").localCheckpoint()
    each = [f"{EVENT_PLACE} AS {_PLACE}", names.TIME, _IS_NEW]
    own = named.selectExpr(*map(quoted, table.key), KEY, *each)
    left = [f"{names.OLD}.{quoted(name)} AS {quoted(name)}" for name in table.key]
    moved = named.where(f"{OLD_KEY} IS NOT NULL").selectExpr(*left, f"{OLD_KEY} AS {KEY}", *each)
    chained = key.chained(links_of(named.sparkSession, [named]))(own.unionByName(moved))
    until = f"OVER (PARTITION BY {CHAIN} ORDER BY {_PLACE})"
    newest = f"max(CASE WHEN {_IS_NEW} THEN {names.TIME} END) {until} AS {names.TIME}"
    is_reached = f"bool_or({_IS_NEW}) {until} AS {_IS_NEW}"
    return chained.selectExpr(*map(quoted, table.key), newest, is_reached).where(_IS_NEW)
