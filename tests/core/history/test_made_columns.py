"""Columns that rules make of several others, in a history: of whole rows they are as any other."""

from __future__ import annotations

from typing import Any

import pytest
from memory_jobs import UPDATE, TableFeed, event, item

from lakeward.adapters.memory import MemorySource
from lakeward.adapters.memory.shaper import MemoryShaper
from lakeward.core.dimension import TableName, Unbounded
from lakeward.core.errors import ConfigError
from lakeward.core.events import UNSET
from lakeward.core.history.options import History, Kind, Track, ValidityColumns
from lakeward.core.history.refusals import refuse_history
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import DEFAULT_POLICIES, evolve
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.core.shaping.reshaping_rules import Concat
from lakeward.core.shaping.shaped_source import ShapedSource, TableRules

NAME = TableName("shop", "person")
SOURCE = Schema((Column("id", Type("int")), Column("first", Type("string")), Column("last", Type("string"))))
RULES = TableRules(columns=(Concat(columns=("first", "last"), to="name", separator=" "),), source=SOURCE)
OF_NAME = History(track=Track(frozenset({"name"}), but=False), validity_columns=ValidityColumns(type=Type("date")))
DAY = 86_400_000_000


class Lake(TableFeed):
    def __init__(self, history: History = OF_NAME) -> None:
        dimension = item(RULES.shape(SOURCE).schema, name=NAME, lateness=Unbounded(), history=history)
        source = MemorySource(lateness=Unbounded())
        super().__init__(dimension, ShapedSource(source, MemoryShaper(RULES)))
        self.source = source

    def put(self, day: int, first: Any, last: Any) -> None:
        self.deliver(day, event(UPDATE, day, time=day * DAY, first=first, last=last))


def test_a_column_made_of_several_opens_versions() -> None:
    lake = Lake()
    for day, first, last in ((1, "Ada", "Byron"), (3, "Ada", "Lovelace"), (5, "Ada", "Lovelace")):
        lake.put(day, first, last)
    assert lake.periods(1, "name", "first") == [(1, 3, "Ada Byron", "Ada"), (3, None, "Ada Lovelace", "Ada")]


def test_the_version_of_a_late_row_has_the_columns_that_are_made_of_it() -> None:
    lake = Lake()
    for day, first in ((1, "A"), (9, "C"), (5, "B")):
        lake.put(day, first, "X")
    assert lake.periods(1, "name", "first") == [(1, 5, "A X", "A"), (5, 9, "B X", "B"), (9, None, "C X", "C")]


def test_a_made_column_may_be_of_any_kind() -> None:
    kinds = {"first": Kind.VERSION, "name": Kind.KEEP_FIRST, "last": Kind.PREVIOUS}
    lake = Lake(History(kinds=kinds, validity_columns=ValidityColumns(type=Type("date"))))
    for day, first, last in ((1, "A", "X"), (3, "B", "Y")):
        lake.put(day, first, last)
    assert lake.periods(1, "name", "first") == [(1, 3, "A X", "A"), (3, None, "A X", "B")]
    assert [dict(version.previous) for version in lake.table.rows[1,].versions] == [{"last": None}, {"last": "X"}]


def test_partial_rows_are_refused_where_a_column_is_made_of_several() -> None:
    lake = Lake()
    lake.put(1, "Ada", "Byron")
    with pytest.raises(ConfigError) as refused:
        lake.put(3, UNSET, "Lovelace")
    assert refused.value.found == "rules make name of several columns, of which an update may send some alone"
    assert lake.periods(1, "name", "first") == [(1, None, "Ada Byron", "Ada")]


def test_a_batch_without_a_column_that_another_is_made_of_is_refused() -> None:
    dimension = Lake().table.dimension
    facts = BatchFacts(schema=dimension.schema, recomputed=RecomputedColumns({"name": "name"}))
    lacks = Schema(tuple(column for column in dimension.schema if column.name in ("id", "first")))
    refuse_history(dimension, facts, evolve(dimension.schema, dimension.schema, DEFAULT_POLICIES, ("id",)))
    with pytest.raises(ConfigError) as refused:
        refuse_history(dimension, facts, evolve(dimension.schema, lacks, DEFAULT_POLICIES, ("id",)))
    assert refused.value.found == "rules make name of several columns, and the batch lacks some of them"
