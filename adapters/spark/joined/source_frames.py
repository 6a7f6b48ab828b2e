"""The sources of a joined table as frames: their column names, and their aggregates.

The columns that are read of a source are called c0_0, c0_1, … by the index of source and column. i0 is the instant
of a row. Where all versions of a source are read, b0 and e0 are begin and end of their validity.
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
from lakeward.core.joined.declaration import Aggregate, Function, Source
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.schema import Type
from lakeward.core.text.literals import text_of

AT: Final = "_lakeward_at"
IS_UNKNOWN: Final = "_lakeward_unknown"
INSTANT: Final = "_lakeward_known"
"""Columns. Of joined rows: the instant that they show (over time) or the greatest one of their rows; whether the
row is the unknown row. Of keys: the greatest instant of the changes that touched them.
"""

Frames = Mapping[str, DataFrame]
"""A frame for each source, by its name."""


@dataclass(frozen=True)
class JoinedSource:
    """One source of a joined table and its column names; `index` is its index among the sources."""

    joining: JoinDefinition
    name: str
    index: int

    @property
    def declaration(self) -> Source:
        """The declaration of the source."""
        return self.joining.joined.sources[self.name]

    @property
    def table(self) -> Dimension:
        """The table that is the source."""
        return self.joining.tables[self.name]

    @property
    def reads_versions(self) -> bool:
        """Whether all versions of the source are read, not only its current rows."""
        return self.joining.reads_versions(self.name)

    @property
    def is_grouped(self) -> bool:
        """Whether several rows of the source are aggregated into one."""
        return bool(self.declaration.aggregates)

    @cached_property
    def needed_columns(self) -> Sequence[str]:
        """The columns of the source that are read."""
        joined, source = self.joining.joined, self.declaration
        columns = [*self.table.key, *self.joining.link_columns(self.name), *source.columns.values()]
        for one in source.aggregates.values():
            columns += [column for column in (one.column, one.by) if column is not None]
        for other in joined.children(self.name):
            columns += joined.sources[other].to
            columns += [at for at in (joined.sources[other].at,) if at is not None]
        return list(dict.fromkeys(columns))

    def column(self, name: str) -> str:
        """Return the name that a column of the source has in the frames."""
        return f"c{self.index}_{self.table.stored.schema.names.index(name)}"

    def columns(self, names: Sequence[str]) -> list[str]:
        """Return the names that some columns of the source have in the frames."""
        return [self.column(name) for name in names]

    @property
    def links(self) -> list[str]:
        """The columns by which rows of the source are found."""
        return self.columns(self.joining.link_columns(self.name))

    @property
    def key(self) -> list[str]:
        """The columns of the key of the source."""
        return self.columns(self.table.key)

    @property
    def instant(self) -> str:
        """The column of the instant of a row."""
        return f"i{self.index}"

    @property
    def begins(self) -> str:
        """The column of the begin of a version."""
        return f"b{self.index}"

    @property
    def ends(self) -> str:
        """The column of the end of a version."""
        return f"e{self.index}"

    def covers(self, instant: str = AT) -> str:
        """Return SQL for whether a version is valid at an instant."""
        return f"{self.begins} <= {instant} AND ({self.ends} IS NULL OR {instant} < {self.ends})"

    def lookup_instant(self, parent: JoinedSource) -> str:
        """Return SQL for the instant at which a row of the source `parent` finds a version of this one."""
        at, history = parent.table.schema.find(self.declaration.at or ""), self.table.history
        return AT if at is None or history is None else of_cell(parent.column(at.name), at.type, history)

    def select_needed(self, rows: DataFrame, instant: str, begins: str = "", ends: str = "") -> DataFrame:
        """Return rows of the source with the columns that are needed; instant, begin and end are given as SQL."""
        own = [f"{quoted(name)} AS {self.column(name)}" for name in self.needed_columns]
        own.append(f"bigint({instant}) AS {self.instant}")
        if self.reads_versions:
            own += [f"{begins} AS {self.begins}", f"{ends} AS {self.ends}"]
        return rows.selectExpr(*own)

    def aggregate_column(self, name: str) -> str:
        """Return the name that an aggregate has in the frames."""
        return f"a{self.index}_{[*self.declaration.aggregates].index(name)}"

    def aggregate(self, rows: DataFrame, by: Sequence[str]) -> DataFrame:
        """Aggregate the rows that are equal in these columns."""
        aggregates = self.declaration.aggregates.items()
        sums = [F.expr(f"{self._aggregate_sql(one)} AS {self.aggregate_column(own)}") for own, one in aggregates]
        return rows.groupBy(*by).agg(*sums, F.expr(f"max({self.instant}) AS {self.instant}"))

    def _aggregate_sql(self, aggregate: Aggregate) -> str:
        value = "1" if aggregate.column is None else self.column(aggregate.column)
        match aggregate.function:
            case Function.SUM:
                return f"sum({self._widened(value, aggregate)})"
            case Function.LATEST:
                order = [aggregate.by or "", *self.table.key]
                by = struct({f"o{i}": self.column(name) for i, name in enumerate(order)})
                return f"max_by({value}, {by})"
            case Function.COUNT | Function.MIN | Function.MAX as function:
                return f"{function.value}({value})"

    def _widened(self, value: str, aggregate: Aggregate) -> str:
        """Return SQL for a value in the type of its sums, so that no sum is rounded."""
        column = self.table.schema.find(aggregate.column or "")
        if column is None or column.type.name == "int":
            return value
        return f"CAST({value} AS decimal(38,{column.type.scale}))"

    def selection(self) -> Iterator[tuple[str, str]]:
        """Yield the columns of the joined table that come from this source, with the SQL of each."""
        defaults = self._defaults()
        for own, column in self.declaration.columns.items():
            value, is_none = self.column(column), f"{self.key[0]} IS NULL"
            yield own, f"CASE WHEN {is_none} THEN {defaults[own]} ELSE {value} END" if own in defaults else value
        for own, one in self.declaration.aggregates.items():
            aggregate = self.aggregate_column(own)
            yield own, f"coalesce({aggregate}, 0L)" if one.function is Function.COUNT else aggregate

    def _defaults(self) -> Mapping[str, str]:
        """Return the values that columns of this source have in joined rows that find none of its rows."""
        cells = self.joining.otherwise(self.name)
        return {c.name: literal(cells[c.name], c.type) for c in self.joining.dimension.schema if c.name in cells}


def sources_of(joining: JoinDefinition) -> Mapping[str, JoinedSource]:
    """Return the sources of a joined table by name, in order."""
    return {name: JoinedSource(joining, name, index) for index, name in enumerate(joining.joined.sources)}


def literal(value: Cell, type_: Type) -> str:
    """Return a value as an SQL literal of its type."""
    written = "NULL"
    if value is not None:
        written = f"X'{value.hex()}'" if isinstance(value, bytes) else text(text_of(value, type_))
    return f"CAST({written} AS {ddl(type_)})"


def numbered(links: Sequence[str]) -> list[str]:
    """Return the names of link columns that are compared with the originals."""
    return [f"l{number}" for number in range(len(links))]


def are_not_null(columns: Sequence[str]) -> str:
    """Return SQL for whether none of some columns is NULL; NULL equals nothing."""
    return " AND ".join(f"{column} IS NOT NULL" for column in columns)


def equal_links(one: Sequence[str], other: Sequence[str]) -> list[Column]:
    """Return the conditions that columns equal others, pairwise."""
    return [F.col(left) == F.col(right) for left, right in zip(one, other, strict=True)]


def renamed(frame: DataFrame, names: Sequence[str], others: Sequence[str]) -> DataFrame:
    """Return a frame with some of its columns renamed."""
    new_names = dict(zip(names, others, strict=True))
    return frame.selectExpr(
        *[f"{quoted(n)} AS {quoted(new_names[n])}" if n in new_names else quoted(n) for n in frame.columns]
    )
