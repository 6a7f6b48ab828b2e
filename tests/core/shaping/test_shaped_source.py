"""What a source with rules behind it is asked for: the key that its rows have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from lakeward.adapters.memory import MemorySource
from lakeward.adapters.memory.shaper import MemoryShaper
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.shaping.column_rules import Mask, Rename, Rule, Trim
from lakeward.core.shaping.quality_rules import NotNull
from lakeward.core.shaping.reshaping_rules import Concat, Constant, Drop, Flatten, Split, Sql
from lakeward.core.shaping.shaped_source import ShapedSource, TableRules

DIMENSION = Dimension(name=TableName("shop", "item"), schema=Schema(()), key=("id", "part"))
INT, TEXT = Type("int"), Type("string")


@dataclass
class AskedSource(MemorySource):
    """A source that keeps what it was asked for."""

    asked: list[Dimension] = field(default_factory=list)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        self.asked.append(dimension)
        return ObjectSelection()


def asked(rules: TableRules) -> Dimension:
    source: Any = AskedSource()
    ShapedSource(source, MemoryShaper(rules)).select_objects(DIMENSION, ObjectHistory())
    (dimension,) = source.asked
    return dimension


@pytest.mark.parametrize(
    "rule",
    [
        Trim(column="name"),
        Mask(column="id", to="masked"),
        Rename(column="name", to="ident"),
        Split(column="name", pattern="-", into=("one", "two")),
        Concat(columns=("id", "part"), to="both"),
        Constant(to="site", value="eu"),
        Sql(expression="id + 1", to="next", type=INT),
        Flatten(column="doc", prefix="doc_"),
        Drop(columns=("name",)),
    ],
)
def test_a_key_that_no_rule_makes_is_that_of_the_source(rule: Rule) -> None:
    found = asked(TableRules(columns=(rule,)))
    assert (found.key, found.has_column_rules) == (("id", "part"), True)


@pytest.mark.parametrize(
    "rule",
    [
        Trim(column="id"),
        Mask(column="name", to="id"),
        Rename(column="nr", to="part"),
        Split(column="name", pattern="-", into=("part", "rest")),
        Concat(columns=("a", "b"), to="id"),
        Constant(to="part", value="1"),
        Sql(expression="nr + 1", to="id", type=INT),
        Flatten(column="doc", prefix="pa"),
        Flatten(column="doc", prefix=""),
    ],
)
def test_a_key_that_rules_make_is_unknown_until_the_columns_are_declared(rule: Rule) -> None:
    assert asked(TableRules(columns=(rule,))).key == ()


def test_quality_rules_keep_the_key_and_declared_columns_decide_it() -> None:
    found = asked(TableRules(quality=(NotNull(of=("id",)),)))
    assert (found.key, found.has_column_rules) == (("id", "part"), False)
    declared = Schema((Column("nr", INT), Column("part", TEXT)))
    assert asked(TableRules(columns=(Rename(column="nr", to="id"),), source=declared)).key == ("nr", "part")
