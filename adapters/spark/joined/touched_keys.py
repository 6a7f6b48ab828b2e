"""Find the joined rows that changes of their sources may change, and when.

A change touches the rows that are found before it and those found after it: a row that is joined by a column other
than its key leaves one joined row and enters another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.joined.source_frames import (
    INSTANT,
    Frames,
    JoinedSource,
    are_not_null,
    equal_links,
    numbered,
    sources_of,
)
from lakeward.adapters.spark.merge.fold.fold_items import CHAIN, EVENT_PLACE, KEY, OLD_KEY, Key, links_of
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.joined.join_definition import JoinDefinition

_PLACE, _IS_NEW = "_lakeward_place", "_lakeward_is_new"
_CHANGED_AT = "_lakeward_changed_at"
"""Column: the instant of a change, in rows of a source that has an instant of its own."""


def find_touched_keys(joining: JoinDefinition, changes: Frames, before: Frames, tables: Frames) -> DataFrame:
    """Return the keys of joined rows that source changes may have changed, in columns of the joined table.

    Each key has the greatest instant of these changes. `changes` has the changed keys of each source with an
    instant, `before` the changed rows before. A source comes after those that are joined to it, so that their
    changes reach its rows. At least one source has changes.
    """
    sources, joined = sources_of(joining), joining.joined
    touched: dict[str, DataFrame] = {}
    for name in reversed(tuple(joined.sources)):
        source, parts = sources[name], []
        if name in changes:
            parts.append(_changed_links(source, changes[name], before.get(name), tables[name]))
        for child in joined.children(name):
            if child in touched:
                dates = touched[child].withColumnRenamed(INSTANT, _CHANGED_AT)
                links = equal_links(source.columns(joined.sources[child].to), numbered(sources[child].links))
                linked = tables[name].join(dates, links, "inner")
                parts.append(_dated_links(linked, source.links))
        if parts:
            links_found = reduce(DataFrame.unionByName, parts).where(are_not_null(numbered(source.links)))
            touched[name] = links_found.groupBy(*numbered(source.links)).agg(F.max(INSTANT).alias(INSTANT))
    pairs = zip(numbered(sources[joined.driving].links), joining.dimension.key, strict=True)
    own = [f"{link} AS {quoted(name)}" for link, name in pairs]
    return touched[joined.driving].selectExpr(*own, INSTANT).localCheckpoint()


def _changed_links(
    source: JoinedSource, changes: DataFrame, before: DataFrame | None, table: DataFrame
) -> DataFrame:
    """Return the links of the changed rows of a source, now and before.

    Rows are read only if the key does not have them.
    """
    dates = changes.withColumnRenamed(source.instant, _CHANGED_AT)
    if not source.joining.needs_earlier_rows(source.name):
        return _dated_links(dates, source.links)
    rows = table if before is None else table.unionByName(before)
    return _dated_links(rows.join(dates, source.key), source.links)


def _dated_links(rows: DataFrame, links: Sequence[str]) -> DataFrame:
    pairs = zip(links, numbered(links), strict=True)
    return rows.selectExpr(*[f"{link} AS {number}" for link, number in pairs], f"{_CHANGED_AT} AS {INSTANT}")


def find_changed_keys(table: Dimension, events: DataFrame, are_new: str) -> DataFrame:
    """Return the keys of a table whose state remembered events may have changed, with the times of these events.

    `are_new` is the SQL condition for new events. An event of a key also counts for each key that later key changes
    join to it, up to the last event of such a key: the row that was carried over may have changed, or be gone.
    """
    key = Key(table)
    named = key.with_key_texts(events).selectExpr("*", f"{are_new} AS {_IS_NEW}").localCheckpoint()
    each = [f"{EVENT_PLACE} AS {_PLACE}", names.TIME, _IS_NEW]
    own = named.selectExpr(*map(quoted, table.key), KEY, *each)
    old_key = [f"{names.OLD}.{quoted(name)} AS {quoted(name)}" for name in table.key]
    moved = named.where(f"{OLD_KEY} IS NOT NULL").selectExpr(*old_key, f"{OLD_KEY} AS {KEY}", *each)
    chained = key.chained(links_of(named.sparkSession, [named]))(own.unionByName(moved))
    until = f"OVER (PARTITION BY {CHAIN} ORDER BY {_PLACE})"
    newest = f"max(CASE WHEN {_IS_NEW} THEN {names.TIME} END) {until} AS {names.TIME}"
    is_reached = f"bool_or({_IS_NEW}) {until} AS {_IS_NEW}"
    return chained.selectExpr(*map(quoted, table.key), newest, is_reached).where(_IS_NEW)
