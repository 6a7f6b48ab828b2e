"""Settling, by example."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import INSERT, READ, UPDATE, event, item
from model_laws import Player

from lakeward.core.dimension import Lateness, Unbounded, Within
from lakeward.core.errors import RepairError
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.delivery import Resolution
from lakeward.plugins.testing.simulated_database import SCHEMA

DIMENSION = item(SCHEMA)
UNBOUNDED = Unbounded()


def change(operation: Operation, sequence: int, **more: Any) -> ChangeEvent:
    return event(operation, sequence, a=sequence, b=sequence, **more)


def key_change(sequence: int) -> ChangeEvent:
    return change(UPDATE, sequence, key=2, old=1)


def with_two_rows(lateness: Lateness = UNBOUNDED) -> Player:
    player = Player(replace(DIMENSION, lateness=lateness))
    second = event(INSERT, 1, 2, row=2, time=1, a=0, b=0)
    player.deliver([change(INSERT, 1, time=1), second], loaded=1)
    return player


def test_a_repaired_row_that_may_mean_two_rows_is_refused() -> None:
    """Held again under its position, it would count as settled: its key would be free, and the row nowhere."""
    player, move = with_two_rows(), key_change(2)
    player.deliver(rejects=[Reject(move.position, Reason.CAST, move.keys)])
    with pytest.raises(RepairError, match="may mean one of two rows"):
        player.deliver(resolutions=[Resolution(move.position, move)])
    assert set(player.memory.holds) == {move.position}


def test_a_waiting_event_that_is_held_itself_waits_no_longer() -> None:
    player, move = with_two_rows(), key_change(3)
    bad = Reject(Position(1, 2, 2, 1), Reason.CAST, ((1,),))
    player.deliver([move], [bad])
    assert player.counts.waiting == 1
    assert player.deliver(resolutions=[Resolution(bad.position)]).released == 1
    assert set(player.memory.holds) == {move.position}


@pytest.mark.parametrize(("sequence", "holds"), [(2, False), (100, True)])
def test_a_row_that_comes_too_late_holds_no_key(sequence: int, holds: bool) -> None:
    """Later events of its key were applied, and are not remembered."""
    player = with_two_rows(Within(3))
    for time in (50, 99):
        player.deliver([change(UPDATE, time, time=time)])
    place = Position(1, sequence, 200, 1)
    player.deliver(rejects=[Reject(place, Reason.CAST, ((1,),), time=sequence)])
    assert bool(player.memory.holds) is holds


def test_a_row_of_unknown_position_is_never_late() -> None:
    player = with_two_rows(Within(3))
    for time in (50, 99):
        player.deliver([change(UPDATE, time, time=time)])
    place = Position(1, LOAD_SEQUENCE, 200, 1)
    player.deliver(rejects=[Reject(place, Reason.SEQUENCE, ((1,),))])
    assert set(player.memory.holds) == {place}


def test_rows_of_unknown_position_do_not_hold_back_the_low_watermark() -> None:
    player = with_two_rows(Within(3))
    for time in range(10, 100, 10):
        unreadable = Reject(Position(1, LOAD_SEQUENCE, time, 2), Reason.UNREADABLE)
        player.deliver([change(UPDATE, time, time=time)], [unreadable])
    assert player.memory.low_watermark == (1, 80)


def test_rows_of_unknown_position_do_not_tie() -> None:
    """Neither those of a full load that has a key twice, nor truncates: two of these say the same."""
    player = Player(DIMENSION)
    twice = [
        event(READ, LOAD_SEQUENCE, at=1, row=1, a=1, b=1),
        event(READ, LOAD_SEQUENCE, at=1, row=2, a=2, b=1),
    ]
    assert player.deliver(twice, loaded=1).ties == 0
    emptied = [event(Operation.TRUNCATE, 5, row=row) for row in (1, 2)]
    assert player.deliver(emptied).ties == 0
