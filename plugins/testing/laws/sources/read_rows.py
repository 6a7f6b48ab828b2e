"""The laws of a source for its rows: each is read once, as written, at its position, and counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from lakeward.core.events import ChangeEvent, Sequences
from lakeward.core.merge.change_log import Reject
from lakeward.plugins.testing.feeds import BEGIN, DIMENSION, EPOCH, ROWS, Feed, Law, contents
from lakeward.plugins.testing.laws import odd_values
from lakeward.plugins.testing.scripted_source import key_range
from lakeward.plugins.testing.scripts import Item


def many_objects_of_many_rows_are_read_completely(feed: Feed) -> None:
    """More than ten objects are read in order, and rows that differ only in their position are all read."""
    objects = [[*feed.items(place, 1 + place % 3)] for place in range(1, 13)]
    last = feed.items(13, 60)
    objects.append([*last, *(_moved(last[-1], rows) for rows in (1, 2, 3))])
    for place, items in enumerate(objects, 1):
        feed.put(DIMENSION, place, items)
    read = [words for batch in feed.batches() for words in contents(batch.by_arrival)]
    assert read == [words for items in objects for words in contents(items)]


def _moved(item: Item, rows: int) -> Item:
    """Return a copy of a row, so many rows later."""
    place = item.position
    return replace(item, position=place._replace(sequence=place.sequence + rows, row=place.row + rows))


def each_row_has_a_place_of_its_own(feed: Feed) -> None:
    """The position of a row has the epoch of the batch, the order of its object and a rising row number.

    By sequence, a later change is not before an earlier one.
    """
    feed.deliver(1, 2, 3)
    for batch in feed.batches():
        places = [item.position for item in batch.by_arrival]
        assert len({place[2:] for place in places}) == len(places), f"two rows have one position: {places}"
        assert places == sorted(places), f"sequences do not rise with the times: {places}"
        assert {place.epoch for place in places} == {EPOCH}
        assert {place.object for place in places} == {item.order for item in batch.objects}
        times = [item.time for item in batch.by_arrival]
        assert times == sorted(times, key=lambda time: time or 0), "rows are not in order"


def sequences_are_as_the_source_declares(feed: Feed) -> None:
    """Sequences are of the declared kind of `Sequences`, also if several changes have one commit time.

    The core relies on it: it makes watermarks from commit times, and finds copies by unique numbers.
    """
    declared = feed.open().sequences
    feed.put(DIMENSION, 1, [_at_the_beginning(item, declared) for item in feed.items(1)])
    feed.deliver(2, 3)
    events = [item for batch in feed.batches() for item in batch.by_arrival if isinstance(item, ChangeEvent)]
    times, sequences = [event.time for event in events], [event.position.sequence for event in events]
    match declared:
        case Sequences.TIMES:
            assert sequences in (times, [0] * len(sequences)), (
                f"declared are commit times {times}; found is {sequences}"
            )
        case Sequences.UNIQUE:
            assert len({*sequences}) == len(sequences), f"declared are unique sequences; found is {sequences}"
        case Sequences.PLACES if feed.has_places:
            assert any(sequences), f"declared are log positions; found is {sequences}"
        case Sequences.ARRIVAL | Sequences.PLACES:
            assert not any(sequences), f"declared is the order of arrival alone; found are sequences {sequences}"


def _at_the_beginning(item: Item, declared: Sequences) -> Item:
    """Return a change with the commit time `BEGIN`, which others have too. Its position in a log stays."""
    place = item.position._replace(sequence=BEGIN) if declared is Sequences.TIMES else item.position
    return replace(item, time=BEGIN, position=place)


def each_row_is_counted(feed: Feed) -> None:
    """Each row is counted: an event by its operation, a reject by its reason."""
    feed.deliver(1, 2, 3)
    for batch in feed.batches():
        events = Counter(item.operation for item in batch.rows if isinstance(item, ChangeEvent))
        rejects = Counter(item.reason for item in batch.rows if isinstance(item, Reject))
        assert {name: n for name, n in batch.facts.operations.items() if n} == events
        assert {name: n for name, n in batch.facts.rejects.items() if n} == rejects
        assert batch.facts.read == sum(fact.rows for fact in batch.facts.objects)
        assert batch.facts.read - batch.facts.skipped == ROWS * len(batch.objects)


def facts_bound_the_rows(feed: Feed) -> None:
    """The facts of a batch and of each object have its least and greatest position and its greatest source time.

    A key range, if there is one, contains the keys of all events: stored rows outside it are not read.
    """
    feed.deliver(1, 2, 3)
    for batch in feed.batches():
        places = [item.position for item in batch.rows]
        assert (batch.facts.least, batch.facts.greatest) == (min(places), max(places))
        assert batch.facts.time == max(item.time or 0 for item in batch.rows)
        for bounds, keys in zip(batch.facts.key_range, key_range(DIMENSION, batch.rows), strict=False):
            is_inside = bounds is None or keys is None or bounds[0] <= keys[0] <= keys[1] <= bounds[1]
            assert is_inside, f"keys {keys} are not in the range {bounds}"
        for fact in batch.facts.objects:
            own = [place for place in places if place.object == fact.object.order]
            assert (fact.rows, fact.least, fact.greatest) == (len(own), min(own), max(own))


LAWS: Final[tuple[Law, ...]] = (
    many_objects_of_many_rows_are_read_completely,
    odd_values.a_cell_is_read_as_it_was_written,
    each_row_has_a_place_of_its_own,
    sequences_are_as_the_source_declares,
    each_row_is_counted,
    facts_bound_the_rows,
)
