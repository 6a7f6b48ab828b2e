"""The low watermark, by example."""

from __future__ import annotations

from dataclasses import replace

from memory_jobs import columns, item

from lakeward.core.dimension import Within
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position, SourceOrder
from lakeward.core.merge.change_log import (
    Change,
    ChangeLogContents,
    Hold,
    Reason,
    Record,
    next_low_watermark,
    times_of_objects,
    trim,
)

ITEMS = item(columns(id="int"), lateness=Within(3))


def record(batch: int, least: int, greatest: int, time: int | None, loads: int = 0) -> Record:
    return Record(
        batch,
        frozenset({batch}),
        Position(1, least, batch, 1),
        Position(1, greatest, batch, 9),
        time,
        frozenset({loads}) if loads else frozenset(),
    )


def change(sequence: int, transaction: str) -> Change:
    position = Position(1, sequence, 1, sequence)
    event = ChangeEvent(operation=Operation.INSERT, position=position, key=(1,), transaction=transaction)
    return Change(event, 1)


def memory(*records: Record, changes: tuple[Change, ...] = (), loaded: int = 0) -> ChangeLogContents:
    return ChangeLogContents(
        records=list(records), changes={change.event.position: change for change in changes}, loaded=loaded
    )


def test_an_event_exactly_the_lateness_old_is_in_time() -> None:
    recorded = memory(record(1, 10, 19, time=100), record(2, 20, 29, time=103))
    assert next_low_watermark(recorded, Within(3)) is None
    assert next_low_watermark(recorded, Within(2)) == SourceOrder(1, 19)


def test_batches_without_times_do_not_raise_the_low_watermark() -> None:
    timeless = [record(n, 0, 0, time=None) for n in (1, 2, 3)]
    assert next_low_watermark(memory(*timeless), Within(1)) is None
    timed = [record(4, 10, 19, time=100), record(5, 20, 29, time=200)]
    assert next_low_watermark(memory(*timeless, *timed), Within(1)) == SourceOrder(1, 19)


def test_a_batch_of_an_operator_does_not_raise_the_low_watermark() -> None:
    """A truncate at 25, say: a file of 22 that comes behind it within the lateness is in time."""
    by_hand = replace(record(2, 25, 25, time=None), objects=frozenset())
    daily = [record(1, 10, 19, time=100), by_hand, record(3, 30, 39, time=200)]
    assert next_low_watermark(memory(*daily), Within(50)) == SourceOrder(1, 19)


def test_the_low_watermark_lies_below_every_batch_that_is_in_time() -> None:
    recorded = memory(record(1, 10, 19, time=100), record(2, 15, 29, time=200))
    assert next_low_watermark(recorded, Within(3)) == SourceOrder(1, 10)


def test_a_transaction_on_both_sides_of_the_low_watermark_is_remembered_whole() -> None:
    """What it moves is known only as long as all of it is: the one before it is forgotten."""
    spread = (change(7, "a"), change(8, "a"), change(10, "b"), change(12, "b"))
    recorded = memory(record(1, 7, 10, time=100), record(2, 12, 29, time=200), changes=spread)
    recorded.low_watermark = next_low_watermark(recorded, Within(3))
    assert recorded.low_watermark == SourceOrder(1, 10)
    trim(ITEMS, recorded)
    assert [place.sequence for place in recorded.changes] == [10, 12]


def test_a_held_row_of_unknown_position_keeps_truncates() -> None:
    """Once the row is repaired, a truncate below the low watermark may end it."""
    truncate = ChangeEvent(operation=Operation.TRUNCATE, position=Position(1, 5, 2, 1))
    hold = Hold(Position(1, LOAD_SEQUENCE, 1, 1), ((1,),), Reason.SEQUENCE, 1)
    held = memory(changes=(Change(truncate, 1),))
    held.low_watermark, held.holds = SourceOrder(1, 9), {hold.position: hold}
    trim(ITEMS, held)
    assert list(held.changes) == [truncate.position]
    held.holds.clear()
    trim(ITEMS, held)
    assert not held.changes


def test_the_low_watermark_stays_while_a_load_is_not_complete() -> None:
    records = (record(1, 10, 19, time=100, loads=1), record(2, 20, 29, time=200))
    assert next_low_watermark(memory(*records), Within(3)) is None
    assert next_low_watermark(memory(*records, loaded=1), Within(3)) == SourceOrder(1, 19)


def test_an_object_has_the_newest_time_of_the_batches_up_to_its_first() -> None:
    """One that came before any batch told a time has none; what comes again keeps the first; times may go back."""
    place = Position(1, 1, 1, 1)
    batches = [({1}, None), ({1, 2}, 10), ({2, 3}, 5), ({4, 3}, 20)]
    records = [Record(n, frozenset(objects), place, place, time) for n, (objects, time) in enumerate(batches, 1)]
    for known in (records, records[::-1]):
        assert times_of_objects(known) == {2: 10, 3: 10, 4: 20}
