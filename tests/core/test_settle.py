"""Settling, by example."""

from __future__ import annotations

from histories import SCHEMA
from model_laws import Player

from lakeward.core.delivery import Resolution
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.memory import Reason, Reject

DIMENSION = Dimension(name=TableName("shop", "item"), schema=SCHEMA, key=("id",))


def event(operation: Operation, sequence: int) -> ChangeEvent:
    cells = {"id": 1, "a": sequence, "b": sequence}
    return ChangeEvent(operation=operation, position=Position(1, sequence, sequence, 1), key=(1,), cells=cells)


def test_a_delete_that_was_mended_is_remembered_when_what_it_deleted_is_delivered_again() -> None:
    insert, delete = event(Operation.INSERT, 1), event(Operation.DELETE, 2)
    player = Player(DIMENSION)
    player.deliver([insert], [Reject(delete.position, Reason.CAST, delete.keys)])
    assert player.rows
    player.deliver(resolutions=[Resolution(delete.position, delete)])
    assert not player.rows
    player.deliver([insert])
    assert not player.rows
