"""Batches of whole rows of a table that parts of rows come to as well: Spark works them out without a fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from spark import MakeLake

from lakeward.adapters.formats.shared.change_log import retention
from lakeward.adapters.formats.shared.resolution import resolver
from lakeward.core.dimension import Dimension, Lateness, Unbounded, Within
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position
from lakeward.plugins.testing.player import Lake, MemoryLake, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Script

pytestmark = pytest.mark.spark

_BATCHES, _EVENTS, _KEYS = 12, 14, 10
_LATE_BY = 120
_LATE, _MOVES = 0.2, 0.1
"""How many events come late, and how many of those that are in part change their key."""


def _changes(random: Random) -> Iterator[Sequence[ChangeEvent]]:
    """Yield batches of whole rows; every third has events beside them that come late, whole or in part."""
    at, late = 0, list[ChangeEvent]()
    for number in range(1, _BATCHES + 1):
        came: list[ChangeEvent] = []
        for row in range(_EVENTS):
            at += random.randint(1, 6)
            operation = random.choice([Operation.INSERT, Operation.UPDATE, Operation.UPDATE, Operation.DELETE])
            event = _event(operation, at, random.randrange(_KEYS), Position(1, at, number, row))
            if random.random() >= _LATE:
                came.append(event)
            else:
                late.append(_in_part(event, random) if operation is Operation.UPDATE else event)
        if number % 3 == 0:
            places = enumerate(late, _EVENTS)
            came += [replace(event, position=Position(1, event.time or 0, number, row)) for row, event in places]
            late = []
        yield came


def _event(operation: Operation, at: int, key: int, position: Position) -> ChangeEvent:
    cells = {"h": 0, "id": key, "a": at, "b": -at}
    return ChangeEvent(operation=operation, position=position, key=(0, key), cells=cells, time=at)


def _in_part(event: ChangeEvent, random: Random) -> ChangeEvent:
    found = replace(event, cells={**event.cells, random.choice(["a", "b"]): UNSET})
    return _moved(found, random.randrange(_KEYS)) if random.random() < _MOVES else found


def _moved(event: ChangeEvent, old: int) -> ChangeEvent:
    return replace(event, old_key=(0, old), transaction=event.time) if (0, old) != event.key else event


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each batch that Spark worked out was judged; the change log is trimmed often."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 2)
    noted, may_be_judged = list[bool](), resolver.may_be_judged

    def note(*given: Any) -> bool:
        noted.append(may_be_judged(*given))
        return noted[-1]

    monkeypatch.setattr(resolver, "may_be_judged", note)
    return noted


def _play(lake: Lake, lateness: Lateness, deliveries: Sequence[Sequence[ChangeEvent]]) -> Player:
    """Deliver changes to a lake; after each batch its table must be that of the reference adapter."""
    dimension = Dimension(name=NAME, schema=PACKED, key=("h", "id"), lateness=lateness, tolerance=TOLERANT)
    script = Script(dimension, deliveries, [], in_part=True)
    expected = Player(script, MemoryLake()).play().moments
    return Player(script, lake, expected=expected).play()


@pytest.mark.parametrize("lateness", [Within(_LATE_BY), pytest.param(Unbounded(), marks=pytest.mark.long)], ids=str)
@pytest.mark.usefixtures("by_spark")
def test_whole_rows_are_judged_among_parts_that_come_late(
    make_lake: MakeLake, judged: list[bool], lateness: Lateness
) -> None:
    _play(make_lake(), lateness, [*_changes(Random(7))])
    assert any(judged)
    assert not all(judged)


@pytest.mark.usefixtures("by_spark")
def test_the_row_before_a_judged_one_is_kept_for_a_key_change_that_comes_late(
    make_lake: MakeLake, judged: list[bool]
) -> None:
    """The mark has passed the row; what leaves its key between it and the judged one takes a cell of it along."""
    insert, update = Operation.INSERT, Operation.UPDATE
    others = [[_event(insert, at, key, Position(1, at, key, 1))] for key, at in ((2, 90), (3, 180))]
    judged_one = _event(update, 200, 1, Position(1, 200, 4, 1))
    late = _event(update, 190, 5, Position(1, 190, 5, 1))
    late = _moved(replace(late, cells={**late.cells, "b": UNSET}), 1)
    batches = [[_event(insert, 1, 1, Position(1, 1, 1, 1))], *others, [judged_one], [late]]
    rows = _play(make_lake(), Within(50), batches).moments[-1].rows
    assert judged[-2:] == [True, False]
    assert rows[0, 5][0]["b"] == -1


@pytest.mark.usefixtures("by_spark")
def test_a_whole_row_that_comes_late_completes_a_newer_part(make_lake: MakeLake, judged: list[bool]) -> None:
    insert, update = Operation.INSERT, Operation.UPDATE
    part = _event(update, 10, 1, Position(1, 10, 2, 1))
    part = replace(part, cells={**part.cells, "b": UNSET})
    late = _event(update, 5, 1, Position(1, 5, 3, 1))
    batches = [[_event(insert, 1, 1, Position(1, 1, 1, 1))], [part], [late]]
    rows = _play(make_lake(), Within(50), batches).moments[-1].rows
    assert judged == [True, False, False]
    assert (rows[0, 1][0]["a"], rows[0, 1][0]["b"]) == (10, -5)
