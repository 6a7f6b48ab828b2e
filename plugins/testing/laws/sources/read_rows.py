"""The laws of a source for the rows that it reads: each once, in its place, counted, and as it was written."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from lakeward.core.events import ChangeEvent, Sequences
from lakeward.core.merge.change_log import Reject
from lakeward.plugins.testing.feeds import BEGIN, DIMENSION, EPOCH, ROWS, Feed, Law, told
from lakeward.plugins.testing.laws import odd_values
from lakeward.plugins.testing.scripted_source import key_range
from lakeward.plugins.testing.scripts import Item


def many_objects_of_many_rows_come_whole(feed: Feed) -> None:
    """In order beyond the tenth, too; rows that are equal in all but their place are as many as were written."""
    objects = [[*feed.items(place, 1 + place % 3)] for place in range(1, 13)]
    last = feed.items(13, 60)
    objects.append([*last, *(_behind(last[-1], rows) for rows in (1, 2, 3))])
    for place, items in enumerate(objects, 1):
        feed.put(DIMENSION, place, items)
    found = [words for batch in feed.batches() for words in told(batch.by_arrival)]
    assert found == [words for items in objects for words in told(items)]


def _behind(item: Item, rows: int) -> Item:
    """Return a row that is equal to one but for its place, so many rows behind it."""
    place = item.position
    return replace(item, position=place._replace(sequence=place.sequence + rows, row=place.row + rows))


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
    """As `Sequences` has it of each kind, where several changes are committed at one time.

    The core goes by it: of what it takes for commit times it makes the mark, and by numbers of their own it knows
    a copy under another name.
    """
    said = feed.open().sequences
    feed.put(DIMENSION, 1, [_at_the_beginning(item, said) for item in feed.items(1)])
    feed.deliver(2, 3)
    events = [item for batch in feed.batches() for item in batch.by_arrival if isinstance(item, ChangeEvent)]
    times, found = [event.time for event in events], [event.position.sequence for event in events]
    match said:
        case Sequences.TIMES:
            assert found in (times, [0] * len(found)), f"said are commit times, which are {times}; found is {found}"
        case Sequences.UNIQUE:
            assert len({*found}) == len(found), f"said is that each change has its own; sequences are {found}"
        case Sequences.PLACES if feed.has_places:
            assert any(found), f"said is that sequences are places in a log; found is {found}"
        case Sequences.ARRIVAL | Sequences.PLACES:
            assert not any(found), f"said is that there is no order but that of arrival; sequences are {found}"


def _at_the_beginning(item: Item, said: Sequences) -> Item:
    """Return a change that is committed with others; what orders it in a log stays its own."""
    place = item.position._replace(sequence=BEGIN) if said is Sequences.TIMES else item.position
    return replace(item, time=BEGIN, position=place)


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
    """Those of the batch, and those of each object: least and greatest position, and the greatest source time.

    A range of keys, where there is one, has the key of every event in it: what is beyond is not looked for.
    """
    feed.deliver(1, 2, 3)
    for batch in feed.batches():
        places = [item.position for item in batch.rows]
        assert (batch.facts.least, batch.facts.greatest) == (min(places), max(places))
        assert batch.facts.time == max(item.time or 0 for item in batch.rows)
        for said, found in zip(batch.facts.key_range, key_range(DIMENSION, batch.rows), strict=False):
            assert said is None or found is None or said[0] <= found[0] <= found[1] <= said[1], (
                f"{said} bounds no {found}"
            )
        for known in batch.facts.objects:
            own = [place for place in places if place.object == known.object.order]
            assert (known.rows, known.least, known.greatest) == (len(own), min(own), max(own))


LAWS: Final[tuple[Law, ...]] = (
    many_objects_of_many_rows_come_whole,
    odd_values.a_cell_comes_as_it_was_written,
    each_row_has_a_place_of_its_own,
    sequences_are_what_the_source_says_of_them,
    each_row_is_counted,
    facts_bound_the_rows,
)
