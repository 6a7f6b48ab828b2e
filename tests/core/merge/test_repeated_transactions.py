"""Rows exchange their keys in one transaction, which is delivered again: the table is the one that it left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_jobs import INSERT, UPDATE, event, item
from model_laws import Player

from lakeward.core.dimension import Deletes, Unbounded
from lakeward.core.events import UNSET, ChangeEvent, Key
from lakeward.core.history.options import History
from lakeward.plugins.testing.simulated_database import SCHEMA

ITEM = item(SCHEMA, lateness=Unbounded())
KEYS = (1, 2, 3)
ALIKE = {"all at one commit time": False, "each at its place in the log": True}


def row(key: int, who: int) -> dict[str, object]:
    return {"id": key, "a": who, "b": who}


def loaded() -> list[ChangeEvent]:
    """Return the rows that stand: each says in its cells which it is."""
    return [event(INSERT, 1, key, row=key, time=1, a=key, b=key) for key in KEYS]


def transaction(targets: Sequence[int], *, has_places: bool, object_: int, updates: bool) -> list[ChangeEvent]:
    """Return a transaction in which the row of each key gets another one; `updates` each row before it moves."""
    events, rows = list[ChangeEvent](), count(1)

    def add(key: int, who: int, old: int | None) -> None:
        number, value = next(rows), 10 * who if updates else who
        place = {"sequence": 10 + number if has_places else 10, "at": object_, "row": number}
        events.append(event(UPDATE, key=key, **place, old=old, transaction="t", time=10, a=value, b=value))

    for key in KEYS if updates else ():
        add(key, key, None)
    for key, target in zip(KEYS, targets, strict=True):
        if target != key:
            add(target, key, key)
    return events


def shown(player: Player) -> Mapping[Key, object]:
    return {key: dict(row.cells) for key, row in player.rows.items() if not row.deleted}


def versions(player: Player) -> Mapping[Key, object]:
    """Return when which version of each key was valid."""
    return {
        key: [(one.valid_from, one.valid_to, dict(one.cells)) for one in row.versions]
        for key, row in player.rows.items()
    }


def in_object(events: Sequence[ChangeEvent], object_: int) -> list[ChangeEvent]:
    return [replace(event, position=event.position._replace(object=object_)) for event in events]


@pytest.mark.parametrize("has_places", [*ALIKE.values()], ids=[*ALIKE])
@pytest.mark.parametrize("deletes", [*Deletes])
@given(
    targets=st.permutations(KEYS),
    updates=st.booleans(),
    copies=st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=3),
    at_once=st.booleans(),
)
def test_the_table_is_that_of_the_first_delivery(
    has_places: bool, deletes: Deletes, targets: Sequence[int], updates: bool, copies: list[int], at_once: bool
) -> None:
    dimension = replace(ITEM, deletes=deletes)
    came = transaction(targets, has_places=has_places, object_=2, updates=updates)
    expected = {(to,): row(to, 10 * key if updates else key) for key, to in zip(KEYS, targets, strict=True)}
    player = Player(dimension)
    player.deliver(loaded())
    deliveries = [in_object(came, number) for number, _ in enumerate([2, *copies], 2)]
    for delivery in [[came for one in deliveries for came in one]] if at_once else deliveries:
        player.deliver(delivery)
    assert shown(player) == expected


@pytest.mark.parametrize("has_places", [*ALIKE.values()], ids=[*ALIKE])
@pytest.mark.parametrize("targets", [*permutations(KEYS)])
def test_a_repeated_transaction_adds_no_version(has_places: bool, targets: Sequence[int]) -> None:
    player = Player(replace(ITEM, history=History()))
    came = transaction(targets, has_places=has_places, object_=2, updates=False)
    player.deliver(loaded())
    player.deliver(came)
    before = versions(player)
    player.deliver(in_object(came, 3))
    assert versions(player) == before


def test_unsent_values_are_those_of_the_first_delivery_where_the_transaction_begins_again() -> None:
    """A later update stands on one of the keys, and the other row would be taken for it."""
    player = Player(ITEM)
    one, other = transaction((2, 1, 3), has_places=False, object_=2, updates=False)
    last = replace(one, old_key=None, position=one.position._replace(row=3), cells=row(2, 7))
    came = [one, replace(other, cells={**other.cells, "b": UNSET}), last]
    player.deliver(loaded())
    player.deliver(came)
    player.deliver(in_object(came, 3))
    assert shown(player) == {(1,): row(1, 2), (2,): row(2, 7), (3,): row(3, 3)}
