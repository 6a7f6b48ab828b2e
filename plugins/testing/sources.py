"""The laws of a source: the same objects in the same order, each row once in its place, none uncounted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pytest

from lakeward.core.errors import AlarmRaised
from lakeward.core.events import ChangeEvent, Operation, Position, Sequences
from lakeward.core.ledger import Past, SourceObject
from lakeward.core.memory import Reject
from lakeward.plugins.testing import mended_rows, values
from lakeward.plugins.testing.contract import port_contract
from lakeward.plugins.testing.feeds import BEGIN, DIMENSION, EPOCH, OTHER, ROWS, Feed, Law, Read, past, told
from lakeward.plugins.testing.scripts import Item


def source_contract(make: Callable[..., Feed]) -> type:
    """Return a test class with the laws of a source; parameters of `make` are fixtures of pytest."""
    return port_contract("The laws of a source.", make, LAWS)


def _applied(feed: Feed) -> list[SourceObject]:
    return [item for batch in feed.batches() for item in batch.objects]


def of_a_table_without_objects_nothing_is_taken(feed: Feed) -> None:
    """Whatever there is of other tables; it is no error."""
    assert not feed.take()
    feed.put(OTHER, 1, feed.items(1))
    taken = feed.open().take(feed.dimension, Past())
    assert (taken.objects, taken.left, taken.files_left) == ((), (), 0)


def objects_come_in_order_however_they_were_delivered(feed: Feed) -> None:
    """That of their places, which `SourceObject.order` says; and all rows of each, as they were written."""
    feed.deliver(3, 1, 4, 2)
    batches = list(feed.batches())
    orders = [item.order for batch in batches for item in batch.objects]
    assert orders == sorted(set(orders)), f"orders of objects: {orders}"
    assert len(orders) == 4, f"orders of objects: {orders}"
    found = [words for batch in batches for words in told(batch.by_arrival)]
    assert found == [words for place in (1, 2, 3, 4) for words in told(feed.items(place))]


def many_objects_of_many_rows_come_whole(feed: Feed) -> None:
    """In order beyond the tenth, too; rows that are equal in all but their place are as many as were written."""
    objects = [[*feed.items(place, 1 + place % 3)] for place in range(1, 13)]
    last = feed.items(13, 60)
    objects.append([*last, *(_in_row(61 + number, item) for number, item in enumerate([last[-1]] * 3))])
    for place, items in enumerate(objects, 1):
        feed.put(DIMENSION, place, items)
    found = [words for batch in feed.batches() for words in told(batch.by_arrival)]
    assert found == [words for items in objects for words in told(items)]


def _in_row(row: int, item: Item) -> Item:
    return replace(item, position=item.position._replace(row=row))


def what_is_taken_is_taken_again_until_it_is_applied(feed: Feed) -> None:
    """By the same process, and by another; reading does not change that."""
    feed.deliver(1, 2, 3)
    source = feed.open()
    first = source.take(feed.dimension, Past())
    assert first.objects
    feed.read()
    assert source.take(feed.dimension, Past()).objects == first.objects
    assert feed.take() == first.objects


def what_was_applied_is_not_taken_again(feed: Feed) -> None:
    """And is still there to be seen; what comes behind it is taken alone."""
    feed.deliver(1, 2)
    applied = _applied(feed)
    again = feed.open().take(feed.dimension, past(applied))
    assert (again.objects, again.vanished) == ((), ())
    feed.deliver(3)
    (fresh,) = feed.take(*applied)
    assert fresh.order > applied[-1].order


def a_listing_from_the_last_object_on_finds_the_same(feed: Feed) -> None:
    """`Past.start` spares a source to list what was applied; it may be set aside."""
    feed.deliver(1, 2)
    applied = _applied(feed)
    feed.deliver(3, 4)
    known = {"floor": applied[-1].order, "start": applied[-1].name}
    assert feed.take(*applied, **known) == feed.take(*applied)


def what_is_read_again_is_the_same_to_the_position(feed: Feed) -> None:
    """A process that ended before its commit is followed by one that reads the same objects."""
    feed.deliver(1, 2, 3)
    first, again = feed.read(), feed.read()
    assert first.facts == again.facts
    assert list(first.by_arrival) == list(again.by_arrival)


def each_row_has_a_place_of_its_own(feed: Feed) -> None:
    """The order of its object, and a number in it that rises as they were written; in the epoch of the batch.

    By `sequence`, which is the source's own order, a later change is not before an earlier one.
    """
    feed.deliver(1, 2, 3)
    for batch in feed.batches():
        places = [item.position for item in batch.by_arrival]
        assert len({place[2:] for place in places}) == len(places), f"a place twice: {places}"
        assert places == sorted(places), f"sequences do not rise with the times: {places}"
        assert {place.epoch for place in places} == {EPOCH}
        assert {place.object for place in places} == {item.order for item in batch.objects}
        times = [item.time for item in batch.by_arrival]
        assert times == sorted(times, key=lambda time: time or 0), "rows are not in order"


def sequences_are_what_the_source_says_of_them(feed: Feed) -> None:
    """Commit times, or none; or places, or numbers of which each change has its own.

    The core goes by it: of what it takes for commit times it makes the mark, and by numbers of their own it knows
    a copy under another name.
    """
    items = [replace(item, time=BEGIN, position=item.position._replace(sequence=BEGIN)) for item in feed.items(1)]
    feed.put(DIMENSION, 1, items)
    feed.deliver(2, 3)
    events = [item for batch in feed.batches() for item in batch.by_arrival if isinstance(item, ChangeEvent)]
    said, found = feed.open().sequences, [event.position.sequence for event in events]
    times = [event.time for event in events]
    match said:
        case Sequences.TIMES:
            assert found in (times, [0] * len(found)), f"said are commit times, which are {times}; found is {found}"
        case Sequences.ARRIVAL:
            assert not any(found), f"said is that there is no order but that of arrival; sequences are {found}"
        case Sequences.UNIQUE:
            assert len({*found}) == len(found), f"said is that each change has its own; sequences are {found}"
        case Sequences.PLACES:
            assert any(found), f"said is that sequences are places in a log; found is {found}"


def each_row_is_counted(feed: Feed) -> None:
    """As an event by its operation, as a reject by its reason: nothing that was written goes in silence."""
    feed.deliver(1, 2, 3)
    for batch in feed.batches():
        events = Counter(item.operation for item in batch.rows if isinstance(item, ChangeEvent))
        rejects = Counter(item.reason for item in batch.rows if isinstance(item, Reject))
        assert {name: n for name, n in batch.facts.operations.items() if n} == events
        assert {name: n for name, n in batch.facts.rejects.items() if n} == rejects
        assert batch.facts.read == sum(known.rows for known in batch.facts.objects)
        assert batch.facts.read - batch.facts.skipped == ROWS * len(batch.objects)


def facts_bound_the_rows(feed: Feed) -> None:
    """Those of the batch, and those of each object: least and greatest position, and the greatest source time."""
    feed.deliver(1, 2, 3)
    for batch in feed.batches():
        places = [item.position for item in batch.rows]
        assert (batch.facts.least, batch.facts.greatest) == (min(places), max(places))
        assert batch.facts.time == max(item.time or 0 for item in batch.rows)
        for known in batch.facts.objects:
            own = [place for place in places if place.object == known.object.order]
            assert (known.rows, known.least, known.greatest) == (len(own), min(own), max(own))


def an_object_that_changed_since_it_was_taken_is_left_out_with_all_behind_it(feed: Feed) -> None:
    """In as many characters or in more; what it holds now is read once it is taken so."""
    feed.deliver(1, 2, 3)
    for is_longer in (False, True):
        source = feed.open()
        taken = source.take(feed.dimension, Past())
        changed = min(2, len(taken.objects))
        feed.put(DIMENSION, changed, feed.items(changed, ROWS + 1) if is_longer else _of_equal_size(feed, changed))
        batch = source.read(feed.dimension, taken, EPOCH)
        found = Read(batch.facts, list(feed.rows(batch.frame)))
        batch.close()
        assert [item.order for item in found.objects] == [item.order for item in taken.objects[: changed - 1]]
        assert len(found.rows) == ROWS * (changed - 1)
        (now,) = [item for item in feed.take(*found.objects) if item.name == taken.objects[changed - 1].name]
        assert now != taken.objects[changed - 1], "a changed object is listed as it was"


def _of_equal_size(feed: Feed, place: int) -> Sequence[Item]:
    """Return rows that say something else in as many characters, a moment later."""
    later = [replace(item, time=(item.time or 0) + 1) for item in feed.items(place)]
    return [
        replace(item, cells={**item.cells, "a": str(item.cells["a"]).upper()})
        if isinstance(item, ChangeEvent)
        else item
        for item in later
    ]


def an_object_that_changed_after_it_was_applied_stops_the_table(feed: Feed) -> None:
    """By an alarm: what was applied is not what is there."""
    feed.deliver(1, 2)
    applied = _applied(feed)
    feed.deliver(1, rows=ROWS + 1)
    with pytest.raises(AlarmRaised):
        feed.take(*applied)


def an_object_that_comes_late_is_taken_and_said_to_be_late(feed: Feed) -> None:
    """Or, where nothing may come below the floor any more, it stops the table by an alarm."""
    feed.deliver(1, 3)
    applied = _applied(feed)
    feed.deliver(2)
    taken = feed.open().take(feed.dimension, past(applied))
    assert [item.name for item in taken.objects] == list(taken.late) != []
    with pytest.raises(AlarmRaised):
        feed.take(*applied, floor=applied[-1].order)


def a_truncation_is_one_truncate_at_its_place(feed: Feed) -> None:
    """A frame of one row, as if the source had written it."""
    place = Position(1, BEGIN, 1, 1)
    for time in (None, 5):
        (found,) = feed.rows(feed.open().truncation(feed.dimension, place, time))
        assert isinstance(found, ChangeEvent)
        assert (found.operation, found.position, found.time) == (Operation.TRUNCATE, place, time)


def a_table_is_read_by_what_its_source_calls_it(feed: Feed) -> None:
    """`Dimension.source`, whatever its own name is: two tables may be made of the same objects."""
    feed.deliver(1, 3)
    feed.put(OTHER, 2, feed.items(2))
    other = replace(feed.dimension, name=OTHER.name, reads=DIMENSION.name)
    source = feed.open()
    taken = source.take(other, Past())
    assert taken.objects == feed.take()
    batch = source.read(other, taken, EPOCH)
    found = Read(batch.facts, list(feed.rows(batch.frame)))
    batch.close()
    assert told(found.by_arrival) == told(feed.read().by_arrival)
    assert set(source.archive(other, found.objects)) == set(feed.open().archive(feed.dimension, found.objects))


def what_is_archived_is_what_was_applied(feed: Feed) -> None:
    """No other object; a second time, after a crash, with the same answer; and what is left is taken as before."""
    feed.deliver(1, 2)
    applied = _applied(feed)
    feed.deliver(3)
    first = set(feed.open().archive(feed.dimension, applied))
    assert first <= {item.name for item in applied}, f"also in the archive: {first}"
    assert set(feed.open().archive(feed.dimension, applied)) == first
    (fresh,) = feed.take(*applied)
    assert fresh.order > applied[-1].order


LAWS: Final[tuple[Law, ...]] = (
    of_a_table_without_objects_nothing_is_taken,
    objects_come_in_order_however_they_were_delivered,
    many_objects_of_many_rows_come_whole,
    values.a_cell_comes_as_it_was_written,
    what_is_taken_is_taken_again_until_it_is_applied,
    what_was_applied_is_not_taken_again,
    a_listing_from_the_last_object_on_finds_the_same,
    each_row_has_a_place_of_its_own,
    sequences_are_what_the_source_says_of_them,
    each_row_is_counted,
    facts_bound_the_rows,
    what_is_read_again_is_the_same_to_the_position,
    an_object_that_changed_since_it_was_taken_is_left_out_with_all_behind_it,
    an_object_that_changed_after_it_was_applied_stops_the_table,
    an_object_that_comes_late_is_taken_and_said_to_be_late,
    a_truncation_is_one_truncate_at_its_place,
    a_table_is_read_by_what_its_source_calls_it,
    what_is_archived_is_what_was_applied,
    *mended_rows.LAWS,
)
