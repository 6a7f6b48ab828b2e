"""Settling, by example."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import INSERT, READ, UPDATE, event, item
from model_laws import Player

from lakeward.core.dimension import Within
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.plugins.testing.simulated_database import SCHEMA

DIMENSION = item(SCHEMA)


def change(operation: Operation, sequence: int, **more: Any) -> ChangeEvent:
    return event(operation, sequence, a=sequence, b=sequence, **more)


def with_two_rows() -> Player:
    player = Player(replace(DIMENSION, lateness=Within(3)))
    second = event(INSERT, 1, 2, row=2, time=1, a=0, b=0)
    player.deliver([change(INSERT, 1, time=1), second], loaded=1)
    return player


@pytest.mark.parametrize(("sequence", "holds"), [(2, False), (100, True)])
def test_a_row_that_comes_too_late_holds_no_key(sequence: int, holds: bool) -> None:
    """Later events of its key were applied, and are not remembered."""
    player = with_two_rows()
    for time in (50, 99):
        player.deliver([change(UPDATE, time, time=time)])
    place = Position(1, sequence, 200, 1)
    player.deliver(rejects=[Reject(place, Reason.CAST, ((1,),), time=sequence)])
    assert bool(player.memory.holds) is holds


def test_a_row_of_unknown_position_is_never_late() -> None:
    player = with_two_rows()
    for time in (50, 99):
        player.deliver([change(UPDATE, time, time=time)])
    place = Position(1, LOAD_SEQUENCE, 200, 1)
    player.deliver(rejects=[Reject(place, Reason.SEQUENCE, ((1,),))])
    assert set(player.memory.holds) == {place}


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
