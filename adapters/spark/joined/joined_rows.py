"""Join the rows of several tables, as of now or, in a history of histories, as of each instant."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.spark.joined.source_frames import (
    AT,
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
from lakeward.core.joined.declaration import JoinType
from lakeward.core.joined.join_definition import BEGINNING, JoinDefinition
from lakeward.core.joined.omitted_rows import OmittedRows

_ASKED: Final = "_lakeward_asked"
"""Column: the instant as of which a group is read."""


def join_frames(joining: JoinDefinition, tables: Frames, keys: DataFrame | None = None) -> DataFrame:
    """Return the joined rows, of these keys or of all, in the columns of the joined table.

    `AT` is the greatest instant of the rows that a joined row is made of. Over time all keys are joined: there is a
    row for each instant `AT` at which the joined row may change. At instants without a joined row there is a row
    with the key alone, whose `IS_UNKNOWN` is NULL.
    """
    sources = sources_of(joining)
    driving = sources[joining.joined.driving]
    rows, by = _of_keys(joining, driving, tables, keys), driving.links
    moments = _moments(joining, sources, tables, rows) if joining.over_time else None
    if moments is not None:
        rows, by = renamed(moments, joining.dimension.key, by).join(rows, by).where(driving.covers()), [*by, AT]
    if driving.is_grouped:
        rows = driving.aggregate(rows, by)
    for name in joining.joined.others:
        rows = _join_source(rows, sources[name], sources[joining.joined.parent(name)], tables[name])
    joined = _select_columns(joining, sources, rows)
    if moments is None:
        return _with_unknown(joining, joined, keys)
    place = [*joining.dimension.key, AT]
    return moments.join(_with_unknown(joining, joined, moments), place, "left")


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
    newest = f"array_max(array({', '.join(source.instant for source in sources.values())}))"
    return rows.selectExpr(*own, f"{AT if joining.over_time else newest} AS {AT}", f"false AS {IS_UNKNOWN}")


def _with_unknown(joining: JoinDefinition, rows: DataFrame, wanted: DataFrame | None) -> DataFrame:
    """Add the unknown row to joined rows, unless they have a row with its key.

    It is added if `wanted` has its key, over time at each instant of that.
    """
    unknown, key = _unknown(joining, rows.sparkSession), list(joining.dimension.key)
    if unknown is None:
        return rows
    place = [*key, AT] if joining.over_time else key
    missing = unknown if wanted is None else wanted.select(*map(quoted, place)).join(F.broadcast(unknown), key)
    missing = missing.join(rows.select(*map(quoted, place)), place, "left_anti")
    if joining.over_time:
        missing = missing.where(f"{AT} >= {BEGINNING}")
    else:
        missing = missing.withColumn(AT, F.lit(None).cast("bigint"))
    return rows.unionByName(missing.withColumn(IS_UNKNOWN, F.lit(True)))


def _unknown(joining: JoinDefinition, spark: SparkSession) -> DataFrame | None:
    """Return the unknown row, or None if the table has none."""
    cells = joining.unknown
    if cells is None:
        return None
    schema = joining.dimension.schema
    return spark.range(1).selectExpr(*[f"{literal(cells[c.name], c.type)} AS {quoted(c.name)}" for c in schema])


def find_omitted_rows(joining: JoinDefinition, tables: Frames) -> OmittedRows:
    """Return what a joined table cannot show of the rows or versions of its driving source.

    Where the statistics of the table format exclude files, only the others are read. Nothing is read if rows are
    found by their key, which is never NULL, and there is no unknown row.
    """
    driving, cells = sources_of(joining)[joining.joined.driving], joining.unknown
    if not joining.needs_earlier_rows(driving.name) and cells is None:
        return OmittedRows()
    is_keyless, is_unknown = f"NOT ({are_not_null(driving.links)})", "false"
    if cells is not None:
        types = {column.name: column.type for column in joining.dimension.schema}
        pairs = zip(driving.links, joining.dimension.key, strict=True)
        is_unknown = " AND ".join(f"{link} = {literal(cells[name], types[name])}" for link, name in pairs)
    rows = tables[driving.name].where(f"{is_keyless} OR {is_unknown}")
    [(keyless, unknown)] = rows.selectExpr(f"count_if({is_keyless})", f"count_if({is_unknown})").collect()
    return OmittedRows(keyless, unknown > 0)


def _moments(
    joining: JoinDefinition, sources: Mapping[str, JoinedSource], tables: Frames, rows: DataFrame
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
        moments = moments.unionByName(unknown.selectExpr(*map(quoted, key), f"{BEGINNING}L AS {AT}"))
    return moments.distinct().localCheckpoint()
