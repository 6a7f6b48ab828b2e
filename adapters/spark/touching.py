"""`lakeward.core.joined.touched` as frames: which joined rows changes of their sources may have changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.names import quoted
from lakeward.adapters.spark.sides import INSTANT, Frames, Side, all_there, equal_links, numbered, sides
from lakeward.core.joined.joining import Joining


def touched(joining: Joining, changes: Frames, before: Frames, tables: Frames) -> DataFrame | None:
    """Return the keys of the joined table that changes of its sources may have changed, in its own columns.

    Beside each is the greatest instant of these changes. `changes` have keys of sources with an instant, `before`
    the touched rows as they were; it is None where there are no changes.
    """
    of, joined = sides(joining), joining.joined
    found: dict[str, DataFrame] = {}
    for name in reversed(tuple(joined.sources)):
        side, parts = of[name], []
        if name in changes:
            parts.append(_changed(side, changes[name], before.get(name), tables[name]))
        for other in joined.beneath(name):
            if other in found:
                reached = found[other].withColumnRenamed(INSTANT, "reached")
                links = equal_links(side.columns(joined.sources[other].to), numbered(of[other].links))
                there = tables[name].join(reached, links, "inner")
                parts.append(_linked(there, side.links, "reached"))
        if parts:
            every = reduce(DataFrame.unionByName, parts).where(all_there(numbered(side.links)))
            found[name] = every.groupBy(*numbered(side.links)).agg(F.expr(f"max({INSTANT}) AS {INSTANT}"))
    keys = found.get(joined.driving)
    if keys is None:
        return None
    names = zip(numbered(of[joined.driving].links), joining.dimension.key, strict=True)
    return keys.selectExpr(*[f"{link} AS {quoted(name)}" for link, name in names], INSTANT)


def _changed(side: Side, changes: DataFrame, before: DataFrame | None, table: DataFrame) -> DataFrame:
    """Return by what the touched rows of a source are found, and were; where its key tells, nothing is read."""
    if not side.joining.needs_before(side.name):
        return _linked(changes, side.links, side.instant)
    reached = changes.withColumnRenamed(side.instant, "reached")
    rows = table if before is None else table.unionByName(before)
    return _linked(rows.join(reached, side.key), side.links, "reached")


def _linked(rows: DataFrame, links: Sequence[str], instant: str) -> DataFrame:
    pairs = zip(links, numbered(links), strict=True)
    return rows.selectExpr(*[f"{link} AS {number}" for link, number in pairs], f"{instant} AS {INSTANT}")
