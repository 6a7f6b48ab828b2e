"""The sources of a joined table as frames: what their columns are called there, and what is made of several rows.

Of each source the columns that are needed are called c0_0, c0_1, … by the places of source and column, with
the instant of a row beside (i0) and, where all its versions are read, from when until when it holds (b0, e0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.instants import of_cell
from lakeward.adapters.spark.sql.fragments import struct
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.events import Cell
from lakeward.core.joined.declared import Aggregate, Function, Source
from lakeward.core.joined.joining import Joining
from lakeward.core.schema import Type
from lakeward.core.text.literals import text_of

AT: Final = "_lakeward_at"
INSTANTS: Final = "_lakeward_instants"
IS_UNKNOWN: Final = "_lakeward_unknown"
INSTANT: Final = "_lakeward_known"
UNDATED: Final = "_lakeward_undated"
"""Beside joined rows: as of which instant they are (over time), of each source by its place the greatest instant of
its rows there, and whether they stand for whatever has none. Beside keys: the greatest instant of the changes that
touched them, and the places of the sources of which some changes have none."""

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
    def reads_versions(self) -> bool:
        """Whether all its versions are read, not the rows that it has now."""
        return self.joining.reads_versions(self.name)

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
            found += [at for at in (joined.sources[other].at,) if at is not None]
        return list(dict.fromkeys(found))

    def column(self, name: str) -> str:
        """Return what one of its columns is called."""
        return f"c{self.place}_{self.table.stored.schema.names.index(name)}"

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

    def covers(self, instant: str = AT) -> str:
        """Return whether a version holds at an instant, as SQL."""
        return f"{self.begins} <= {instant} AND ({self.ends} IS NULL OR {instant} < {self.ends})"

    def asked_at(self, beside: Side) -> str:
        """Return as of which instant a row of the source beside it finds one of its versions, as SQL."""
        at, history = beside.table.schema.find(self.source.at or ""), self.table.history
        return AT if at is None or history is None else of_cell(beside.column(at.name), at.type, history)

    def named(self, rows: DataFrame, instant: str, begins: str = "", ends: str = "") -> DataFrame:
        """Return rows of the source with what is needed of them; the rest is given as SQL."""
        own = [f"{quoted(name)} AS {self.column(name)}" for name in self.needed]
        own.append(f"bigint({instant}) AS {self.instant}")
        if self.reads_versions:
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

    def selection(self) -> Iterator[tuple[str, str]]:
        """Yield the columns of the joined table that come of it, with the SQL of each."""
        none = self._otherwise()
        for own, column in self.source.columns.items():
            value, is_none = self.column(column), f"{self.key[0]} IS NULL"
            yield own, f"CASE WHEN {is_none} THEN {none[own]} ELSE {value} END" if own in none else value
        for own, one in self.source.aggregates.items():
            made = self.made(own)
            yield own, f"coalesce({made}, 0L)" if one.function is Function.COUNT else made

    def _otherwise(self) -> Mapping[str, str]:
        """Return what the joined table has in columns of it where a row finds none of its rows."""
        cells = self.joining.otherwise(self.name)
        types = {c.name: c.type for c in self.joining.dimension.schema if c.name in cells}
        return {own: f"CAST({literal(cells[own], type_)} AS {ddl(type_)})" for own, type_ in types.items()}


def sides(joining: Joining) -> Mapping[str, Side]:
    """Return the sources of a joined table by name, in order."""
    return {name: Side(joining, name, place) for place, name in enumerate(joining.joined.sources)}


def literal(value: Cell, type_: Type) -> str:
    """Return a value as SQL that can be cast to its type."""
    if value is None:
        return "NULL"
    return f"X'{value.hex()}'" if isinstance(value, bytes) else text(text_of(value, type_))


def numbered(links: Sequence[str]) -> list[str]:
    """Return what links are called beside those that they are compared with."""
    return [f"l{number}" for number in range(len(links))]


def all_there(columns: Sequence[str]) -> str:
    """Return whether none of some columns is NULL, as SQL: NULL equals nothing."""
    return " AND ".join(f"{column} IS NOT NULL" for column in columns)


def equal_links(one: Sequence[str], other: Sequence[str]) -> list[Column]:
    """Return whether some columns are equal to others, one by one."""
    return [F.col(left) == F.col(right) for left, right in zip(one, other, strict=True)]


def renamed(frame: DataFrame, names: Sequence[str], others: Sequence[str]) -> DataFrame:
    """Return a frame with some of its columns called otherwise."""
    called = dict(zip(names, others, strict=True))
    return frame.selectExpr(
        *[f"{quoted(n)} AS {quoted(called[n])}" if n in called else quoted(n) for n in frame.columns]
    )
