"""What the catalogue adds to the settings, and which answers are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_jobs import columns

from lakeward.adapters.sources.csv import layout
from lakeward.adapters.sources.csv.layout import OP, ExpectedLayout, find_layout
from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.schema import Column, Schema, Type, parse_type
from lakeward.core.settings import source_catalogue
from lakeward.core.settings.source_catalogue import (
    KEEP_FOR,
    Answer,
    CompletedTable,
    DeclaredTable,
    SourceColumn,
    SourceTable,
    answers_to_keep,
    changes,
    complete,
    key_differs,
)
from lakeward.core.shaping.column_rules import Rename
from lakeward.core.shaping.shape import shape, table_key

NAME = TableName("shop", "customer")


def table(*columns: str, key: tuple[str, ...] = ("id",)) -> SourceTable:
    """Return a table of `name: type`; the type `?` has none in lakeward."""
    pairs = [column.split(": ") for column in columns]
    made = tuple(
        SourceColumn(name=name, written=f"native {type_}", type=None if type_ == "?" else parse_type(type_))
        for name, type_ in pairs
    )
    return SourceTable(name=NAME, columns=made, key=key)


def said(*tables: SourceTable) -> list[Answer]:
    return [Answer(since, one) for since, one in enumerate(tables)]


def test_names_are_those_of_the_settings_whatever_the_case() -> None:
    declared = DeclaredTable(columns=columns(Name="string"), key=("iD",))
    found = complete(declared, said(table("ID: int", "NAME: string", key=("ID",))))
    assert (found.schema.names, found.key) == (("iD", "Name"), ("iD",))


def test_a_column_without_a_type_here_is_an_error_that_names_it_unless_the_settings_say_one() -> None:
    answers = said(table("id: int", "shape: ?"))
    with pytest.raises(ConfigError) as raised:
        complete(DeclaredTable(), answers)
    assert "shape" in raised.value.what
    assert "native ?" in (raised.value.found or "")
    assert complete(DeclaredTable(columns=columns(shape="string")), answers).schema == columns(
        id="int", shape="string"
    )
    assert complete(DeclaredTable(left_out=("SHAPE",)), answers).schema == columns(id="int")


def test_dropped_columns_stay_readable_and_each_order_is_known() -> None:
    answers = said(table("id: int", "phone: string"), table("id: bigint", "mail: string"))
    found = complete(DeclaredTable(), answers)
    assert found.schema == columns(id="bigint", mail="string", phone="string")
    assert found.orders == (("id", "mail"), ("id", "phone"))


def test_a_column_that_is_renamed_by_the_settings_is_one() -> None:
    answers = said(table("id: int", "name: string"), table("id: int", "full_name: string"))
    found = complete(DeclaredTable(renames={"name": "full_name"}), answers)
    assert found.schema == columns(id="int", full_name="string")
    assert found.orders == (("id", "full_name"),)


def test_two_columns_that_differ_in_case_alone_are_an_error() -> None:
    with pytest.raises(ConfigError, match="differ only in case"):
        complete(DeclaredTable(), said(table("id: int", "ID: int")))


def test_a_narrower_type_and_an_unknown_column_are_warnings() -> None:
    declared = DeclaredTable(columns=columns(id="int", note="string"))
    (narrow, unknown) = sorted(complete(declared, said(table("id: bigint"))).cautions)
    assert "note" in unknown
    assert "native bigint" in narrow
    assert complete(DeclaredTable(columns=columns(id="bigint")), said(table("id: int"))).cautions == ()


def test_another_key_is_a_warning_with_both_keys() -> None:
    assert key_differs(["b", "a"], ["a", "b"]) is None
    words = key_differs(["id"], ["order_id", "line"])
    assert words is not None
    assert "id" in words
    assert "order_id, line" in words


# What is remembered.


def test_an_equal_answer_keeps_its_time_and_a_new_comment_is_no_change() -> None:
    first = table("id: int")
    known = answers_to_keep((), first, 10)
    assert answers_to_keep(known, replace(first, comment="who buys"), 20)[-1].since == 10
    assert changes(first, replace(first, comment="who buys")) == []


def test_changes_of_a_source_table_are_described_in_words() -> None:
    before, after = table("id: int", "a: int"), table("id: bigint", "b: date", key=("id", "b"))
    words = " | ".join(changes(before, after))
    assert all(part in words for part in ("column b (date) is new", "column a (int) is missing", "bigint", "id, b"))


LETTERS = ("a", "b", "c", "d")
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
        names = ["id", *self.random.sample(LETTERS, self.random.randrange(4))]
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
    own = {name: random.choice(TYPES) for name in random.sample(("id", *LETTERS), random.randrange(4))}
    declared = columns(**own)
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


@given(st.integers(0, 2**32))
@settings(max_examples=300)
def test_stored_answers_of_a_catalogue_complete_the_settings(seed: int) -> None:
    check(seed)


def holds(seed: int) -> bool:
    try:
        check(seed)
    except AssertionError:
        return False
    return True


# The laws can fail: each rule, taken away, breaks one of them on some source.

FOUND = 300
"""So many sources get to betray a rule that is broken; most need a few."""

complete_rightly, order_rightly = source_catalogue.complete, layout._order_of


def forgets_what_it_said_before(answers: Sequence[Answer], found: SourceTable, now: int) -> tuple[Answer, ...]:
    return answers_to_keep(answers, found, now)[-1:]


def forgets_nothing(answers: Sequence[Answer], found: SourceTable, now: int) -> tuple[Answer, ...]:
    return answers if answers and answers[-1].is_same(found) else (*answers, Answer(now, found))


def takes_what_it_said_first(declared: DeclaredTable, answers: Sequence[Answer]) -> CompletedTable:
    return complete_rightly(declared, answers[::-1])


def takes_its_types_for_those_of_the_settings(declared: DeclaredTable, answers: Sequence[Answer]) -> CompletedTable:
    made = complete_rightly(declared, answers)
    return replace(made, schema=complete_rightly(DeclaredTable(), answers).schema)


def knows_the_last_order_alone(declared: DeclaredTable, answers: Sequence[Answer]) -> CompletedTable:
    made = complete_rightly(declared, answers)
    return replace(made, orders=made.orders[:1])


def takes_the_newest_of_two_orders(
    name: str, width: int, expected: ExpectedLayout, **rest: bool
) -> tuple[str, ...]:
    found = next((order for order in expected.orders if width - len(order) in (0, 1)), None)
    return found or order_rightly(name, width, expected, **rest)


BROKEN: list[tuple[Any, str, Any]] = [
    (source_catalogue, "answers_to_keep", forgets_what_it_said_before),
    (source_catalogue, "answers_to_keep", forgets_nothing),
    (source_catalogue, "KEEP_FOR", KEEP_FOR * 2),
    (source_catalogue, "_bare", lambda found: found.names),
    (source_catalogue, "complete", takes_what_it_said_first),
    (source_catalogue, "complete", takes_its_types_for_those_of_the_settings),
    (source_catalogue, "complete", knows_the_last_order_alone),
    (layout, "_order_of", takes_the_newest_of_two_orders),
]


@pytest.mark.parametrize(
    ("module", "name", "broken"), BROKEN, ids=lambda part: getattr(part, "__name__", str(part))
)
def test_a_rule_taken_away_breaks_a_law(
    module: Any, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, broken)
    assert not all(map(holds, range(FOUND)))


# The key behind rules.


def test_the_key_of_the_table_is_what_the_rules_make_of_that_of_the_source() -> None:
    source = columns(id="int", name="string")
    assert table_key(shape([Rename(column="id", to="customer")], source), ("id",)) == ("customer",)
    assert table_key(shape([], source), ("id",)) == ("id",)


def test_a_key_that_the_rules_leave_out_must_be_named() -> None:
    made = shape([Rename(column="id", to="customer")], columns(id="int", name="string"))
    with pytest.raises(ConfigError, match="name, of the primary key"):
        table_key(replace(made, schema=Schema((Column("customer", Type("int")),))), ("name",))
