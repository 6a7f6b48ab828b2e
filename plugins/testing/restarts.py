"""The laws of a source for its log: a restart is told, nothing else is, and places behind it are lifted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lakeward.core.ledger import SourceObject
from lakeward.core.log_restart import FoundRestart, LogReached, LogRestart, find_restart
from lakeward.plugins.testing.contract import Closed
from lakeward.plugins.testing.feeds import DIMENSION, EPOCH, Feed, Law, past
from lakeward.plugins.testing.scripts import Item

_HIGH: Final = 900_000
_LOW: Final = 5_000
"""Places in the log before and after it starts over."""


def a_log_that_starts_over_is_told(feed: Feed) -> None:
    """By the object whose changes are newer by time and by arrival than all before, and lower in the log."""
    _put(feed, 1, _HIGH)
    _put(feed, 3, _LOW)
    found = _restart(feed)
    assert found is not None, "changes that are newer by time and by arrival have lower places, and it is not told"
    last = max(item.order for batch in feed.batches() for item in batch.objects)
    assert found.restart.order == last, f"the log starts over in the object {last}; told is {found}"


def changes_that_come_late_or_again_are_no_restart(feed: Feed) -> None:
    """Their places are lower, and they are no newer."""
    _put(feed, 3, _HIGH)
    _put(feed, 4, _LOW, times_of=1)
    _put(feed, 5, _HIGH, times_of=3)
    found = _restart(feed)
    assert found is None, f"told is {found}"


def changes_from_a_restart_on_count_above_the_old_log(feed: Feed) -> None:
    """Once an operator let it pass, which `Taken.restarts` says; those before it keep their places."""
    _put(feed, 1, _HIGH)
    _put(feed, 3, _LOW)
    found = _restart(feed)
    assert found is not None, "that the log starts over is not told"
    old, new = _sequences(feed), _sequences(feed, found.restart)
    wanted = {
        (order, row): sequence + (found.restart.offset if order >= found.restart.order else 0)
        for (order, row), sequence in old.items()
    }
    assert new == wanted, f"with {found.restart} sequences are {new}, not {wanted}"


def _put(feed: Feed, place: int, sequence: int, times_of: int | None = None) -> None:
    """Put an object whose rows have the places behind `sequence`; raises Closed for a source without a log."""
    if not feed.has_log:
        raise Closed("a log of the source")
    items = feed.items(place)
    times = [item.time for item in feed.items(times_of or place)]
    feed.put(DIMENSION, place, [_at(i, sequence + i.position.row, t) for i, t in zip(items, times, strict=True)])


def _sequences(feed: Feed, *restarts: LogRestart) -> Mapping[tuple[int, int], int]:
    """Return the sequence of each row by its object and its number, where an operator let these restarts pass."""
    applied: list[SourceObject] = []
    found: dict[tuple[int, int], int] = {}
    source = feed.open()
    while (taken := source.take(feed.dimension, past(applied))).objects:
        batch = source.read(feed.dimension, replace(taken, restarts=restarts), EPOCH)
        found |= {item.position[2:]: item.position.sequence for item in feed.rows(batch.frame)}
        applied += [known.object for known in batch.facts.objects]
        batch.close()
    return found


def _at(item: Item, sequence: int, time: int | None) -> Item:
    return replace(item, position=item.position._replace(sequence=sequence), time=time)


def _restart(feed: Feed) -> FoundRestart | None:
    """Return the first restart that the core finds by what is told, batch by batch."""
    reached = LogReached()
    for batch in feed.batches():
        objects = [known.in_log for known in batch.facts.objects]
        found = find_restart(objects, reached, ())
        if found is not None:
            return found
        for span in (span for known in objects for span in known.spans):
            reached = reached.after(span)
    return None


LAWS: Final[tuple[Law, ...]] = (
    a_log_that_starts_over_is_told,
    changes_that_come_late_or_again_are_no_restart,
    changes_from_a_restart_on_count_above_the_old_log,
)
