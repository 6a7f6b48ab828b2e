"""The laws of a source for topics ordered by arrival alone: a recreated topic is reported, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakeward.core.checks.topic_restart import refuse_topic_restart
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import NO_SEQUENCE
from lakeward.core.ledger.objects import SourceObject
from lakeward.plugins.testing.contract import Closed
from lakeward.plugins.testing.feeds import DIMENSION, EPOCH, Feed, Law, history_of


def a_recreated_topic_is_reported(feed: Feed) -> None:
    """A topic is recreated if an object has lower offsets than the next one, newer times, and was written later."""
    _put(feed, 1, times_of=5, written=2)
    _put(feed, 2, times_of=3, written=1)
    restarts = _restart(feed)
    assert restarts is not None, (
        "an object is newer than the next one and was written later, and nothing is reported"
    )


def a_recreated_topic_is_reported_after_applied_objects(feed: Feed) -> None:
    """A topic is recreated if a late object has newer changes than all applied ones."""
    _put(feed, 2, times_of=3, written=1)
    applied = feed.read()
    _put(feed, 1, times_of=5, written=2)
    restarts = _restart(feed, *applied.objects, time=max(one.latest or 0 for one in applied.facts.objects))
    assert restarts is not None, "a late object is newer than all applied ones, and nothing is reported"


def repeated_messages_are_no_recreated_topic(feed: Feed) -> None:
    """Repeated messages have older times than those before them, in objects that are written later."""
    _put(feed, 1, times_of=5, written=1)
    _put(feed, 2, times_of=3, written=2)
    _put(feed, 3, times_of=6, written=3)
    restarts = _restart(feed)
    assert restarts is None, f"reported is {restarts}"


def _put(feed: Feed, place: int, times_of: int, written: int) -> None:
    """Put an object with the source times of another, written so many seconds after a fixed moment.

    Its rows have no position of their own. Raises Closed for a source without topics.
    """
    if feed.put_offsets is None:
        raise Closed("topics whose messages arrival orders")
    rows = [
        replace(item, position=item.position._replace(sequence=NO_SEQUENCE), time=other.time)
        for item, other in zip(feed.items(place), feed.items(times_of), strict=True)
    ]
    feed.put_offsets(DIMENSION, place, rows, written)


def _restart(feed: Feed, *applied: SourceObject, time: int | None = None) -> AlarmRaised | None:
    """Return the alarm that the core raises for the next batch. `time` is the greatest time of the table."""
    source = feed.open()
    selection = source.select_objects(feed.dimension, history_of(applied))
    batch = source.read(feed.dimension, selection, EPOCH)
    batch.close()
    try:
        refuse_topic_restart(DIMENSION.name, batch.facts.objects, selection, time, ())
    except AlarmRaised as error:
        return error
    return None


LAWS: Final[tuple[Law, ...]] = (
    a_recreated_topic_is_reported,
    a_recreated_topic_is_reported_after_applied_objects,
    repeated_messages_are_no_recreated_topic,
)
