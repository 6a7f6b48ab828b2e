"""The laws of a source for its log: a restart is told, nothing else is, and places behind it are lifted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from lakeward.core.checks.log_restart import FoundRestart, LogRestart, find_restarts
from lakeward.core.checks.log_steps import LogReached
from lakeward.core.ledger.objects import SourceObject
from lakeward.plugins.testing.contract import Closed
from lakeward.plugins.testing.feeds import DIMENSION, EPOCH, ROWS, Feed, Law, past
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


def a_log_that_climbs_past_its_old_end_is_told(feed: Feed) -> None:
    """A later change of the object lies above all of the old log; the first still lies below."""
    _put(feed, 1, _HIGH)
    _put_each(feed, 3, [(_LOW, 3), (_HIGH + 100, 3), (_HIGH + 200, 3)])
    _check_restart(feed, row=1)


def a_log_that_starts_over_behind_an_old_change_is_told(feed: Feed) -> None:
    """The first change of the object is delivered again; the second is newer than all, and lower in the log."""
    _put(feed, 1, _HIGH)
    _put_each(feed, 3, [(_HIGH, 1), (_LOW, 3), (_LOW + 100, 3)])
    _check_restart(feed, row=2)


def _check_restart(feed: Feed, row: int) -> None:
    """Check that a restart is told at a row of the last object, in one batch with the others or by itself."""
    wanted = (max(item.order for batch in feed.batches() for item in batch.objects), row)
    for objects in (None, 1):
        found = _restart(feed, objects)
        assert found is not None, "a change that is newer by time and by arrival has a lower place; it is not told"
        assert found.restart[:2] == wanted, f"the log starts over at object and row {wanted}; told is {found}"


def changes_that_come_late_or_again_are_no_restart(feed: Feed) -> None:
    """Their places are lower, and they are no newer."""
    _put(feed, 3, _HIGH)
    _put(feed, 4, _LOW, times_of=1)
    _put(feed, 5, _HIGH, times_of=3)
    found = _restart(feed)
    assert found is None, f"told is {found}"


def changes_from_a_restart_on_count_above_the_old_log(feed: Feed) -> None:
    """Once an operator let it pass, which `ObjectSelection.restarts` says; those before it keep their places.

    So do those of the partitions behind its own, which begin at its `end`.
    """
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
    order = found.restart.order
    other = found.restart._replace(order=0, end=order)
    last = {place: sequence for place, sequence in _sequences(feed, other).items() if place[0] >= order}
    assert last == {place: old[place] for place in last}, f"with {other} sequences behind its end are {last}"


def _put(feed: Feed, place: int, sequence: int, times_of: int | None = None) -> None:
    """Put an object whose rows have the places behind `sequence`."""
    _put_each(feed, place, [(sequence, times_of or place)] * ROWS)


def _put_each(feed: Feed, place: int, rows: Sequence[tuple[int, int]]) -> None:
    """Put an object: of each row the place that it lies behind, and the object whose times it has.

    Raises Closed for a source without a log.
    """
    if not feed.has_log:
        raise Closed("a log of the source")
    items = feed.items(place)
    times = [feed.items(of)[row].time for row, (_, of) in enumerate(rows)]
    places = [sequence + item.position.row for item, (sequence, _) in zip(items, rows, strict=True)]
    feed.put(DIMENSION, place, [_at(*row) for row in zip(items, places, times, strict=True)])


def _sequences(feed: Feed, *restarts: LogRestart) -> Mapping[tuple[int, int], int]:
    """Return the sequence of each row by its object and its number, where an operator let these restarts pass."""
    applied: list[SourceObject] = []
    found: dict[tuple[int, int], int] = {}
    source = feed.open()
    while (selection := source.select_objects(feed.dimension, past(applied))).objects:
        batch = source.read(feed.dimension, replace(selection, restarts=restarts), EPOCH)
        found |= {item.position[2:]: item.position.sequence for item in feed.rows(batch.frame)}
        applied += [known.object for known in batch.facts.objects]
        batch.close()
    return found


def _at(item: Item, sequence: int, time: int | None) -> Item:
    return replace(item, position=item.position._replace(sequence=sequence), time=time)


def _restart(feed: Feed, objects_per_batch: int | None = None) -> FoundRestart | None:
    """Return the first restart that the core finds by what is told, batch by batch."""
    reached, source = LogReached(), feed.open()
    applied: list[SourceObject] = []
    while (selection := source.select_objects(feed.dimension, past(applied))).objects:
        selection = replace(selection, objects=selection.objects[:objects_per_batch], reached=reached)
        batch = source.read(feed.dimension, selection, EPOCH)
        batch.close()
        objects = [known.in_log for known in batch.facts.objects]
        found = find_restarts(objects, reached, ())
        if found:
            return found[0]
        reached = reduce(LogReached.with_span, (span for known in objects for span in known.spans), reached)
        applied += [known.object for known in batch.facts.objects]
    return None


LAWS: Final[tuple[Law, ...]] = (
    a_log_that_starts_over_is_told,
    a_log_that_climbs_past_its_old_end_is_told,
    a_log_that_starts_over_behind_an_old_change_is_told,
    changes_that_come_late_or_again_are_no_restart,
    changes_from_a_restart_on_count_above_the_old_log,
)
