"""Ties by policy, by example: what stands, what holds its key, and where a table stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import UPDATE, event, item
from model_laws import Player

from lakeward.core.dimension import ORDERED, Lateness, Ties, Unbounded, Within
from lakeward.core.errors import SourceError
from lakeward.core.events import ChangeEvent, Sequences
from lakeward.core.history.options import History
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.ties import cautions
from lakeward.plugins.testing.simulated_database import SCHEMA

HELD = item(SCHEMA, lateness=Unbounded(), ties=Ties.QUARANTINE)
LATENESS: Mapping[str, Lateness] = {"ordered": ORDERED, "within": Within(100), "unbounded": Unbounded()}
WAYS = pytest.mark.parametrize("history", [None, History()], ids=["mirror", "history"])
ANY = pytest.mark.parametrize("lateness", LATENESS.values(), ids=LATENESS)


def update(at: int, object_: int, a: int = 0, *, key: int = 1, **more: Any) -> ChangeEvent:
    return event(UPDATE, at, key, at=object_, row=key, time=at, instant=at, a=a, b=0, **more)


def shown(player: Player, key: int = 1) -> object:
    row = player.rows.get((key,))
    return None if row is None or row.deleted else row.cells["a"]


@ANY
@WAYS
@pytest.mark.parametrize("batches", [1, 2])
def test_the_earlier_event_of_a_tie_stays_and_the_later_one_holds_the_key(
    lateness: Lateness, history: History | None, batches: int
) -> None:
    player = Player(replace(HELD, lateness=lateness, history=history))
    one, other, third, of_other_key = update(5, 1, 1), update(5, 2, 2), update(6, 3, 3), update(6, 3, 4, key=2)
    if batches == 1:
        counts = player.deliver([one, other, third, of_other_key])
    else:
        player.deliver([one])
        counts = player.deliver([other, third, of_other_key])
    assert (shown(player), shown(player, 2)) == (1, 4)
    assert (counts.quarantined, counts.waiting, counts.ties) == (1, 1, 0)
    assert [(hold.position, hold.reason) for hold in player.memory.holds.values()] == [(other.position, Reason.TIE)]


def test_rows_that_exchange_keys_in_one_transaction_are_no_ties() -> None:
    player = Player(HELD)
    player.deliver([update(1, 1, 1), update(1, 1, 2, key=2)])
    moves = [update(5, 2, 1, key=2, old=1), update(5, 3, 2, key=3, old=2)]
    player.deliver([replace(move, transaction=5) for move in moves])
    assert (player.memory.holds, shown(player, 2), shown(player, 3)) == ({}, 1, 2)


@pytest.mark.parametrize("lateness", [ORDERED, Unbounded()], ids=["ordered", "unbounded"])
def test_a_copy_under_another_name_is_no_tie(lateness: Lateness) -> None:
    player = Player(replace(HELD, sequences=Sequences.UNIQUE, lateness=lateness))
    player.deliver([update(5, 1, 1)])
    counts = player.deliver([update(5, 2, 1), update(5, 3, 3)])
    assert (counts.duplicates, [place.object for place in player.memory.holds]) == (1, [3])


def test_a_redelivered_object_of_an_ordered_table_ties_with_nothing() -> None:
    """It may have been applied before ties were held."""
    one, other = update(5, 1, 1), update(5, 2, 2)
    player = Player(replace(HELD, lateness=ORDERED, ties=Ties.ARRIVAL))
    player.deliver([one, other])
    player.dimension = replace(player.dimension, ties=Ties.QUARANTINE)
    player.deliver([one, other])
    assert (player.memory.holds, shown(player)) == ({}, 2)


@pytest.mark.parametrize("batches", [1, 2])
def test_the_policy_fail_stops_the_table_before_anything_is_applied(batches: int) -> None:
    player = Player(replace(HELD, ties=Ties.FAIL))
    one, other = update(5, 1, 1), update(5, 2, 2)
    if batches == 2:
        player.deliver([one])
    with pytest.raises(SourceError, match="two changes of one key have one place") as raised:
        player.deliver([other] if batches == 2 else [one, other])
    assert "1:1 and 2:1" in str(raised.value)
    assert shown(player) == (1 if batches == 2 else None)


def test_a_warning_is_given_where_ties_are_normal_and_not_accepted() -> None:
    assert cautions(replace(HELD, ties=Ties.ARRIVAL)) == cautions(replace(HELD, sequences=Sequences.UNIQUE)) == ()
    (held,), (failing,) = cautions(HELD), cautions(replace(HELD, ties=Ties.FAIL))
    assert held.endswith('with `ties = "quarantine"` a row that one changes twice holds its key.')
    assert failing.endswith('with `ties = "fail"` a row that one changes twice stops the table.')
