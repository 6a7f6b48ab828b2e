"""What a table knows that remembers deletes alone, and what a load and a mended row count for, by example.

Tables in Spark have no more than this: rows do not say which event set a cell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import memory_jobs
import pytest
from memory_jobs import DELETE, INSERT, UPDATE, item, memory_job, progress_of
from model_laws import Player

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.dimension import ORDERED, Dimension, Lateness, Ties, Unbounded
from lakeward.core.errors import ConfigError, RepairError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Operation, Position, Sequences
from lakeward.core.history.options import History, Kind
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.change_log import UNPLACED, Reason, Reject
from lakeward.core.merge.delivery import Delivery, Resolution, record_of
from lakeward.core.merge.settle import settle
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.ports import Batch
from lakeward.plugins.testing.simulated_database import SCHEMA

DIMENSION = item(SCHEMA, lateness=ORDERED)
UNIQUE = replace(DIMENSION, sequences=Sequences.UNIQUE)


def event(operation: Operation, sequence: int, at: int | None = None, **more: Any) -> ChangeEvent:
    return memory_jobs.event(operation, sequence, at=at, **more)


def test_a_released_partial_row_without_a_row_goes_into_quarantine() -> None:
    """Its row was given up, and on such a table nothing older can come."""
    player, part = Player(DIMENSION), event(UPDATE, 2, a=2, b=UNSET)
    bad = Reject(Position(1, 1, 1, 1), Reason.CAST, ((1,),))
    assert player.deliver([part], [bad]).waiting == 1
    delivery = Delivery(number=2, resolutions=[Resolution(bad.position)])
    settled = settle(DIMENSION, player.rows, player.memory, delivery)
    assert [(reject.position, reject.reason) for reject in settled.rejects] == [
        (part.position, Reason.INCOMPLETE_ROW)
    ]
    assert settled.counts.released == 1


@pytest.mark.parametrize("reason", UNPLACED)
def test_a_repaired_row_with_a_new_position_that_may_mean_two_rows_is_refused(reason: Reason) -> None:
    player = Player(DIMENSION)
    second = replace(event(INSERT, 2), key=(2,), cells={"id": 2, "a": 0, "b": 0})
    bad = Reject(Position(1, LOAD_SEQUENCE, 3, 1), reason, ((1,), (2,)))
    player.deliver([event(INSERT, 1, a=0, b=0), second], [bad])
    moved = replace(event(UPDATE, 3, a=3, b=3), key=(2,), old_key=(1,))
    with pytest.raises(RepairError, match="may mean one of two rows"):
        player.deliver(resolutions=[Resolution(bad.position, moved)])


@pytest.mark.parametrize("reason", Reason)
def test_a_full_load_begins_with_a_file_of_unreadable_rows(reason: Reason) -> None:
    """Until it is complete the mark must not pass it; of what is of no known place nobody knows what it is of."""
    reject = Reject(Position(1, LOAD_SEQUENCE, 1, 1), reason, ((1,),))
    record = record_of(Delivery(number=1, rejects=[reject]))
    assert record is not None
    assert record.loads == (frozenset() if reason in UNPLACED else {1})


@pytest.mark.parametrize("operation", [INSERT, UPDATE])
def test_a_copy_is_recognised_even_if_its_file_lacks_a_column(operation: Operation) -> None:
    player = Player(UNIQUE)
    player.deliver([event(INSERT, 1, a=1, b=1), event(operation, 2, a=2)])
    again = player.deliver([event(operation, 2, at=9, a=2)])
    assert (again.duplicates, again.applied, again.ties) == (1, 0, 0)
    assert player.rows[1,].position.object == 2


def test_a_partial_row_is_no_copy_of_the_stored_row() -> None:
    """Nobody knows what it did not send; it comes to the same row."""
    player, part = Player(UNIQUE), event(UPDATE, 2, a=2, b=UNSET)
    player.deliver([event(INSERT, 1, a=1, b=1), part])
    again = player.deliver([replace(part, position=part.position._replace(object=9))])
    assert again.duplicates == 0
    assert player.rows[1,].cells == {"id": 1, "a": 2, "b": 1}


@pytest.mark.parametrize("ties", Ties)
def test_a_copy_is_recognised_even_if_the_row_keeps_a_first_value(ties: Ties) -> None:
    """Of a column of kind 0 the row does not tell what a change sent."""
    history = History(kinds={"a": Kind.KEEP_FIRST})
    player = Player(replace(UNIQUE, history=history, ties=ties))
    player.deliver([event(INSERT, 1, instant=1, a=1, b=1), event(UPDATE, 2, instant=2, a=2, b=2)])
    again = player.deliver([event(UPDATE, 2, at=9, instant=2, a=2, b=2)])
    assert (again.duplicates, again.applied, again.ties, player.memory.holds) == (1, 0, 0, {})
    assert (player.rows[1,].cells["a"], player.rows[1,].position.object) == (1, 2)
    if ties is Ties.QUARANTINE:
        player.deliver([event(UPDATE, 2, at=10, instant=2, a=2, b=3)])
        assert [hold.reason for hold in player.memory.holds.values()] == [Reason.TIE]


def test_an_event_at_the_position_of_a_stored_row_is_compared_with_that_row() -> None:
    """Sequences that are not unique: one is another change, of which nothing would be seen."""
    player = Player(replace(DIMENSION, history=History(kinds={"a": Kind.KEEP_FIRST}), ties=Ties.QUARANTINE))
    player.deliver([event(INSERT, 1, instant=1, a=1, b=1)])
    player.deliver([event(INSERT, 1, object_, instant=1, a=object_, b=1) for object_ in (2, 3)])
    assert player.memory.holds == {}
    player.deliver([event(UPDATE, 1, 4, instant=1, a=UNSET, b=1)])
    assert [hold.reason for hold in player.memory.holds.values()] == [Reason.TIE], "a part made no such row"


class Halves(MemorySource):
    """A source whose deletes and inserts are halves of key changes."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, key_halves=len(batch.facts.operations)))


@pytest.mark.parametrize(
    ("lateness", "key", "stops"), [(ORDERED, 2, True), (ORDERED, 3, False), (Unbounded(), 2, False)]
)
def test_half_a_key_change_does_not_overwrite_a_stored_row(lateness: Lateness, key: int, *, stops: bool) -> None:
    """That row leaves its key in the next batch, and its delete would take the other one."""
    dimension = replace(DIMENSION, lateness=lateness, sequences=Sequences.PLACES)
    source = Halves()
    job = memory_job(dimension, source)
    for n in (1, 2):
        row = event(INSERT, n)
        source.put(dimension.name, n, [replace(row, key=(n,), cells={"id": n, "a": n, "b": n})])
    apply_changes(job)
    moved = replace(event(INSERT, 4, a=1, b=1), key=(key,), cells={"id": key, "a": 1, "b": 1})
    source.put(dimension.name, 3, [event(DELETE, 3)])
    source.put(dimension.name, 4, [moved])
    if stops:
        with pytest.raises(ConfigError, match="the key of a row changes, and the table is `ordered`"):
            apply_changes(job)
    else:
        apply_changes(job)
    assert progress_of(job).batch == (1 if stops else 2)
