"""An event says nothing of a column that its table got since it came, however often it is folded again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import memory_jobs
import pytest
from memory_jobs import DELETE, INSERT, UPDATE, columns, item
from model_laws import Player

from lakeward.core.dimension import ORDERED, Within
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Record
from lakeward.core.merge.facts import BatchFacts, Capability
from lakeward.core.merge.fold import Row
from lakeward.core.plan import plan
from lakeward.core.progress import Progress

NARROW = columns(id="int", a="int")
WIDE = columns(id="int", a="int", b="int")
DIMENSION = item(NARROW, lateness=Within(10))


def event(operation: Operation, at: int, key: int = 1, **cells: Any) -> ChangeEvent:
    """Return a change, committed `at` a time; it comes of an object of its own."""
    return memory_jobs.event(operation, at, key, at=100 * key + at, time=at, **cells)


def rows(before: Sequence[ChangeEvent], since: Sequence[ChangeEvent]) -> Player:
    """Deliver changes one by one: some of files without the column, then others of files with it."""
    player = Player(DIMENSION)
    for found in before:
        player.deliver([found])
    player.dimension = replace(DIMENSION, schema=WIDE)
    for found in since:
        player.deliver([found])
    return player


def cells(row: Row | None) -> Any:
    return None if row is None or row.deleted else (row.cells["a"], row.cells.get("b"))


def test_an_older_update_keeps_the_value_of_a_late_file() -> None:
    player = rows([event(UPDATE, 5, a=5)], [event(INSERT, 3, a=3, b=3)])
    assert cells(player.rows[1,]) == (5, 3)


def test_an_older_insert_has_null_in_the_new_column() -> None:
    player = rows([event(INSERT, 5, a=5)], [event(INSERT, 3, a=3, b=3)])
    assert cells(player.rows[1,]) == (5, None)


LATE = {"before": event(DELETE, 3), "behind": event(DELETE, 7), "part": event(UPDATE, 7, a=7)}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_an_update_that_was_complete_when_it_came_still_makes_a_row(late: ChangeEvent) -> None:
    """Where none stood: it waited for none, and does not begin to wait."""
    player = rows([event(UPDATE, 5, a=5)], [late, event(INSERT, 4, 2, a=4, b=4), event(DELETE, 4)])
    expected = {DELETE: None, UPDATE: (7, None)}[late.operation] if late.position.sequence == 7 else (5, None)
    assert cells(player.rows.get((1,))) == expected
    assert player.counts.waiting == 0


def test_a_key_change_that_was_complete_when_it_came_still_makes_a_row() -> None:
    moved = replace(event(UPDATE, 5, 2, a=5), old_key=(1,))
    player = rows([event(INSERT, 4, a=4), moved], [event(DELETE, 3)])
    assert cells(player.rows[2,]) == (5, None)
    player.deliver([replace(event(DELETE, 4, a=4), position=Position(1, 4, 900, 1))])
    assert cells(player.rows[2,]) == (5, None)


def test_an_update_that_lacked_a_column_when_it_came_waits_for_its_row() -> None:
    player = rows([], [event(UPDATE, 5, a=5), event(DELETE, 3)])
    assert cells(player.rows.get((1,))) is None
    assert player.counts.waiting == 1


def test_an_update_below_the_low_watermark_still_makes_a_row() -> None:
    player = rows([event(UPDATE, 5, a=5)], [event(INSERT, 6, 2, a=6, b=6), event(INSERT, 30, 2, a=30, b=30)])
    assert player.memory.low_watermark is not None
    assert player.memory.low_watermark.sequence >= 5
    assert cells(player.rows[1,]) == (5, None)


@pytest.mark.parametrize(("least", "lateness", "is_folded"), [(4, 10, True), (6, 10, False), (4, None, False)])
def test_a_batch_with_events_older_than_the_new_column_is_folded(
    least: int, lateness: int | None, is_folded: bool
) -> None:
    """Batches of whole rows are not: an update that is remembered would say NULL there."""
    dimension = replace(DIMENSION, schema=WIDE, lateness=ORDERED if lateness is None else Within(lateness))
    before = Record(1, frozenset({1}), Position(1, 5, 1, 1), Position(1, 5, 1, 1), time=5)
    grown = replace(before, batch=2, least=Position(1, 9, 2, 1), greatest=Position(1, 9, 2, 1), added=True)
    place = Position(1, least, 3, 1)
    facts = BatchFacts(schema=WIDE, operations={UPDATE: 1}, least=place, greatest=place)
    found = plan(
        dimension,
        facts,
        Progress(batch=2, high_watermark=grown.greatest),
        stored=WIDE,
        capabilities=frozenset(Capability),
        records=[before, grown],
    )
    assert found.folds_remembered is is_folded
