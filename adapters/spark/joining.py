"""`lakeward.core.joined.rows` and `touched` as frames: rows of several tables joined, and which are touched.

Of each source the columns that are needed are called c0_0, c0_1, … by the places of source and column, with
the instant of a row beside (i0) and, where its versions are joined, from when until when it holds (b0, e0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.spark.names import quoted, text
from lakeward.adapters.spark.sql import struct
from lakeward.adapters.spark.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.joined.dates import BEGINNING
from lakeward.core.joined.declared import Aggregate, Function, Source, Way
from lakeward.core.joined.joining import Joining
from lakeward.core.literals import text_of
from lakeward.core.schema import Type

AT: Final = "_lakeward_at"
INSTANT: Final = "_lakeward_known"
IS_UNKNOWN: Final = "_lakeward_unknown"
"""Beside joined rows: as of which instant they are (over time), the greatest instant of the rows that they are made
of, and whether they stand for whatever has none."""

Frames = Mapping[str, DataFrame]
"""A frame for each source, by its name."""


@dataclass(frozen=True)
class Side:
    """One source of a joined table, and what its columns are called; `place` is its place among them."""

    joining: Joining
    name: str
    place: int

    @property
    def source(self) -> Source:
        """What is declared of it."""
        return self.joining.joined.sources[self.name]

    @property
    def table(self) -> Dimension:
        """The table that it is."""
        return self.joining.tables[self.name]

    @property
    def keeps_versions(self) -> bool:
        """Whether its versions are joined, not the rows that it has now."""
        return self.joining.over_time and self.joining.keeps_versions(self.name)

    @property
    def is_grouped(self) -> bool:
        """Whether several rows of it make one."""
        return self.joining.is_grouped(self.name)

    @cached_property
    def needed(self) -> Sequence[str]:
        """The columns that are read of it."""
        joined, source = self.joining.joined, self.source
        found = [*self.table.key, *self.joining.found_by(self.name), *source.columns.values()]
        for one in source.aggregates.values():
            found += [column for column in (one.column, one.by) if column is not None]
        for other in joined.beneath(self.name):
            found += joined.sources[other].to
        return list(dict.fromkeys(found))

    def column(self, name: str) -> str:
        """Return what one of its columns is called."""
        return f"c{self.place}_{self.table.schema.names.index(name)}"

    def columns(self, names: Sequence[str]) -> list[str]:
        """Return what some of its columns are called."""
        return [self.column(name) for name in names]

    @property
    def links(self) -> list[str]:
        """The columns by which its rows are found."""
        return self.columns(self.joining.found_by(self.name))

    @property
    def key(self) -> list[str]:
        """The columns of its key."""
        return self.columns(self.table.key)

    @property
    def instant(self) -> str:
        """The instant of a row."""
        return f"i{self.place}"

    @property
    def begins(self) -> str:
        """From when a version holds."""
        return f"b{self.place}"

    @property
    def ends(self) -> str:
        """Until when it does."""
        return f"e{self.place}"

    @property
    def found(self) -> str:
        """Whether a joined row found one of its rows."""
        return f"f{self.place}"

    @property
    def covers(self) -> str:
        """Whether a version holds at an instant, as SQL."""
        return f"{self.begins} <= {AT} AND ({self.ends} IS NULL OR {AT} < {self.ends})"

    def named(self, rows: DataFrame, instant: str, begins: str = "", ends: str = "") -> DataFrame:
        """Return rows of the source with what is needed of them; the rest is given as SQL."""
        own = [f"{quoted(name)} AS {self.column(name)}" for name in self.needed]
        own.append(f"bigint({instant}) AS {self.instant}")
        if self.keeps_versions:
            own += [f"{begins} AS {self.begins}", f"{ends} AS {self.ends}"]
        return rows.selectExpr(*own)

    def made(self, name: str) -> str:
        """Return what the aggregate is called that the joined table calls so."""
        return f"a{self.place}_{[*self.source.aggregates].index(name)}"

    def grouped(self, rows: DataFrame, by: Sequence[str]) -> DataFrame:
        """Return one row of all that are equal in these columns."""
        sums = [
            F.expr(f"{self._aggregate(one)} AS {self.made(own)}") for own, one in self.source.aggregates.items()
        ]
        return rows.groupBy(*by).agg(*sums, F.expr(f"max({self.instant}) AS {self.instant}"))

    def _aggregate(self, aggregate: Aggregate) -> str:
        value = "1" if aggregate.column is None else self.column(aggregate.column)
        match aggregate.function:
            case Function.SUM:
                return f"sum({self._wide(value, aggregate)})"
            case Function.LATEST:
                order = [aggregate.by or "", *self.table.key]
                by = struct({f"o{i}": self.column(name) for i, name in enumerate(order)})
                return f"max_by({value}, {by})"
            case function:
                return f"{function.value}({value})"

    def _wide(self, value: str, aggregate: Aggregate) -> str:
        """Return a value in the type of its sums, so that none of them is rounded."""
        column = self.table.schema.find(aggregate.column or "")
        if column is None or column.type.name == "int":
            return value
        return f"CAST({value} AS decimal(38,{column.type.scale}))"

    def taken(self) -> Iterator[tuple[str, str]]:
        """Yield the columns of the joined table that come of it, with the SQL of each."""
        for own, column in self.source.columns.items():
            yield own, self.column(column)
        for own, one in self.source.aggregates.items():
            made = self.made(own)
            yield own, f"coalesce({made}, 0L)" if one.function is Function.COUNT else made


def sides(joining: Joining) -> Mapping[str, Side]:
    """Return the sources of a joined table by name, in order."""
    return {name: Side(joining, name, place) for place, name in enumerate(joining.joined.sources)}


# What is touched.


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
                links = _equal(side.columns(joined.sources[other].to), _numbered(of[other].links))
                there = tables[name].join(reached, links, "inner")
                parts.append(_linked(there, side.links, "reached"))
        if parts:
            every = reduce(DataFrame.unionByName, parts).where(_all_there(_numbered(side.links)))
            found[name] = every.groupBy(*_numbered(side.links)).agg(F.expr(f"max({INSTANT}) AS {INSTANT}"))
    keys = found.get(joined.driving)
    if keys is None:
        return None
    names = zip(_numbered(of[joined.driving].links), joining.dimension.key, strict=True)
    return keys.selectExpr(*[f"{link} AS {quoted(name)}" for link, name in names], INSTANT)


def _changed(side: Side, changes: DataFrame, before: DataFrame | None, table: DataFrame) -> DataFrame:
    """Return by what the touched rows of a source are found, and were; where its key tells, nothing is read."""
    if not side.joining.needs_before(side.name):
        return _linked(changes, side.links, side.instant)
    reached = changes.withColumnRenamed(side.instant, "reached")
    rows = table if before is None else table.unionByName(before)
    return _linked(rows.join(reached, side.key), side.links, "reached")


def _linked(rows: DataFrame, links: Sequence[str], instant: str) -> DataFrame:
    numbered = zip(links, _numbered(links), strict=True)
    return rows.selectExpr(*[f"{link} AS {number}" for link, number in numbered], f"{instant} AS {INSTANT}")


def _numbered(links: Sequence[str]) -> list[str]:
    return [f"l{number}" for number in range(len(links))]


def _all_there(columns: Sequence[str]) -> str:
    return " AND ".join(f"{column} IS NOT NULL" for column in columns)


def _equal(one: Sequence[str], other: Sequence[str]) -> list[Column]:
    return [F.col(left) == F.col(right) for left, right in zip(one, other, strict=True)]


# What is made.


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
        rows, by = _renamed(moments, joining.dimension.key, by).join(rows, by).where(driving.covers), [*by, AT]
    if driving.is_grouped:
        rows = driving.grouped(rows, by)
    for name in joining.joined.others:
        rows = _joined(rows, of[name], of[joining.joined.beside(name)], tables[name])
    shown = _shown(joining, of, rows)
    return _with_unknown(joining, shown, keys) if moments is None else _at_all(joining, shown, moments)


def _of_keys(joining: Joining, driving: Side, tables: Frames, keys: DataFrame | None) -> DataFrame:
    """Return the rows of the driving source that rows of these keys, or all, are made of."""
    rows = tables[driving.name].where(_all_there(driving.links))
    if keys is None:
        return rows
    wanted = _renamed(keys.select(*map(quoted, joining.dimension.key)), joining.dimension.key, driving.links)
    return rows.join(wanted, driving.links, "left_semi")


def _joined(rows: DataFrame, side: Side, beside: Side, table: DataFrame) -> DataFrame:
    """Join a source to rows that have its links in columns of the one beside it."""
    to, way = beside.columns(side.source.to), "left" if side.source.way is Way.LEFT else "inner"
    is_found = _equal(side.links, to)
    if side.is_grouped and side.keeps_versions:
        asked = rows.select(*to, AT).where(_all_there(to)).distinct()
        there = side.grouped(table.join(asked, is_found).where(side.covers), [*to, AT])
        there = _renamed(there, [*to, AT], [*_numbered(to), "as_of"])
        return rows.join(there, [*_equal(to, _numbered(to)), F.col(AT) == F.col("as_of")], way)
    if side.is_grouped:
        asked = _renamed(rows.select(*to), to, _numbered(to)).distinct()
        asked = table.join(asked, _equal(side.links, _numbered(to)), "left_semi")
        return rows.join(side.grouped(asked, side.links), is_found, way)
    if side.keeps_versions:
        is_found.append(F.expr(side.covers))
    return rows.join(table, is_found, way)


def _shown(joining: Joining, of: Mapping[str, Side], rows: DataFrame) -> DataFrame:
    taken = {own: sql for side in of.values() for own, sql in side.taken()}
    own = [f"CAST({taken[c.name]} AS {ddl(c.type)}) AS {quoted(c.name)}" for c in joining.dimension.schema]
    instants = ", ".join(side.instant for side in of.values())
    known = instants if len(of) == 1 else f"greatest({instants})"
    at = [AT] if joining.over_time else []
    return rows.selectExpr(*own, f"{known} AS {INSTANT}", f"false AS {IS_UNKNOWN}", *at)


def _with_unknown(joining: Joining, rows: DataFrame, keys: DataFrame | None) -> DataFrame:
    """Return joined rows with the one that stands for whatever has none, unless there is a row of its key."""
    unknown, key = _unknown(joining, rows.sparkSession), list(joining.dimension.key)
    if unknown is None:
        return rows
    alone = unknown if keys is None else unknown.join(keys.select(*map(quoted, key)), key, "left_semi")
    alone = alone.join(rows.select(*map(quoted, key)), key, "left_anti")
    return rows.unionByName(alone.selectExpr("*", f"bigint(NULL) AS {INSTANT}", f"true AS {IS_UNKNOWN}"))


def _unknown(joining: Joining, spark: SparkSession) -> DataFrame | None:
    """Return the row that stands for whatever has none, or None where there is none."""
    if joining.unknown is None:
        return None
    _, cells = joining.unknown
    values = {c.name: (_literal(cells[c.name], c.type), ddl(c.type)) for c in joining.dimension.schema}
    shown = [f"CAST({value} AS {type_}) AS {quoted(name)}" for name, (value, type_) in values.items()]
    return spark.range(1).selectExpr(*shown)


def _literal(value: object, type_: Type) -> str:
    if value is None:
        return "NULL"
    return f"X'{value.hex()}'" if isinstance(value, bytes) else text(text_of(value, type_))


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
        asked = reached[joined.beside(name)].select(*root, *to).where(_all_there(to)).distinct()
        there = asked.join(tables[name], _equal(of[name].links, to))
        reached[name] = there.select(*root, *tables[name].columns)
    parts = [
        reached[name].selectExpr(*root, f"explode(array({side.begins}, {side.ends})) AS {AT}")
        for name, side in of.items()
        if side.keeps_versions
    ]
    found = _renamed(reduce(DataFrame.unionByName, parts).where(f"{AT} IS NOT NULL"), root, key)
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
    told = unknown.selectExpr(*map(quoted, key), f"struct({', '.join(map(quoted, others))}) AS told")
    told = told if others else unknown.selectExpr(*map(quoted, key), "struct(1) AS told")
    stands = f"{IS_UNKNOWN} IS NULL AND told IS NOT NULL AND {AT} >= {BEGINNING}"
    cells = [
        f"CASE WHEN {stands} THEN told.{quoted(name)} ELSE {quoted(name)} END AS {quoted(name)}" for name in others
    ]
    kept = [*map(quoted, key), *cells, INSTANT, AT]
    is_unknown = f"CASE WHEN {stands} THEN true ELSE {IS_UNKNOWN} END AS {IS_UNKNOWN}"
    return every.join(F.broadcast(told), key, "left").selectExpr(*kept, is_unknown)


def _renamed(frame: DataFrame, names: Sequence[str], others: Sequence[str]) -> DataFrame:
    return frame.withColumnsRenamed(dict(zip(names, others, strict=True)))
