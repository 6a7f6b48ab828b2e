"""Laws of tables with a source catalogue, on random sources whose tables change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from lakeward.adapters.sources.csv.layout import OP, ExpectedLayout, find_layout
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SchemaConflict
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.settings import source_catalogue
from lakeward.core.settings.source_catalogue import KEEP_FOR, Answer, DeclaredTable, SourceColumn, SourceTable

NAME = TableName("shop", "customer")
COLUMNS = ("a", "b", "c", "d")
TYPES = ("int", "bigint", "string")


@dataclass
class Source:
    """A table of the source, its descriptions over time, and those that are remembered."""

    random: Random
    now: int = 0
    known: tuple[Answer, ...] = ()

    def __post_init__(self) -> None:
        self.stood: list[tuple[int, SourceTable]] = []
        for _ in range(self.random.randrange(1, 6)):
            self.now += self.random.choice([1, KEEP_FOR // 2, KEEP_FOR - 1, KEEP_FOR])
            table = self._table()
            self.known = source_catalogue.answers_to_keep(self.known, table, self.now)
            if not self.stood or self.stood[-1][1] != table:
                self.stood.append((self.now, table))

    def _table(self) -> SourceTable:
        if self.stood and self.random.random() < 0.3:
            return self.stood[-1][1]
        names = ["id", *self.random.sample(COLUMNS, self.random.randrange(4))]
        types = [self.random.choice(TYPES) for _ in names]
        columns = (SourceColumn(name=n, written=t, type=parse_type(t)) for n, t in zip(names, types, strict=True))
        return SourceTable(name=NAME, columns=tuple(columns), key=("id",))

    @property
    def of_late(self) -> Sequence[tuple[int, SourceTable]]:
        """The descriptions of the last week."""
        ends = [since for since, _ in self.stood[1:]]
        return [one for one, end in zip(self.stood, [*ends, self.now], strict=True) if self.now - end < KEEP_FOR]


def check_remembered(source: Source) -> None:
    """Check that the descriptions of the last week are remembered in order, and no others."""
    assert [(answer.since, answer.table) for answer in source.known] == [*source.of_late]


def check_completed(source: Source) -> None:
    """Check that each recent column is there once, with its declared or newest type, and all orders are known."""
    random, tables = source.random, [table for _, table in source.of_late]
    own = {name: random.choice(TYPES) for name in random.sample(("id", *COLUMNS), random.randrange(4))}
    declared = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in own.items()))
    completed = source_catalogue.complete(DeclaredTable(columns=declared), source.known)
    newest = {column.name: column.written for table in tables for column in table.columns}
    assert {c.name: str(c.type) for c in completed.schema} == {**newest, **own}
    assert completed.announced == newest.keys() - own.keys()
    last = tables[-1]
    if own.keys() >= {*last.names}:
        assert completed.orders == (tuple(own),)
    else:
        more = tuple(name for name in own if name not in newest)
        assert completed.orders[0] == (*last.names, *more)
        assert {*completed.orders} == {(*table.names, *more) for table in tables}


def check_headerless(source: Source) -> None:
    """Check that a file without a header is read with the columns of its time, or stops if they are unknown."""
    completed = source_catalogue.complete(DeclaredTable(), source.known)
    dimension = Dimension(name=NAME, schema=completed.schema, key=("id",), orders=completed.orders)
    orders = {table.names for _, table in source.of_late}
    for names in orders:
        row = ",".join(f"{name}!" for name in names)
        is_alone = sum(len(other) == len(names) for other in orders) == 1
        assert _columns(f"{row}\n", dimension, is_load=True) == (names if is_alone else None)
        assert _columns(f"U,{row}\n", dimension, is_load=False) == ((OP, *names) if is_alone else None)


def _columns(head: str, dimension: Dimension, *, is_load: bool) -> tuple[str, ...] | None:
    expected = ExpectedLayout(replace(dimension), Dialect(), "Op", None)
    try:
        return find_layout("f.csv", head, expected, is_load=is_load).columns
    except SchemaConflict:
        return None


LAWS = (check_remembered, check_completed, check_headerless)


def check(seed: int) -> None:
    """Check all laws on the source of a seed."""
    for law in LAWS:
        law(Source(Random(seed)))
