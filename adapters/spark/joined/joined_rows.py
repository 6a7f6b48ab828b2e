"""`lakeward.core.joined.rows` as frames: rows of several tables joined, as they are now or as of each instant."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.spark.joined.sides import (
    AT,
    INSTANTS,
    IS_UNKNOWN,
    Frames,
    Side,
    all_there,
    equal_links,
    literal,
    numbered,
    renamed,
    sides,
)
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.joined.dates import BEGINNING
from lakeward.core.joined.declared import Way
from lakeward.core.joined.joining import Joining

_TOLD: Final = "_lakeward_told"
_ASKED: Final = "_lakeward_asked"
"""The instant as of which a group is asked for."""


def made(joining: Joining, tables: Frames, keys: DataFrame | None) -> DataFrame:
    """Return joined rows, of these keys or of all, in the columns of the joined table.

    Over time there is one for each instant (`AT`) at which one may become another; what is not there then has a
    row all the same, with its key alone, whose `IS_UNKNOWN` is NULL.
    """
    of = sides(joining)
    driving = of[joining.joined.driving]
    rows, by = _of_keys(joining, driving, tables, keys), driving.links
    moments = _moments(joining, of, tables, rows, keys) if joining.over_time else None
    if moments is not None:
        rows, by = renamed(moments, joining.dimension.key, by).join(rows, by).where(driving.covers()), [*by, AT]
    if driving.is_grouped:
        rows = driving.grouped(rows, by)
    for name in joining.joined.others:
        rows = _joined(rows, of[name], of[joining.joined.beside(name)], tables[name])
    shown = _shown(joining, of, rows)
    return _with_unknown(joining, shown, keys) if moments is None else _at_all(joining, shown, moments)


def _of_keys(joining: Joining, driving: Side, tables: Frames, keys: DataFrame | None) -> DataFrame:
    """Return the rows of the driving source that rows of these keys, or all, are made of."""
    rows = tables[driving.name].where(all_there(driving.links))
    if keys is None:
        return rows
    wanted = renamed(keys.select(*map(quoted, joining.dimension.key)), joining.dimension.key, driving.links)
    return rows.join(wanted, driving.links, "left_semi")


def _joined(rows: DataFrame, side: Side, beside: Side, table: DataFrame) -> DataFrame:
    """Join a source to rows that have its links in columns of the one beside it."""
    to, way = beside.columns(side.source.to), "left" if side.source.way is Way.LEFT else "inner"
    is_found = equal_links(side.links, to)
    if side.is_grouped and side.reads_versions:
        asked = renamed(rows.select(*to, AT), to, numbered(to)).where(all_there(numbered(to))).distinct()
        there = table.join(asked, equal_links(side.links, numbered(to))).where(side.covers())
        there = renamed(side.grouped(there, [*side.links, AT]), [AT], [_ASKED])
        return rows.join(there, [*is_found, F.col(AT) == F.col(_ASKED)], way).drop(_ASKED)
    if side.is_grouped:
        asked = renamed(rows.select(*to), to, numbered(to)).distinct()
        asked = table.join(asked, equal_links(side.links, numbered(to)), "left_semi")
        return rows.join(side.grouped(asked, side.links), is_found, way)
    if side.reads_versions:
        is_found.append(F.expr(side.covers(side.asked_at(beside))))
    return rows.join(table, is_found, way)


def _shown(joining: Joining, of: Mapping[str, Side], rows: DataFrame) -> DataFrame:
    selection = {own: sql for side in of.values() for own, sql in side.selection()}
    own = [f"CAST({selection[c.name]} AS {ddl(c.type)}) AS {quoted(c.name)}" for c in joining.dimension.schema]
    instants = ", ".join(side.instant for side in of.values())
    at = [AT] if joining.over_time else []
    return rows.selectExpr(*own, f"array({instants}) AS {INSTANTS}", f"false AS {IS_UNKNOWN}", *at)


def _with_unknown(joining: Joining, rows: DataFrame, keys: DataFrame | None) -> DataFrame:
    """Return joined rows with the one that stands for whatever has none, unless there is a row of its key."""
    unknown, key = _unknown(joining, rows.sparkSession), list(joining.dimension.key)
    if unknown is None:
        return rows
    alone = unknown if keys is None else unknown.join(keys.select(*map(quoted, key)), key, "left_semi")
    alone = alone.join(rows.select(*map(quoted, key)), key, "left_anti")
    return rows.unionByName(
        alone.selectExpr("*", f"CAST(NULL AS array<bigint>) AS {INSTANTS}", f"true AS {IS_UNKNOWN}")
    )


def _unknown(joining: Joining, spark: SparkSession) -> DataFrame | None:
    """Return the row that stands for whatever has none, or None where there is none."""
    if joining.unknown is None:
        return None
    _, cells = joining.unknown
    values = {c.name: (literal(cells[c.name], c.type), ddl(c.type)) for c in joining.dimension.schema}
    shown = [f"CAST({value} AS {type_}) AS {quoted(name)}" for name, (value, type_) in values.items()]
    return spark.range(1).selectExpr(*shown)


# Over time.


def _moments(
    joining: Joining, of: Mapping[str, Side], tables: Frames, rows: DataFrame, keys: DataFrame | None
) -> DataFrame:
    """Return the instants at which a joined row may become another: those of all versions that it ever found."""
    joined, key = joining.joined, list(joining.dimension.key)
    driving = of[joined.driving]
    root = [f"k{number}" for number in range(len(key))]
    named = [f"{link} AS {name}" for link, name in zip(driving.links, root, strict=True)]
    reached = {driving.name: rows.selectExpr("*", *named)}
    for name in joined.others:
        to = of[joined.beside(name)].columns(joined.sources[name].to)
        asked = reached[joined.beside(name)].select(*root, *to).where(all_there(to)).distinct()
        there = asked.join(tables[name], equal_links(of[name].links, to))
        reached[name] = there.select(*root, *tables[name].columns)
    parts = [
        reached[name].selectExpr(*root, f"explode(array({side.begins}, {side.ends})) AS {AT}")
        for name, side in of.items()
        if side.reads_versions
    ]
    found = renamed(reduce(DataFrame.unionByName, parts).where(f"{AT} IS NOT NULL"), root, key)
    unknown = _unknown(joining, rows.sparkSession)
    if unknown is not None:
        first = unknown.selectExpr(*map(quoted, key), f"{BEGINNING}L AS {AT}")
        if keys is not None:
            first = first.join(keys.select(*map(quoted, key)), key, "left_semi")
        found = found.unionByName(first)
    return found.distinct().localCheckpoint()


def _at_all(joining: Joining, rows: DataFrame, moments: DataFrame) -> DataFrame:
    """Return a row for each of these instants: the joined one, that which stands for whatever has none, or none."""
    key = list(joining.dimension.key)
    every = moments.join(rows, [*key, AT], "left")
    unknown = _unknown(joining, rows.sparkSession)
    if unknown is None:
        return every
    others = [name for name in joining.dimension.schema.names if name not in key]
    told = unknown.selectExpr(*map(quoted, key), f"struct({', '.join(map(quoted, others))}) AS {_TOLD}")
    told = told if others else unknown.selectExpr(*map(quoted, key), f"struct(1) AS {_TOLD}")
    stands = f"{IS_UNKNOWN} IS NULL AND {_TOLD} IS NOT NULL AND {AT} >= {BEGINNING}"
    cells = [
        f"CASE WHEN {stands} THEN {_TOLD}.{quoted(name)} ELSE {quoted(name)} END AS {quoted(name)}"
        for name in others
    ]
    kept = [*map(quoted, key), *cells, INSTANTS, AT]
    is_unknown = f"CASE WHEN {stands} THEN true ELSE {IS_UNKNOWN} END AS {IS_UNKNOWN}"
    return every.join(F.broadcast(told), key, "left").selectExpr(*kept, is_unknown)
