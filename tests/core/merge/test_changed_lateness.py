"""A table that was `ordered` for a while: what it knew before that tells how rows were, not how they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import memory_jobs
import pytest
from memory_jobs import DELETE, INSERT, UPDATE, item
from model_laws import Player

from lakeward.core.dimension import ORDERED, Deletes, Dimension, Lateness, Within
from lakeward.core.events import UNSET, ChangeEvent, Operation, SourceOrder
from lakeward.core.merge.change_log import ChangeLogContents, trim
from lakeward.core.merge.delivery import Delivery
from lakeward.core.merge.settle import absorb, settle
from lakeward.plugins.testing.simulated_database import SCHEMA

MIRROR = item(SCHEMA)
LATER = Within(1000)


Delivered: TypeAlias = tuple[Lateness, Sequence[ChangeEvent]]


def event(operation: Operation, at: int, **cells: Any) -> ChangeEvent:
    """Return a change, committed `at` a time."""
    return memory_jobs.event(operation, at, time=at, instant=at, **{"a": at, "b": at, **cells})


def player_after(dimension: Dimension, *deliveries: Delivered) -> Player:
    """Deliver an object a batch, each under the lateness that the settings say then."""
    player = Player(dimension)
    for lateness, events in deliveries:
        player.dimension = replace(dimension, lateness=lateness)
        player.deliver(events)
    return player


BEFORE: Sequence[Delivered] = [(LATER, [event(INSERT, 1)]), (LATER, [event(UPDATE, 2)])]
MEANWHILE: Sequence[Delivered] = [(ORDERED, [event(UPDATE, 3)]), (ORDERED, [event(DELETE, 4)])]


def versions(player: Player) -> list[tuple[Any, int, int | None]]:
    return [(one.cells["a"], one.valid_from, one.valid_to) for one in player.rows[1,].versions]


@pytest.mark.parametrize("came", [[event(DELETE, 5)], [event(UPDATE, 3, b=UNSET)]], ids=["delete", "late"])
def test_a_deleted_row_keeps_its_last_values(came: list[ChangeEvent]) -> None:
    came = [replace(found, position=found.position._replace(object=5)) for found in came]
    player = player_after(replace(MIRROR, deletes=Deletes.SOFT), *BEFORE, *MEANWHILE, (LATER, came))
    assert player.rows[1,].deleted
    assert player.rows[1,].cells == {"id": 1, "a": 3, "b": 3}


def test_a_remembered_key_change_of_an_earlier_lateness_waits_for_no_row() -> None:
    """What it took its row from is forgotten; it waits for none once the mark passes it."""
    moved = replace(event(UPDATE, 2, id=2, a=UNSET), key=(2,), old_key=(1,))
    player = player_after(MIRROR, BEFORE[0], (LATER, [moved]), (ORDERED, [replace(event(INSERT, 3), key=(4,))]))
    assert list(player.memory.changes) == [moved.position]
    player.memory.low_watermark = SourceOrder(1, 9)
    assert not trim(replace(MIRROR, lateness=LATER), player.memory)
    assert player.rows[2,].cells == {"id": 2, "a": 1, "b": 2}


@pytest.mark.parametrize(("came", "lost"), [(event(INSERT, 3), False), (event(INSERT, 3, id=2), True)])
def test_a_partial_row_does_not_wait_in_an_ordered_table(came: ChangeEvent, lost: bool) -> None:
    """Nothing older comes to an `ordered` table; what is newer and whole makes up for it."""
    part, dimension = event(UPDATE, 2, b=UNSET), replace(MIRROR, lateness=LATER)
    came = replace(came, key=(came.cells["id"],))
    memory = absorb(
        dimension,
        ChangeLogContents(),
        settle(dimension, {}, ChangeLogContents(), Delivery(number=1, events=[part])),
    )
    settled = settle(MIRROR, {}, memory, Delivery(number=2, events=[came]))
    memory = absorb(MIRROR, memory, settled)
    assert trim(MIRROR, memory) == ([part] if lost else [])
    assert not trim(dimension, memory)
