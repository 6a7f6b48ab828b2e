"""The law of rules on partial rows: rules before the fold give the same rows as rules after it.

An update may send only some cells. A column that rules make of several ones is recomputed from the stored row, and
refused if the row lacks an input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from rule_lists import SECRETS, cells, rules
from rule_lists import SOURCE as MANY
from ruled_lake import apply_rules, ruled_player
from spark import MakeLake
from tries import tries

from lakeward.adapters.memory import MemoryTable, facts_of
from lakeward.adapters.memory import shaper as memory_shaping
from lakeward.adapters.memory.shaper import MemoryShaper
from lakeward.adapters.spark.shaping.shaper import SparkShaper
from lakeward.core import plan as core_plan
from lakeward.core.dimension import ORDERED, Dimension, Lateness, TableName, Unbounded, Within
from lakeward.core.errors import ConfigError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import Capability
from lakeward.core.merge.fold import apply
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Batch, MergeResult
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.shaping import cells as core_cells
from lakeward.core.shaping.cells import ShapedRow, recompute, shape_row
from lakeward.core.shaping.column_rules import TEXT, Cast, Default, Hash, Mask, Rename, Rule, Trim
from lakeward.core.shaping.recomputed_columns import RecomputedColumns, recomputed
from lakeward.core.shaping.reshaping_rules import Concat, Constant, Drop, Split, Sql
from lakeward.core.shaping.shape import Shape, check_moves, shape
from lakeward.core.shaping.shaped_source import TableRules
from lakeward.plugins.testing.player import CRASHES, MemoryLake, Player
from lakeward.plugins.testing.scripts import PACKED, TOLERANT, Script, pack, pack_late

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
    Concat(columns=("one", "b"), to="pair", separator="-", nulls="skip"),
    Concat(columns=("pair", "site", "two"), to="all"),
    Mask(column="pair", keep=1),
    Rename(column="pair", to="label"),
    Trim(column="one", to="word", characters="p"),
    Concat(columns=("word", "number"), to="with_key", nulls="skip"),
    Drop(columns=("c", "word")),
)
FORM = shape(RULES, SOURCE)
TABLE = Dimension(name=NAME, schema=FORM.schema, key=("number",))


@st.composite
def feeds(draw: st.DrawFn) -> Sequence[ChangeEvent]:
    """Draw changes of two keys. Cells may be NULL or not sent. `c` is dropped and need not be sent."""
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


def shaped_feed(events: Sequence[ChangeEvent]) -> Batch[Any]:
    source = Dimension(name=NAME, schema=SOURCE, key=("id",))
    batch = Batch(events, facts_of(source, events))
    return MemoryShaper(TableRules(columns=RULES, source=SOURCE)).shape(batch, TABLE, 1).batch


def folded_and_made_again(batch: Batch[Any]) -> Any:
    """Return the rows and the fold result, as an adapter computes them."""
    again = batch.facts.recomputed
    columns = Schema(tuple(column for column in FORM.schema if column.name not in again.columns))
    folded = apply(replace(TABLE, schema=columns), {}, batch.frame)
    rows = {key: recompute(row.cells, again) for key, row in folded.rows.items() if not row.deleted}
    return rows, folded


def differ(events: Sequence[ChangeEvent], found: Callable[[Batch[Any]], Any] = folded_and_made_again) -> bool:
    """Return True if rules before the fold give other rows than rules after it."""
    folded = apply(Dimension(name=NAME, schema=SOURCE, key=("id",)), {}, events)
    wanted = {key: shape_row(row.cells, FORM, {}).cells for key, row in folded.rows.items() if not row.deleted}
    rows, noted = found(shaped_feed(events))
    return bool(rows != wanted or noted.incomplete != folded.incomplete)


@given(feeds())
def test_rules_before_and_after_the_fold_give_the_same_rows(events: Sequence[ChangeEvent]) -> None:
    assert not differ(events)


@given(feeds())
def test_partial_inserts_are_counted(events: Sequence[ChangeEvent]) -> None:
    """Except those in which the rules leave no NULL."""
    partial = {e.position for e in events if e.operation is Operation.INSERT and e.cells["b"] is UNSET}
    assert partial <= apply(TABLE, {}, shaped_feed(events).frame).unset_as_null


def takes_nothing_for_sent(cells: Mapping[str, Any], form: Shape, secrets: Mapping[str, bytes]) -> ShapedRow:
    known = {name: None if value is UNSET else value for name, value in cells.items()}
    return core_cells.shape_row(known, form, secrets)


def test_the_law_fails_on_rules_that_read_unsent_cells_as_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_shaping, "shape_row", takes_nothing_for_sent)
    assert differ(find(feeds(), differ, settings=settings(max_examples=500, phases=[Phase.generate])))


def folds_what_is_made_of_several(batch: Batch[Any]) -> Any:
    """Fold derived columns too, so that they keep their old values if an input was not sent."""
    folded = apply(TABLE, {}, batch.frame)
    return {key: row.cells for key, row in folded.rows.items() if not row.deleted}, folded


def test_the_law_fails_on_derived_columns_that_are_folded() -> None:
    def is_seen(events: Sequence[ChangeEvent]) -> bool:
        return differ(events, folds_what_is_made_of_several)

    assert is_seen(find(feeds(), is_seen, settings=settings(max_examples=500, phases=[Phase.generate])))


# Any rules, on any row.


def made_and_made_again(
    count: int, of: Callable[[RecomputedColumns], RecomputedColumns] = lambda again: again
) -> Iterator[tuple[object, object]]:
    """Yield rows of random rules, and the same rows recomputed from their other columns."""
    for seed in range(count):
        random = Random(seed)
        form = shape(rules(random, random.randrange(2, 12)), MANY)
        again = recomputed(form, ("id",), in_part=False, moves=True)
        made = shape_row(cells(random, 1), form, SECRETS)
        if again and not made.misfits:
            assert again.inputs <= set(form.schema.names) - again.columns.keys()
            left = {name: value for name, value in made.cells.items() if name not in again.columns}
            yield made.cells, recompute(left, of(again))


def test_recomputing_a_whole_row_changes_nothing() -> None:
    pairs = list(made_and_made_again(400))
    assert len(pairs) > 40, "most rules make nothing of several columns; enough do"
    for made, again in pairs:
        assert made == again


def test_the_law_fails_on_rules_that_read_columns_by_their_final_names() -> None:
    def by_name(again: RecomputedColumns) -> RecomputedColumns:
        steps = tuple(replace(one, reads={name: name for name in one.reads}) for one in again.steps)
        return replace(again, steps=steps)

    assert any(made != again for made, again in made_and_made_again(400, by_name))


# A table, batch by batch.

PACKED_RULES: tuple[Rule, ...] = (
    Default(column="b", value="7"),
    Cast(column="a", type=TEXT, to="word"),
    Concat(columns=("word", "b"), to="both", separator="-", nulls="skip"),
    Mask(column="both", keep=2, to="shown"),
    Rename(column="b", to="number"),
    Concat(columns=("id", "word"), to="label"),
)
PACKED_FORM = shape(PACKED_RULES, PACKED)
TABLE_RULES = TableRules(columns=PACKED_RULES, source=PACKED)
SEEDS = st.integers(0, 2**32)


def script_of(random: Random, lateness: Lateness, histories: int = 2) -> Script:
    if lateness is ORDERED:
        return pack(random, histories, bad=0.03, unset=True)
    return pack_late(random, histories, lateness, bad=0.03, in_part=True, truncates=random.random() < 0.3)


def has_right_rows(script: Script, lake: MemoryLake, seed: int = 0) -> bool:
    """Return True if a table ends with the rows that the rules make of the rows of the source."""
    player = ruled_player(script, PACKED_FORM, lake, MemoryShaper, TABLE_RULES)
    player.play(Random(seed).sample(CRASHES, 4))
    return player.moments[-1].rows == apply_rules(PACKED_FORM, script.truth)


@pytest.mark.parametrize("lateness", [ORDERED, Within(3), Unbounded()], ids=repr)
@settings(max_examples=tries(20, 60), deadline=None)
@given(seed=SEEDS)
def test_partial_rows_give_the_rows_of_whole_ones(lateness: Lateness, seed: int) -> None:
    """With loads, partial rows, key changes, late files, repeats, discarded rows and crashes."""
    assert has_right_rows(script_of(Random(seed), lateness), MemoryLake(), seed)


class FoldsWhatIsMadeOfSeveral(MemoryTable):
    """Folds each column for itself, derived ones too."""

    def resolve(self, plan: MergePlan, frame: Any) -> MergeResult:
        return MemoryTable.resolve(self, replace(plan, recomputed=RecomputedColumns()), frame)


def test_the_law_fails_on_a_table_that_recomputes_nothing() -> None:
    scripts = [script_of(Random(seed), lateness) for seed in range(20) for lateness in (ORDERED, Within(3))]
    assert not all(has_right_rows(script, MemoryLake(FoldsWhatIsMadeOfSeveral)) for script in scripts)


# On Iceberg, compared with the reference adapter after each batch.

LOAD = Position(1, LOAD_SEQUENCE, 1, 0)
KEYS = ("h", "id")


def event(operation: Operation, key: int, at: int, number: int, **cells: object) -> ChangeEvent:
    """Return an event of an object at a time. Cells `a` and `b` are not sent unless they are given."""
    place = LOAD._replace(row=key) if operation is Operation.READ else Position(1, at, number, key)
    given = {"h": 0, "id": key, "a": UNSET, "b": UNSET, **cells}
    time = None if operation is Operation.READ else at
    return ChangeEvent(operation=operation, position=place, key=(0, key), cells=given, time=time, transaction=at)


def in_three_batches() -> Script:
    """Return partial updates of loaded rows, late ones, some behind a held row, and a partial key change."""
    read, update = Operation.READ, Operation.UPDATE
    load = [event(read, key, 0, 1, a=key, b=10 * key) for key in (1, 2, 3)]
    parts = [event(update, 1, 5, 2, a=7), event(update, 2, 5, 2, b=70), event(Operation.INSERT, 4, 5, 2, a=4)]
    spoilt = event(update, 2, 7, 3, a=0)
    moved = replace(event(update, 5, 7, 3), old_key=(0, 3))
    held = Reject(spoilt.position, Reason.CAST, spoilt.keys, time=7)
    late = [event(update, 1, 4, 4, a=1, b=11), event(update, 2, 8, 4, a=8), event(update, 4, 8, 4, b=None)]
    dimension = Dimension(name=NAME, schema=PACKED, key=KEYS, lateness=Within(4), tolerance=TOLERANT)
    good = [*load, *parts, moved, *late]
    return Script(dimension, [load, [*parts, held, moved], late], good, in_part=True)


def on_iceberg(spark: SparkSession, make_lake: MakeLake, script: Script) -> Player:
    """Return a player on Iceberg that stops at the first wrong moment."""
    expected = ruled_player(script, PACKED_FORM, MemoryLake(), MemoryShaper, TABLE_RULES).play().moments

    def shaper(rules: TableRules) -> SparkShaper:
        return SparkShaper(rules, lambda: spark, SECRETS.__getitem__)

    return ruled_player(script, PACKED_FORM, make_lake(), shaper, TABLE_RULES, expected)


@pytest.mark.spark
def test_iceberg_recomputes_the_columns_of_the_law(spark: SparkSession, make_lake: MakeLake) -> None:
    script = in_three_batches()
    player = on_iceberg(spark, make_lake, script).play()
    assert player.moments[-1].rows == apply_rules(PACKED_FORM, script.truth)


@pytest.mark.spark
def test_the_law_fails_on_an_iceberg_table_that_recomputes_nothing(
    spark: SparkSession, make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = on_iceberg(spark, make_lake, in_three_batches())
    monkeypatch.setattr(core_plan, "select_recomputable", lambda *_: RecomputedColumns())
    with pytest.raises(AssertionError):
        player.play()


# Refused rules.

BOTH = Concat(columns=("a", "c"), to="d")


@pytest.mark.parametrize(
    ("rules", "said", "todo"),
    [
        (
            (BOTH, Drop(columns=("c",))),
            "it needs a, c, .* rule 2, drop, takes away c",
            "Let the table keep c as it is",
        ),
        ((BOTH, Mask(column="a")), "rule 2, mask, changes a", "Let the table keep a as it is"),
        (
            (Sql(expression="a || c", to="a", type=TEXT, columns=("a", "c")),),
            "rule 1, sql, changes a",
            "`to` makes",
        ),
        ((BOTH, Cast(column="d", type=Type("int"))), "rule 2, cast, would find only then", "try_cast"),
        ((BOTH, Hash(column="d", key="env:K")), "rule 2, hash, would need its secret", "Hash each column before"),
        (
            (Cast(column="a", type=Type("int"), to="n"), Concat(columns=("n", "c"), to="d"), Drop(columns=("n",))),
            "rule 3, drop, takes away n",
            "Let the table keep n",
        ),
        (
            (Rename(column="c", to="e"), Concat(columns=("a", "e"), to="d"), Drop(columns=("e",))),
            "rule 3, drop, takes away e",
            "Let the table keep e",
        ),
    ],
)
def test_columns_that_cannot_be_recomputed_are_refused(rules: Sequence[Rule], said: str, todo: str) -> None:
    with pytest.raises(ConfigError, match=r"(a|d) is made of several") as error:
        recomputed(shape(rules, SOURCE), ("id",), in_part=True, moves=False)
    assert re.search(said, str(error.value.found))
    assert todo in str(error.value.todo)
    assert "no_sup_value" in str(error.value.todo)
    assert not recomputed(shape(rules, SOURCE), ("id",), in_part=False, moves=False), (
        "rows that come whole need none"
    )


def test_rules_that_make_the_key_are_refused_with_key_changes() -> None:
    with pytest.raises(ConfigError, match="rules make the key"):
        check_moves(shape((Rename(column="id", to="number"),), SOURCE), ("number",))


def test_a_dropped_column_may_be_made_of_several_columns() -> None:
    dropped = shape([BOTH, Drop(columns=("d", "c"))], SOURCE)
    assert not recomputed(dropped, ("id",), in_part=True, moves=True)


def test_a_column_of_the_key_is_always_sent() -> None:
    """If keys may change, it may be the old key of the stored row."""
    form = shape([Concat(columns=("id", "a"), to="d"), Drop(columns=("a",))], SOURCE)
    assert not recomputed(form, ("id",), in_part=True, moves=False)
    with pytest.raises(ConfigError, match="made of several"):
        recomputed(form, ("id",), in_part=True, moves=True)


def test_a_batch_with_partial_rows_is_refused_by_such_rules() -> None:
    rules = TableRules(columns=(BOTH, Drop(columns=("c",))), source=SOURCE)
    update = ChangeEvent(operation=Operation.UPDATE, position=Position(1, 1, 1, 1), key=(1,), cells={"id": 1})
    source = Dimension(name=NAME, schema=SOURCE, key=("id",))
    batch = Batch([update], facts_of(source, [update]))
    assert Capability.UNSET in batch.facts.needs
    with pytest.raises(ConfigError, match="rows come in part"):
        MemoryShaper(rules).shape(batch, source, 1)
