"""Join the rows of several tables, as of now or of each instant: `lakeward.core.joined.rows` for frames."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.spark.joined.source_frames import (
    AT,
    INSTANTS,
    IS_UNKNOWN,
    Frames,
    JoinedSource,
    are_not_null,
    equal_links,
    literal,
    numbered,
    renamed,
    sources_of,
)
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.joined.dates import BEGINNING
from lakeward.core.joined.declaration import JoinType
from lakeward.core.joined.join_definition import JoinDefinition

_UNKNOWN_CELLS: Final = "_lakeward_told"
_ASKED: Final = "_lakeward_asked"
"""Column: the instant as of which a group is read."""


def join_frames(joining: JoinDefinition, tables: Frames, keys: DataFrame | None) -> DataFrame:
    """Return the joined rows, of these keys or of all, in the columns of the joined table.

    Over time there is one row for each instant (`AT`) at which the joined row may change. At instants without a
    joined row there is a row with the key alone, whose `IS_UNKNOWN` is NULL.
    """
    sources = sources_of(joining)
    driving = sources[joining.joined.driving]
    rows, by = _of_keys(joining, driving, tables, keys), driving.links
    moments = _moments(joining, sources, tables, rows, keys) if joining.over_time else None
    if moments is not None:
        rows, by = renamed(moments, joining.dimension.key, by).join(rows, by).where(driving.covers()), [*by, AT]
    if driving.is_grouped:
        rows = driving.aggregate(rows, by)
    for name in joining.joined.others:
        rows = _join_source(rows, sources[name], sources[joining.joined.parent(name)], tables[name])
    joined = _select_columns(joining, sources, rows)
    return _with_unknown(joining, joined, keys) if moments is None else _at_all(joining, joined, moments)


def _of_keys(joining: JoinDefinition, driving: JoinedSource, tables: Frames, keys: DataFrame | None) -> DataFrame:
    """Return the rows of the driving source for the joined rows of these keys, or of all."""
    rows = tables[driving.name].where(are_not_null(driving.links))
    if keys is None:
        return rows
    wanted = renamed(keys.select(*map(quoted, joining.dimension.key)), joining.dimension.key, driving.links)
    return rows.join(wanted, driving.links, "left_semi")


def _join_source(rows: DataFrame, source: JoinedSource, parent: JoinedSource, table: DataFrame) -> DataFrame:
    """Join a source to rows; the columns of `parent` have the values that link them."""
    to, way = parent.columns(source.declaration.to), "left" if source.declaration.way is JoinType.LEFT else "inner"
    is_found = equal_links(source.links, to)
    if source.is_grouped and source.reads_versions:
        links = renamed(rows.select(*to, AT), to, numbered(to)).where(are_not_null(numbered(to))).distinct()
        versions = table.join(links, equal_links(source.links, numbered(to))).where(source.covers())
        versions = renamed(source.aggregate(versions, [*source.links, AT]), [AT], [_ASKED])
        return rows.join(versions, [*is_found, F.col(AT) == F.col(_ASKED)], way).drop(_ASKED)
    if source.is_grouped:
        links = renamed(rows.select(*to), to, numbered(to)).distinct()
        links = table.join(links, equal_links(source.links, numbered(to)), "left_semi")
        return rows.join(source.aggregate(links, source.links), is_found, way)
    if source.reads_versions:
        is_found.append(F.expr(source.covers(source.lookup_instant(parent))))
    return rows.join(table, is_found, way)


def _select_columns(joining: JoinDefinition, sources: Mapping[str, JoinedSource], rows: DataFrame) -> DataFrame:
    selection = {own: sql for source in sources.values() for own, sql in source.selection()}
    own = [f"CAST({selection[c.name]} AS {ddl(c.type)}) AS {quoted(c.name)}" for c in joining.dimension.schema]
    instants = ", ".join(source.instant for source in sources.values())
    at = [AT] if joining.over_time else []
    return rows.selectExpr(*own, f"array({instants}) AS {INSTANTS}", f"false AS {IS_UNKNOWN}", *at)


def _with_unknown(joining: JoinDefinition, rows: DataFrame, keys: DataFrame | None) -> DataFrame:
    """Add the unknown row to joined rows, unless they have a row with its key."""
    unknown, key = _unknown(joining, rows.sparkSession), list(joining.dimension.key)
    if unknown is None:
        return rows
    missing = unknown if keys is None else unknown.join(keys.select(*map(quoted, key)), key, "left_semi")
    missing = missing.join(rows.select(*map(quoted, key)), key, "left_anti")
    return rows.unionByName(
        missing.selectExpr("*", f"CAST(NULL AS array<bigint>) AS {INSTANTS}", f"true AS {IS_UNKNOWN}")
    )


def _unknown(joining: JoinDefinition, spark: SparkSession) -> DataFrame | None:
    """Return the unknown row, or None if the table has none."""
    if joining.unknown is None:
        return None
    _, cells = joining.unknown
    values = {c.name: (literal(cells[c.name], c.type), ddl(c.type)) for c in joining.dimension.schema}
    columns = [f"CAST({value} AS {type_}) AS {quoted(name)}" for name, (value, type_) in values.items()]
    return spark.range(1).selectExpr(*columns)


# Over time.


def _moments(
    joining: JoinDefinition,
    sources: Mapping[str, JoinedSource],
    tables: Frames,
    rows: DataFrame,
    keys: DataFrame | None,
) -> DataFrame:
    """Return the instants at which a joined row may change: begins and ends of all versions that it joined."""
    joined, key = joining.joined, list(joining.dimension.key)
    driving = sources[joined.driving]
    root = [f"k{number}" for number in range(len(key))]
    named = [f"{link} AS {name}" for link, name in zip(driving.links, root, strict=True)]
    rows_of = {driving.name: rows.selectExpr("*", *named)}
    for name in joined.others:
        to = sources[joined.parent(name)].columns(joined.sources[name].to)
        links = rows_of[joined.parent(name)].select(*root, *to).where(are_not_null(to)).distinct()
        joined_rows = links.join(tables[name], equal_links(sources[name].links, to))
        rows_of[name] = joined_rows.select(*root, *tables[name].columns)
    parts = [
        rows_of[name].selectExpr(*root, f"explode(array({source.begins}, {source.ends})) AS {AT}")
        for name, source in sources.items()
        if source.reads_versions
    ]
    moments = renamed(reduce(DataFrame.unionByName, parts).where(f"{AT} IS NOT NULL"), root, key)
    unknown = _unknown(joining, rows.sparkSession)
    if unknown is not None:
        first = unknown.selectExpr(*map(quoted, key), f"{BEGINNING}L AS {AT}")
        if keys is not None:
            first = first.join(keys.select(*map(quoted, key)), key, "left_semi")
        moments = moments.unionByName(first)
    return moments.distinct().localCheckpoint()


def _at_all(joining: JoinDefinition, rows: DataFrame, moments: DataFrame) -> DataFrame:
    """Return a row for each of these instants: the joined row, the unknown row, or a row without values."""
    key = list(joining.dimension.key)
    all_rows = moments.join(rows, [*key, AT], "left")
    unknown = _unknown(joining, rows.sparkSession)
    if unknown is None:
        return all_rows
    others = [name for name in joining.dimension.schema.names if name not in key]
    unknown_cells = unknown.selectExpr(
        *map(quoted, key), f"struct({', '.join(map(quoted, others))}) AS {_UNKNOWN_CELLS}"
    )
    unknown_cells = (
        unknown_cells if others else unknown.selectExpr(*map(quoted, key), f"struct(1) AS {_UNKNOWN_CELLS}")
    )
    is_unknown_row = f"{IS_UNKNOWN} IS NULL AND {_UNKNOWN_CELLS} IS NOT NULL AND {AT} >= {BEGINNING}"
    cells = [
        f"CASE WHEN {is_unknown_row} THEN {_UNKNOWN_CELLS}.{quoted(name)} ELSE {quoted(name)} END AS {quoted(name)}"
        for name in others
    ]
    columns = [*map(quoted, key), *cells, INSTANTS, AT]
    is_unknown = f"CASE WHEN {is_unknown_row} THEN true ELSE {IS_UNKNOWN} END AS {IS_UNKNOWN}"
    return all_rows.join(F.broadcast(unknown_cells), key, "left").selectExpr(*columns, is_unknown)
