"""The law of rules on rows in part: rules before the fold give what the same rules make of the folded rows.

An update may send some cells alone; rules that need several of them are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from lakeward.adapters.memory import facts_of
from lakeward.adapters.memory import shaping as memory_shaping
from lakeward.adapters.memory.shaping import MemoryShaper
from lakeward.core import cells as core_cells
from lakeward.core.cells import Shaped, shaped
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position
from lakeward.core.fold import apply
from lakeward.core.plan import Capability
from lakeward.core.ports import Batch
from lakeward.core.reshaping import Concat, Constant, Drop, Split
from lakeward.core.rules import TEXT, Cast, Default, Mask, Rename, Rule
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.shape import Shape, check_parts, shape
from lakeward.core.shaping import TableRules

NAME = TableName("shop", "item")
SOURCE = Schema((Column("id", Type("int")), Column("a", TEXT), Column("b", Type("int")), Column("c", TEXT)))
RULES: tuple[Rule, ...] = (
    Rename(column="id", to="number"),
    Default(column="a", value="x,y"),
    Split(column="a", pattern=",", into=("one", "two")),
    Mask(column="a"),
    Default(column="b", value="7", to="filled"),
    Cast(column="b", type=TEXT),
    Constant(to="site", value="eu"),
    Drop(columns=("c",)),
)
FORM = shape(RULES, SOURCE)
TABLE = Dimension(name=NAME, schema=FORM.schema, key=("number",))


@st.composite
def feeds(draw: st.DrawFn) -> Sequence[ChangeEvent]:
    """Draw changes of two keys, cells of which may be NULL, or not sent; `c` goes, and need not be sent."""
    sent = {
        "a": st.sampled_from([UNSET, None, "p,q", "r"]),
        "b": st.sampled_from([UNSET, None, 0, 12]),
        "c": st.just("z"),
    }
    events = []
    for place in range(draw(st.integers(1, 8))):
        key = draw(st.sampled_from([1, 2]))
        operation = draw(st.sampled_from([Operation.INSERT, *[Operation.UPDATE] * 3, Operation.DELETE]))
        cells = {"id": key, **{name: draw(values) for name, values in sent.items()}}
        events.append(
            ChangeEvent(operation=operation, position=Position(1, place, 1, place), key=(key,), cells=cells)
        )
    return events


def shaped_feed(events: Sequence[ChangeEvent]) -> Sequence[Any]:
    source = Dimension(name=NAME, schema=SOURCE, key=("id",))
    batch = Batch(events, facts_of(source, events))
    return MemoryShaper(TableRules(columns=RULES, source=SOURCE)).shape(batch, TABLE, 1).batch.frame


def differ(events: Sequence[ChangeEvent]) -> bool:
    """Whether rules and then the fold give other rows than the fold and then the rules."""
    folded = apply(Dimension(name=NAME, schema=SOURCE, key=("id",)), {}, events)
    wanted = {key: shaped(row.cells, FORM, {}).cells for key, row in folded.rows.items() if not row.deleted}
    found = apply(TABLE, {}, shaped_feed(events))
    rows = {key: row.cells for key, row in found.rows.items() if not row.deleted}
    return rows != wanted or found.incomplete != folded.incomplete


@given(feeds())
def test_rules_and_the_fold_may_change_places(events: Sequence[ChangeEvent]) -> None:
    assert not differ(events)


@given(feeds())
def test_inserts_that_send_a_part_are_counted(events: Sequence[ChangeEvent]) -> None:
    """But for those to which the rules leave nothing that is NULL."""
    partial = {e.position for e in events if e.operation is Operation.INSERT and e.cells["b"] is UNSET}
    assert partial <= apply(TABLE, {}, shaped_feed(events)).unset_as_null


def takes_nothing_for_sent(cells: Mapping[str, Any], form: Shape, secrets: Mapping[str, bytes]) -> Shaped:
    known = {name: None if value is UNSET else value for name, value in cells.items()}
    return core_cells.shaped(known, form, secrets)


def test_the_law_sees_rules_that_take_what_was_not_sent_for_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_shaping, "shaped", takes_nothing_for_sent)
    assert differ(find(feeds(), differ, settings=settings(max_examples=500, phases=[Phase.generate])))


@pytest.mark.parametrize(
    ("rules", "key", "moves", "said"),
    [
        ((Concat(columns=("a", "c"), to="d"),), "id", False, "the column d is made of several columns"),
        ((Rename(column="id", to="number"),), "number", True, "rules make the key"),
    ],
)
def test_what_rows_in_part_do_not_go_with_is_refused(
    rules: Sequence[Rule], key: str, moves: bool, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check_parts(shape(rules, SOURCE), (key,), moves=moves)


def test_what_the_table_does_not_get_may_be_made_of_several_columns() -> None:
    check_parts(shape([Concat(columns=("a", "c"), to="d"), Drop(columns=("d",))], SOURCE), ("id",), moves=True)


def test_a_batch_with_such_rows_is_refused() -> None:
    rules = TableRules(columns=(Concat(columns=("a", "c"), to="d"),), source=SOURCE)
    update = ChangeEvent(operation=Operation.UPDATE, position=Position(1, 1, 1, 1), key=(1,), cells={"id": 1})
    source = Dimension(name=NAME, schema=SOURCE, key=("id",))
    batch = Batch([update], facts_of(source, [update]))
    assert Capability.UNSET in batch.facts.needs
    with pytest.raises(ConfigError, match="rows come in part"):
        MemoryShaper(rules).shape(batch, source, 1)
