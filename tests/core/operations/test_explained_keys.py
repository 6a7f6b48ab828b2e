"""The explanation of a key: its steps lead to the stored row, and have the verdicts that were counted."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_jobs import event, item
from model_laws import MODES, Player, draw_features, loaded_epoch
from tries import tries

from lakeward.adapters.memory import MemoryTable
from lakeward.core.dimension import Dimension, Lateness, Unbounded
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Key, Operation, Position
from lakeward.core.history.options import History, Kind
from lakeward.core.merge.change_log import BaseRow, Reason
from lakeward.core.merge.counts import Counts, Verdict
from lakeward.core.merge.effects import REMOVED, Effect, Effects, effect_of
from lakeward.core.merge.fold import Row, apply
from lakeward.core.operations.explain import explain
from lakeward.core.operations.key_state import KeyState, QuarantinedRow, Remembered, Stored
from lakeward.core.progress import Progress
from lakeward.plugins.testing.simulated_database import (
    SCHEMA,
    Features,
    Feed,
    batches,
    delivery_order,
    feed,
    with_repeats,
)

RANDOMS = st.randoms(use_true_random=False)
thorough = settings(max_examples=tries(40, 200), deadline=None)
HISTORY = History()


def play_feed(random: Random, source: Feed, dimension: Dimension) -> tuple[MemoryTable, list[Counts]]:
    """Deliver a feed; return its table and the counts of each batch."""
    player, delivered, counts = Player(dimension), set[int](), []
    for batch in batches(random, with_repeats(random, delivery_order(random, source.objects, dimension.lateness))):
        delivered.update(batch)
        events = [event for number in batch for event in source.objects[number]]
        counts.append(player.deliver(events, loaded=loaded_epoch(source, delivered)))
    progress = Progress(batch=player.number)
    return MemoryTable(dimension, rows=player.rows, memory=player.memory, progress=progress), counts


def keys_of(source: Feed) -> set[Key]:
    return {key for event in source.events for key in event.keys}


# Laws.


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS)
def test_effects_leave_the_row_that_a_fold_leaves_after_each_event_that_comes(
    lateness: Lateness, random: Random
) -> None:
    features = replace(draw_features(random, lateness), moves=False)
    source, dimension = feed(random, features), features.dimension(lateness)
    for key in keys_of(source):
        events = sorted({e.position: e for e in source.events if key in e.keys or not e.keys}.values(), key=placed)
        base = random.choice([None, Row(dict.fromkeys(SCHEMA.names, -1), Position(0, 0, 0, 0))])
        effects = Effects(REMOVED if base is None else Effect(base.cells, replaces=True), len(events))
        selection: list[ChangeEvent] = []
        for place in random.sample(range(len(events)), len(events)):
            effects.put(place, effect_of(events[place], SCHEMA.names))
            selection.append(events[place])
            row = apply(dimension, {} if base is None else {key: base}, selection).rows.get(key)
            assert effects.row == (None if row is None or row.deleted else row.cells)


def test_an_effect_sets_the_sent_fields_of_a_struct() -> None:
    event = ChangeEvent(operation=Operation.UPDATE, position=Position(1, 1, 1, 1), key=(1,), cells={})
    first = effect_of(replace(event, cells={"id": 1, "s": {"x": 1, "y": UNSET}}), ["id", "s"])
    second = effect_of(replace(event, cells={"id": 1, "s": {"x": UNSET, "y": 2}}), ["id", "s"])
    whole = Effect({"id": 1, "s": {"x": 0, "y": 0}}, replaces=True)
    assert whole.then(first).then(second).cells == {"id": 1, "s": {"x": 1, "y": 2}}
    assert whole.then(first.then(second)).cells == {"id": 1, "s": {"x": 1, "y": 2}}


def placed(event: ChangeEvent) -> Position:
    return event.position


@pytest.mark.parametrize(
    ("lateness", "history"), [*((lateness, None) for lateness in MODES), (Unbounded(), HISTORY)], ids=repr
)
@thorough
@given(random=RANDOMS)
def test_the_steps_lead_from_the_row_before_them_to_the_stored_row(
    lateness: Lateness, history: History | None, random: Random
) -> None:
    """In a history each step goes on from the one before it in the order of the source."""
    features = replace(draw_features(random, lateness), moves=False)
    source = feed(random, features)
    table, _ = play_feed(random, source, replace(features.dimension(lateness), history=history))
    for key in keys_of(source):
        known = table.known(key)
        explained = explain(table.dimension, known)
        assert explained.is_whole
        cells = dict(known.base.row.cells) if known.base is not None and known.base.row is not None else {}
        steps = explained.steps if history is None else sorted(explained.steps, key=lambda step: step.position)
        for step in steps:
            assert all(cells.get(n, UNSET) == was or was is UNSET for n, (was, _) in step.changes.items())
            cells.update({name: is_ for name, (_, is_) in step.changes.items()})
        assert known.stored is None or cells == known.stored.row.cells


def test_a_step_names_changed_columns_that_keep_their_first_value() -> None:
    dimension = replace(Features().dimension(Unbounded()), history=History(kinds={"b": Kind.KEEP_FIRST}))
    player = Player(dimension)
    for place, b in enumerate((10, 20), 1):
        cells = {"id": 1, "a": 1, "b": b}
        position = Position(1, place, place, 1)
        player.deliver(
            [ChangeEvent(operation=Operation.UPDATE, position=position, key=(1,), cells=cells, time=place)]
        )
    table = MemoryTable(dimension, rows=player.rows, memory=player.memory, progress=Progress(batch=2))
    explained = explain(dimension, table.known((1,)))
    assert [(step.changes.get("b"), step.first_values) for step in explained.steps] == [
        ((UNSET, 10), ()),
        ((10, 20), ("b",)),
    ]


@pytest.mark.parametrize("lateness", MODES, ids=repr)
@thorough
@given(random=RANDOMS)
def test_the_steps_are_the_known_events(lateness: Lateness, random: Random) -> None:
    features = draw_features(random, lateness)
    source = feed(random, features)
    table, _ = play_feed(random, source, features.dimension(lateness))
    for key in keys_of(source):
        known = table.known(key)
        explained = explain(table.dimension, known)
        places = {found.event.position for found in known.remembered}
        places |= {known.stored.row.position} if known.stored is not None else set()
        assert sorted(step.position for step in explained.steps) == sorted(places)
        assert all(step.by is None or step.by in places for step in explained.steps)


@thorough
@given(random=RANDOMS)
def test_a_step_has_the_verdict_with_which_its_event_was_counted(random: Random) -> None:
    """Every event is remembered and touches one key; in a history none was overtaken."""
    features = Features(
        sequence=random.choice(["commit", "unique", "none"]), load=random.random() < 0.5, scatter=True
    )
    source = feed(random, features)
    dimension = replace(features.dimension(Unbounded()), history=random.choice([None, HISTORY]))
    table, counts = play_feed(random, source, dimension)
    steps = [step for key in keys_of(source) for step in explain(table.dimension, table.known(key)).steps]
    counted_steps = Counter((step.settled, step.verdict) for step in steps)
    for verdict in (Verdict.APPLIED, Verdict.STALE, Verdict.SUPERSEDED):
        for batch, counted in enumerate(counts, 1):
            assert counted_steps[batch, verdict] == getattr(counted, verdict.value)


@thorough
@given(random=RANDOMS)
def test_the_ties_of_the_steps_are_those_that_were_counted(random: Random) -> None:
    """In a feed of one batch."""
    features = Features(sequence="commit")
    source = feed(random, features)
    player = Player(features.dimension(Unbounded()))
    counted = player.deliver(source.events).ties
    table = MemoryTable(player.dimension, rows=player.rows, memory=player.memory, progress=Progress(batch=1))
    steps = [step for key in keys_of(source) for step in explain(table.dimension, table.known(key)).steps]
    all_ties = sum(step.tie is not None or step.alike is not None for step in steps)
    assert sum(step.tie is not None for step in steps) <= counted <= all_ties


# Examples.

ITEM = item(SCHEMA, lateness=Unbounded())
BARE = Row({"id": 1, "a": 0, "b": 0}, Position(1, LOAD_SEQUENCE, 1, 1))


def remembered(
    sequence: int, batch: int, *, settled: int | None = 0, operation: Operation = Operation.UPDATE, **cells: int
) -> Remembered:
    """Return a remembered event of key 1; those of batch 0 are settled in the batch that brings them."""
    change = event(operation, sequence, at=sequence + 100 * batch, **cells)
    return Remembered(event=change, batch=batch, settled=batch if settled == 0 else settled)


def known(*events: Remembered, row: Row | None = None, refused: tuple[QuarantinedRow, ...] = ()) -> KeyState:
    stored = None if row is None else Stored(row, 1)
    return KeyState(
        key=(1,),
        progress=Progress(batch=9),
        remembered=events,
        quarantined=refused,
        stored=stored,
        base=BaseRow((1,), BARE, 1),
    )


def verdicts(*events: Remembered) -> list[tuple[Verdict, int | None]]:
    """Return each step's verdict, and the number of the step that it names."""
    steps = explain(ITEM, known(*events)).steps
    places = [step.position for step in steps]
    return [(step.verdict, None if step.by is None else places.index(step.by) + 1) for step in steps]


def test_an_event_is_overtaken_by_an_earlier_batch_or_by_its_own() -> None:
    newest, other = remembered(9, 1, a=9, b=9), remembered(8, 2, a=8, b=8)
    late, with_it = remembered(3, 3, a=3, b=3), remembered(4, 3, a=4, b=4)
    assert verdicts(newest, other, late, with_it) == [
        (Verdict.APPLIED, None),
        (Verdict.STALE, 1),
        (Verdict.STALE, 1),
        (Verdict.STALE, 1),
    ]
    assert verdicts(late, with_it) == [(Verdict.SUPERSEDED, 2), (Verdict.APPLIED, None)]


def test_a_late_event_that_completes_cells_is_applied_and_names_them() -> None:
    steps = explain(ITEM, known(remembered(9, 1, a=9), remembered(5, 2, a=5, b=5))).steps
    assert [(step.verdict, step.changes) for step in steps] == [
        (Verdict.APPLIED, {"a": (0, 9)}),
        (Verdict.APPLIED, {"b": (0, 5)}),
    ]
    assert [step.unset for step in steps] == [("b",), ()]


def test_in_a_history_a_late_event_is_applied_in_its_place() -> None:
    came = known(remembered(5, 1, a=5, b=0), remembered(9, 2, a=9, b=0), remembered(7, 3, a=7, b=0))
    steps = explain(replace(ITEM, history=HISTORY), came).steps
    assert [(step.verdict, None if step.by is None else step.by.sequence, step.changes) for step in steps] == [
        (Verdict.APPLIED, None, {"a": (0, 5)}),
        (Verdict.APPLIED, None, {"a": (7, 9)}),
        (Verdict.APPLIED, 9, {"a": (5, 7)}),
    ]


def test_a_late_delete_leaves_a_newer_partial_event_without_its_row() -> None:
    delete = remembered(5, 2, operation=Operation.DELETE)
    assert verdicts(remembered(9, 1, a=9), delete) == [(Verdict.WAITING, None), (Verdict.APPLIED, None)]


def test_a_tie_has_other_contents_and_a_copy_has_the_same() -> None:
    one, other, copy = (remembered(5, batch, a=a, b=0) for batch, a in ((1, 1), (2, 2), (3, 2)))
    steps = explain(ITEM, known(one, other, copy, replace(other, batch=4, settled=4))).steps
    first, second = one.event.position, other.event.position
    assert [(step.tie, step.alike) for step in steps] == [(None, None), (first, None), (None, second), (None, None)]
    assert (steps[3].verdict, steps[3].by) == (Verdict.DUPLICATE, second)


def test_an_event_waits_for_a_held_event_below_it_or_for_its_load() -> None:
    held = QuarantinedRow(position=Position(1, 3, 3, 1), reason=Reason.CAST, batch=1)
    given_up = replace(held, position=Position(1, 4, 4, 1), discarded_in=2)
    final = replace(held, position=Position(1, 2, 2, 1), reason=Reason.TOO_LATE)
    waiting, released = remembered(5, 2, settled=None, a=5, b=5), remembered(6, 2, settled=4, a=6, b=6)
    staged = replace(waiting, event=replace(waiting.event, position=Position(2, 1, 9, 1)))
    explained = explain(ITEM, known(waiting, released, refused=(final, held, given_up))).steps
    assert {step.position: step.by for step in explained if step.verdict is Verdict.WAITING} == {
        waiting.event.position: held.position
    }
    assert [(step.batch, step.settled) for step in explained if step.verdict is Verdict.APPLIED] == [(2, 4)]
    assert [step.by for step in explain(ITEM, known(staged)).steps] == [None]


def test_an_event_waits_for_a_key_change_that_waits() -> None:
    """The key change holds both of its keys: the row in quarantine may be of the other one."""
    move = remembered(4, 2, settled=None, a=4)
    move = replace(move, event=replace(move.event, old_key=(2,)))
    before, behind = remembered(3, 2, a=3, b=3), remembered(5, 2, settled=None, a=5, b=5)
    explained = explain(ITEM, known(before, move, behind)).steps
    assert [(step.verdict, step.by) for step in explained] == [
        (Verdict.APPLIED, None),
        (Verdict.WAITING, None),
        (Verdict.WAITING, move.event.position),
    ]


def test_the_stored_row_shows_its_event_where_no_other_record_does() -> None:
    row = Row({"id": 1, "a": 7, "b": 0}, Position(1, 7, 7, 1))
    (step,) = explain(ITEM, known(row=row)).steps
    assert (step.operation, step.verdict, step.changes) == (None, Verdict.APPLIED, {"a": (0, 7)})
    (step,) = explain(ITEM, replace(known(row=BARE), base=None)).steps
    assert step.operation is Operation.READ


def test_an_explanation_says_where_the_stored_row_does_not_follow_from_the_steps() -> None:
    assert explain(ITEM, known(remembered(5, 1, a=5, b=5))).is_whole is False
    assert explain(ITEM, known(remembered(5, 1, operation=Operation.DELETE))).is_whole is True


def test_no_cell_of_an_unknown_row_is_made_up() -> None:
    found = replace(known(remembered(5, 1, a=5)), base=None)
    (step,) = explain(ITEM, found).steps
    assert (step.verdict, step.changes) == (Verdict.APPLIED, {"id": (UNSET, 1), "a": (UNSET, 5)})


def test_a_key_change_is_a_step_of_both_its_keys() -> None:
    move = remembered(5, 1, a=5)
    away = replace(move, event=replace(move.event, key=(2,), old_key=(1,)))
    explained = explain(ITEM, known(away))
    assert explained.is_whole
    assert (explained.steps[0].key, explained.steps[0].old_key, explained.steps[0].changes) == ((2,), (1,), {})
    here = replace(move, event=replace(move.event, old_key=(2,)))
    (step,) = explain(ITEM, known(here)).steps
    assert (step.old_key, step.verdict, step.changes) == ((2,), Verdict.APPLIED, {"a": (0, 5)})


@pytest.mark.parametrize("order", ["in order", "backwards", "late in part"])
def test_a_busy_key_is_explained_in_seconds(order: str) -> None:
    """The cost grows with the events, not with their square: 8,000 of them took minutes."""
    number, columns = 8_000, [name for name in SCHEMA.names if name != "id"]
    found = []
    for index in range(number):
        place = index if order == "in order" else number - index
        cells = {"id": 1, columns[index % len(columns)]: index}
        if order != "late in part":
            cells |= dict.fromkeys(columns, index)
        at = Position(1, place + 1, place + 1, 1)
        event = ChangeEvent(operation=Operation.UPDATE, position=at, key=(1,), cells=cells)
        found.append(Remembered(event=event, batch=index + 1, settled=index + 1))
    known = KeyState(key=(1,), progress=Progress(batch=number), remembered=found)
    begun = time.process_time()
    assert len(explain(ITEM, known).steps) == number
    assert time.process_time() - begun < 5


def test_after_a_swap_each_key_shows_the_cells_of_its_new_row() -> None:
    """In one transaction a row takes along the cells that it had when the transaction began."""
    out, back = remembered(5, 1, b=7), remembered(6, 1, b=8)
    unset = {"id": 1, "a": UNSET}
    out = replace(out, event=replace(out.event, key=(2,), old_key=(1,), transaction="t", cells={"id": 2, "b": 7}))
    back = replace(back, event=replace(back.event, old_key=(2,), transaction="t", cells={**unset, "b": 8}))
    row = Row({"id": 1, "a": 42, "b": 8}, back.event.position)
    for stored, came in ((None, {}), (row, {"a": (UNSET, 42)})):
        _, entered = explain(ITEM, known(out, back, row=stored)).steps
        assert entered.changes == {"id": (UNSET, 1), "b": (UNSET, 8), **came}


def test_a_waiting_partial_row_shows_the_cells_that_it_sent() -> None:
    (step,) = explain(ITEM, replace(known(remembered(5, 1, a=7)), base=BaseRow((1,), None, 1))).steps
    assert (step.verdict, step.unset) == (Verdict.WAITING, ("b",))
    assert step.changes == {"id": (UNSET, 1), "a": (UNSET, 7)}
