"""The law of schema: a legal change loses no value, an illegal one touches no row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from drifting import Drift, Row, fits, illegal, legal, row_of
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from memory_jobs import item

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SchemaConflict
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.plan import plan
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.schema_changes.evolution import Evolution, Policies, evolve

Evolve = Callable[[Schema, Schema, Policies, Sequence[str]], Evolution]
LEGAL = legal().flatmap(lambda drift: st.tuples(st.just(drift), row_of(drift.before, 1), row_of(drift.after, 2)))


def loses_a_value(evolve: Evolve, drift: Drift, then: Row, now: Row) -> bool:
    """Whether the columns that a table has afterwards cannot hold what it had, or what comes."""
    found = evolve(drift.before, drift.after, Policies(renames=drift.renames), ["id"])
    types = {column.name: column.type for column in found.schema}
    cells = [*drift.kept(then).items(), *now.items()]
    return bool(found.refused) or not all(name in types and fits(cell, types[name]) for name, cell in cells)


@given(LEGAL)
def test_a_legal_change_loses_no_value(case: tuple[Drift, Row, Row]) -> None:
    """And the same columns change nothing any more, once the table has followed."""
    assert not loses_a_value(evolve, *case)
    drift = case[0]
    policies = Policies(renames=drift.renames)
    found = evolve(drift.before, drift.after, policies, ["id"])
    again = evolve(found.schema, drift.after, policies, ["id"])
    assert (again.schema, again.changes, again.refused) == (found.schema, (), ())


@given(illegal())
def test_an_illegal_change_is_refused_before_anything_is_done(drift: Drift) -> None:
    dimension = item(Schema(()), policies=Policies(renames=drift.renames))
    facts = BatchFacts(schema=drift.after)
    with pytest.raises(SchemaConflict, match="columns of the source and of the table differ"):
        plan(dimension, facts, Progress(batch=1), stored=drift.before, capabilities=frozenset())


def test_the_advice_for_a_narrower_type_is_to_keep_the_type_of_the_table() -> None:
    """To declare the narrower type would change nothing."""
    before, after = (Schema((Column("n", parse_type(type_)),)) for type_ in ("bigint", "int"))
    dimension = Dimension(name=TableName("shop", "item"), schema=Schema(()), key=())
    with pytest.raises(SchemaConflict) as raised:
        plan(dimension, BatchFacts(schema=after), Progress(batch=1), stored=before, capabilities=frozenset())
    assert '`narrow = "evolve"`' in (raised.value.todo or "")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("decimal(10,2)", "decimal(10,4)", "the decimal with the most digits"),
        ("decimal(10,2)", "bigint", "the decimal with the most digits"),
        ("date", "timestamp", "`string`, where its files are text"),
        ("int", "string", "`string`, where its files are text"),
        ("bigint", "double", "`double`: it is exact for whole numbers up to 9,007,199,254,740,992"),
        ("decimal(10,2)", "float", "No type holds both of files of Parquet"),
    ],
)
def test_the_advice_for_another_type_is_a_type_that_holds_both(before: str, after: str, words: str) -> None:
    schemas = [Schema((Column("id", parse_type("int")), Column("a", parse_type(text)))) for text in (before, after)]
    dimension = item(Schema(()))
    stored, sent = schemas
    with pytest.raises(SchemaConflict) as raised:
        plan(dimension, BatchFacts(schema=sent), Progress(batch=1), stored=stored, capabilities=frozenset())
    assert words in str(raised.value.todo)


def takes_the_columns_of_the_batch(
    current: Schema, incoming: Schema, policies: Policies, key: Sequence[str]
) -> Evolution:
    return Evolution(incoming)


def keeps_its_types(current: Schema, incoming: Schema, policies: Policies, key: Sequence[str]) -> Evolution:
    found = evolve(current, incoming, policies, key)
    own = {c.name: c.type for c in current}
    return replace(found, schema=Schema(tuple(Column(c.name, own.get(c.name, c.type)) for c in found.schema)))


def looks_at_columns_alone(current: Schema, incoming: Schema, policies: Policies, key: Sequence[str]) -> Evolution:
    """Adds columns, and no fields within them."""
    found = evolve(current, incoming, policies, key)
    nested = {c.names[0] for c in found.changes if c.is_nested}
    own = {policies.renames.get(c.name, c.name): c.type for c in current}
    types = [Column(c.name, own[c.name] if c.name in nested else c.type) for c in found.schema]
    return replace(found, schema=Schema(tuple(types)))


@pytest.mark.parametrize("broken", [takes_the_columns_of_the_batch, keeps_its_types, looks_at_columns_alone])
def test_the_law_finds_evolutions_that_lose_values(broken: Evolve) -> None:
    case = find(
        LEGAL,
        lambda case: loses_a_value(broken, *case),
        settings=settings(max_examples=2000, phases=[Phase.generate]),
    )
    assert loses_a_value(broken, *case)
