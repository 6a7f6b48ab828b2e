"""The laws of a source for topics that arrival alone orders: one that is made anew is told, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakeward.core.checks.topic_restart import refuse_topic_restart
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import NO_SEQUENCE
from lakeward.core.ledger.objects import SourceObject
from lakeward.plugins.testing.contract import Closed
from lakeward.plugins.testing.feeds import DIMENSION, EPOCH, Feed, Law, past


def a_topic_that_is_made_anew_is_told(feed: Feed) -> None:
    """By an object that is before the next one by its offsets, newer by its times, and written later."""
    _put(feed, 1, times_of=5, written=2)
    _put(feed, 2, times_of=3, written=1)
    found = _restart(feed)
    assert found is not None, "an object is newer than the next one, and was written later; it is not told"


def a_topic_that_is_made_anew_behind_what_was_applied_is_told(feed: Feed) -> None:
    """By an object that comes late, and whose changes are newer than all that the table has."""
    _put(feed, 2, times_of=3, written=1)
    applied = feed.read()
    _put(feed, 1, times_of=5, written=2)
    found = _restart(feed, *applied.objects, time=max(one.latest or 0 for one in applied.facts.objects))
    assert found is not None, "an object comes late, and is newer than all that was applied; it is not told"


def messages_of_a_topic_that_come_again_are_no_new_topic(feed: Feed) -> None:
    """Their times are older than those before them, and their objects are written later."""
    _put(feed, 1, times_of=5, written=1)
    _put(feed, 2, times_of=3, written=2)
    _put(feed, 3, times_of=6, written=3)
    found = _restart(feed)
    assert found is None, f"told is {found}"


def _put(feed: Feed, place: int, times_of: int, written: int) -> None:
    """Put an object with the times of another, written so many seconds after a moment; no row tells a place.

    Raises Closed for a source without topics.
    """
    if feed.put_offsets is None:
        raise Closed("topics whose messages arrival orders")
    rows = [
        replace(item, position=item.position._replace(sequence=NO_SEQUENCE), time=other.time)
        for item, other in zip(feed.items(place), feed.items(times_of), strict=True)
    ]
    feed.put_offsets(DIMENSION, place, rows, written)


def _restart(feed: Feed, *applied: SourceObject, time: int | None = None) -> AlarmRaised | None:
    """Return the alarm that the core raises by what is told of the next batch; `time` is the table's greatest."""
    source = feed.open()
    selection = source.select_objects(feed.dimension, past(applied))
    batch = source.read(feed.dimension, selection, EPOCH)
    batch.close()
    try:
        refuse_topic_restart(DIMENSION.name, batch.facts.objects, selection, time, ())
    except AlarmRaised as error:
        return error
    return None


LAWS: Final[tuple[Law, ...]] = (
    a_topic_that_is_made_anew_is_told,
    a_topic_that_is_made_anew_behind_what_was_applied_is_told,
    messages_of_a_topic_that_come_again_are_no_new_topic,
)
