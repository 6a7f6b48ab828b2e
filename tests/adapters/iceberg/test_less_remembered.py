"""A table that once remembered less than it needs now: what stands goes before what is remembered of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from iceberg_lake import LakeOfIceberg
from spark import MakeLake

from lakeward.adapters.tables import companion
from lakeward.core.dimension import ORDERED, Dimension, Lateness, Within
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position
from lakeward.core.history.options import History
from lakeward.plugins.testing.play import Player
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Rows, Script

pytestmark = pytest.mark.spark

DIMENSION = Dimension(name=NAME, schema=PACKED, key=("h", "id"), lateness=ORDERED, tolerance=TOLERANT)
INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE


def event(operation: Operation, at: int, key: int = 1, **cells: Any) -> ChangeEvent:
    """Return a change, committed `at` a time."""
    every = {"h": 0, "id": key, "a": at, "b": at, **cells}
    return ChangeEvent(operation=operation, position=Position(1, at, at, key), key=(0, key), cells=every, time=at)


def played(lake: LakeOfIceberg, history: History | None, *turns: tuple[Lateness, Sequence[ChangeEvent]]) -> Rows:
    """Deliver an object a batch, each under the lateness that the settings say then; return the rows."""
    deliveries = [events for _, events in turns]
    script = Script(replace(DIMENSION, history=history), deliveries, [], in_part=True)
    player = Player(script, lake)
    for number, (lateness, _) in enumerate(turns):
        dimension = replace(script.dimension, lateness=lateness)
        player = Player(replace(script, dimension=dimension), lake, player.queue, player.ledger)
        player.source.arrived = number
        player.deliver()
    return player.moments[-1].rows


def cells(rows: Rows, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in names) for row, _ in rows.values())


LATER = Within(1000)


def test_a_row_stays_whose_key_was_deleted_while_the_table_was_ordered(make_lake: MakeLake) -> None:
    """An `ordered` table remembers the delete, and not that the row came again."""
    came = [(ORDERED, [event(INSERT, 1)]), (ORDERED, [event(DELETE, 2)]), (ORDERED, [event(INSERT, 3)])]
    rows = played(make_lake(), None, *came, (LATER, [event(UPDATE, 4, b=UNSET)]))
    assert cells(rows, "a", "b") == [(4, 3)]


@pytest.mark.parametrize(
    ("more", "left"), [([event(INSERT, 3)], [1, 3, 4]), pytest.param([], [1, 4], marks=pytest.mark.long)]
)
def test_versions_stay_that_were_made_while_the_table_was_ordered(
    make_lake: MakeLake, more: list[ChangeEvent], left: list[int]
) -> None:
    """Also of a row that was gone when the lateness changed."""
    came = [(ORDERED, [event(INSERT, 1)]), (ORDERED, [event(DELETE, 2)]), (ORDERED, [*more, event(INSERT, 3, 2)])]
    rows = played(make_lake(), History(), *came, (LATER, [event(INSERT, 4)]))
    assert cells({key: row for key, row in rows.items() if key[1] == 1}, "a") == [(a,) for a in left]


@pytest.mark.long
def test_a_row_from_before_the_table_was_ordered_is_not_gone_on_from(make_lake: MakeLake) -> None:
    came = [(LATER, [event(INSERT, 1)]), (LATER, [event(UPDATE, 2)]), (ORDERED, [event(UPDATE, 3)])]
    again = [(LATER, [event(UPDATE, 4, b=UNSET)]), (LATER, [event(UPDATE, 6, b=UNSET)])]
    rows = played(make_lake(), None, *came, *again, (LATER, [event(UPDATE, 5, b=UNSET)]))
    assert cells(rows, "a", "b") == [(6, 3)]


@pytest.mark.long
def test_a_late_event_that_is_kept_longer_than_a_newer_one_is_not_gone_on_from(
    make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whole rows, batches are forgotten that the mark has passed as a whole; that of the late one it has not."""
    monkeypatch.setattr(companion, "_TRIM_EVERY", 1)
    script = Script(replace(DIMENSION, lateness=Within(9)), [], [])
    late = replace(event(UPDATE, 18), position=Position(1, 18, 27, 1))
    behind = replace(event(INSERT, 26, 3), position=Position(1, 26, 40, 3))
    straddling = [late, event(INSERT, 27, 2)], [behind, event(INSERT, 40, 2)]
    batches = [[event(INSERT, 5)], [event(UPDATE, 20)], *straddling]
    lake = make_lake()
    player = Player(replace(script, deliveries=batches), lake).play()
    part = replace(script, deliveries=[*batches, [event(UPDATE, 41, b=UNSET)]], in_part=True)
    other = Player(part, lake, player.queue, player.ledger)
    other.source.arrived = len(batches)
    other.deliver()
    assert other.moments[-1].rows[0, 1][0] | {"a": 41} == {"h": 0, "id": 1, "a": 41, "b": 20}
