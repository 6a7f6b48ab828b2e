"""Surrogate numbers: which version keeps its own, and which gets one that nothing had before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from memory_jobs import DELETE, INSERT, UPDATE, TableFeed, event, item

from lakeward.core.dimension import Unbounded
from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.history.options import History, Surrogate, ValidityColumns
from lakeward.core.history.surrogate_numbers import assign_numbers
from lakeward.core.history.versions import Columns, Version, Versions
from lakeward.core.operations.rollback import preview_rollback, roll_back
from lakeward.core.progress import Progress

PLACE = Position(1, 1, 1, 1)
COLUMNS = Columns(tracked=("a",))
KEY: Key = (1,)


def version(start: int, end: int | None, a: str) -> Version:
    return Version(start, end, {"id": 1, "a": a}, PLACE, start)


def found(stored: Versions, made: Versions, *numbers: int, highest: int = 9) -> list[int]:
    """Return the numbers of the versions that are made, of those that had these."""
    known = {(KEY, one.valid_from): number for one, number in zip(stored, numbers, strict=True)}
    given = assign_numbers(COLUMNS, known, {KEY: stored}, {KEY: made}, highest)
    return [given[KEY, one.valid_from] for one in made]


BONN = version(1, None, "Bonn")


TWO = (version(1, 5, "Ulm"), version(5, None, "Bonn"))

CASES = {
    "new": ((), (BONN,), [10]),
    "ended": ((BONN,), (version(1, 5, "Bonn"), version(5, None, "Ulm")), [1, 10]),
    "another of the same instant": ((BONN,), (version(1, None, "Ulm"),), [1]),
    "cut": ((BONN,), (version(1, 5, "Bonn"), version(5, 8, "Ulm"), version(8, None, "Bonn")), [1, 10, 11]),
    "moved": ((BONN,), (version(0, None, "Bonn"),), [1]),
    "moved and another": ((BONN,), (version(0, None, "Ulm"),), [10]),
    "moved and ended": ((BONN,), (version(0, 5, "Bonn"), version(5, None, "Ulm")), [10, 11]),
    "moved behind another": (TWO, (version(1, 3, "Ulm"), version(3, None, "Bonn")), [1, 2]),
    "moved in the place of another": (TWO, (version(1, None, "Bonn"),), [1]),
    "gone": (TWO, (version(1, 5, "Ulm"),), [1]),
}


@pytest.mark.parametrize(("had", "made", "numbers"), CASES.values(), ids=CASES)
def test_a_version_keeps_its_number_by_its_start_or_else_by_its_end(
    had: Versions, made: Versions, numbers: list[int]
) -> None:
    assert found(had, made, *range(1, len(had) + 1)) == numbers


def test_a_version_without_a_number_gets_one() -> None:
    """Somebody else may have written it."""
    assert assign_numbers(COLUMNS, {}, {KEY: (BONN,)}, {KEY: (BONN,)}, 9) == {(KEY, 1): 10}


def test_a_version_that_is_equal_only_in_untracked_columns_gets_a_new_number() -> None:
    columns = Columns(tracked=("a", "b"))
    one, other = (replace(BONN, valid_from=at, cells={**BONN.cells, "b": at}) for at in (1, 2))
    assert assign_numbers(columns, {(KEY, 1): 1}, {KEY: (one,)}, {KEY: (other,)}, 1) == {(KEY, 2): 2}
    assert assign_numbers(COLUMNS, {(KEY, 1): 1}, {KEY: (one,)}, {KEY: (other,)}, 1) == {(KEY, 2): 1}


# Through the pipeline.

DIMENSION = item(
    lateness=Unbounded(), history=History(validity_columns=ValidityColumns(surrogate=Surrogate.NUMBER))
)


def change(operation: Operation, key: int, a: int, time: int, **place: int) -> ChangeEvent:
    return event(operation, time, key, time=time, a=a, **place)


def test_the_highest_number_is_stored_and_no_number_is_assigned_twice() -> None:
    feed = TableFeed(DIMENSION)
    feed.deliver(1, change(INSERT, 1, 1, time=1), change(INSERT, 2, 1, time=1, row=2))
    feed.deliver(2, change(UPDATE, 1, 2, time=5, at=2))
    assert (feed.table.numbers, feed.progress.numbered) == ({((1,), 1): 1, ((2,), 1): 2, ((1,), 5): 3}, 3)
    feed.deliver(3, change(DELETE, 1, 2, time=5, at=3))
    feed.deliver(4, change(UPDATE, 2, 2, time=7))
    assert (feed.table.numbers, feed.progress.numbered) == ({((1,), 1): 1, ((2,), 1): 2, ((2,), 7): 4}, 4)
    assert '"numbered":4' in feed.progress.to_json()
    assert Progress.from_json(feed.progress.to_json()) == feed.progress


def test_a_rollback_restores_the_highest_number() -> None:
    feed = TableFeed(DIMENSION)
    feed.deliver(1, change(INSERT, 1, 1, time=1))
    feed.deliver(2, change(UPDATE, 1, 2, time=5))
    roll_back(feed.job, preview_rollback(feed.job, "1"))
    assert (feed.table.numbers, feed.progress.numbered) == ({((1,), 1): 1}, 1)


def test_a_history_without_numbers_stores_none() -> None:
    feed = TableFeed(replace(DIMENSION, history=History()))
    feed.deliver(1, change(INSERT, 1, 1, time=1))
    assert (feed.table.numbers, feed.progress.numbered) == ({}, None)
    assert "numbered" not in feed.progress.to_json()
