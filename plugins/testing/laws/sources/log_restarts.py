"""The laws of a source for its log: restarts are reported, nothing else is, and later positions are raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from lakeward.core.checks.log_restart import FoundRestart, LogRestart, find_restarts
from lakeward.core.checks.log_steps import LogReached
from lakeward.core.ledger.objects import SourceObject
from lakeward.plugins.testing.contract import Closed
from lakeward.plugins.testing.feeds import DIMENSION, EPOCH, ROWS, Feed, Law, history_of
from lakeward.plugins.testing.scripts import Item

_HIGH: Final = 900_000
_LOW: Final = 5_000
"""Log positions before and after it starts over."""


def a_log_that_starts_over_is_reported(feed: Feed) -> None:
    """A restart is reported at the object whose changes are newer than all before, and lower in the log."""
    _put(feed, 1, _HIGH)
    _put(feed, 3, _LOW)
    restarts = _restart(feed)
    assert restarts is not None, "newer changes have lower log positions, and no restart is reported"
    last = max(item.order for batch in feed.batches() for item in batch.objects)
    assert restarts.restart.order == last, f"the log starts over in object {last}; reported is {restarts}"


def a_log_that_climbs_above_its_old_end_is_reported(feed: Feed) -> None:
    """A restart is reported although later changes of the object are above the whole old log."""
    _put(feed, 1, _HIGH)
    _put_each(feed, 3, [(_LOW, 3), (_HIGH + 100, 3), (_HIGH + 200, 3)])
    _check_restart(feed, row=1)


def a_log_that_starts_over_after_an_old_change_is_reported(feed: Feed) -> None:
    """A restart is reported at the second change of an object whose first one is a repeat."""
    _put(feed, 1, _HIGH)
    _put_each(feed, 3, [(_HIGH, 1), (_LOW, 3), (_LOW + 100, 3)])
    _check_restart(feed, row=2)


def _check_restart(feed: Feed, row: int) -> None:
    """Check that a restart is reported at a row of the last object, in one batch or in several."""
    wanted = (max(item.order for batch in feed.batches() for item in batch.objects), row)
    for objects in (None, 1):
        restarts = _restart(feed, objects)
        assert restarts is not None, "a newer change has a lower log position, and no restart is reported"
        assert restarts.restart[:2] == wanted, (
            f"the log starts over at object and row {wanted}; reported is {restarts}"
        )


def late_and_repeated_changes_are_no_restart(feed: Feed) -> None:
    """Late or repeated changes have lower log positions, but are not newer."""
    _put(feed, 3, _HIGH)
    _put(feed, 4, _LOW, times_of=1)
    _put(feed, 5, _HIGH, times_of=3)
    restarts = _restart(feed)
    assert restarts is None, f"reported is {restarts}"


def changes_after_a_restart_are_above_the_old_log(feed: Feed) -> None:
    """Changes after a restart in `ObjectSelection.restarts` get higher sequences. Earlier ones keep theirs.

    So do the changes of later partitions, which begin at the `end` of the restart.
    """
    _put(feed, 1, _HIGH)
    _put(feed, 3, _LOW)
    restarts = _restart(feed)
    assert restarts is not None, "the restart is not reported"
    old, new = _sequences(feed), _sequences(feed, restarts.restart)
    wanted = {
        (order, row): sequence + (restarts.restart.offset if order >= restarts.restart.order else 0)
        for (order, row), sequence in old.items()
    }
    assert new == wanted, f"with {restarts.restart} sequences are {new}, not {wanted}"
    order = restarts.restart.order
    other = restarts.restart._replace(order=0, end=order)
    last = {place: sequence for place, sequence in _sequences(feed, other).items() if place[0] >= order}
    assert last == {place: old[place] for place in last}, f"with {other} sequences behind its end are {last}"


def _put(feed: Feed, place: int, sequence: int, times_of: int | None = None) -> None:
    """Put an object whose rows have the log positions after `sequence`."""
    _put_each(feed, place, [(sequence, times_of or place)] * ROWS)


def _put_each(feed: Feed, place: int, rows: Sequence[tuple[int, int]]) -> None:
    """Put an object. Each of `rows` is the log position before the row and the object whose source times it has.

    Raises Closed for a source without a log.
    """
    if not feed.has_log:
        raise Closed("a log of the source")
    items = feed.items(place)
    times = [feed.items(of)[row].time for row, (_, of) in enumerate(rows)]
    places = [sequence + item.position.row for item, (sequence, _) in zip(items, rows, strict=True)]
    feed.put(DIMENSION, place, [_at(*row) for row in zip(items, places, times, strict=True)])


def _sequences(feed: Feed, *restarts: LogRestart) -> Mapping[tuple[int, int], int]:
    """Return the sequence of each row by object and row number, with these acknowledged restarts."""
    applied: list[SourceObject] = []
    sequences: dict[tuple[int, int], int] = {}
    source = feed.open()
    while (selection := source.select_objects(feed.dimension, history_of(applied))).objects:
        batch = source.read(feed.dimension, replace(selection, restarts=restarts), EPOCH)
        sequences |= {item.position[2:]: item.position.sequence for item in feed.rows(batch.frame)}
        applied += [fact.object for fact in batch.facts.objects]
        batch.close()
    return sequences


def _at(item: Item, sequence: int, time: int | None) -> Item:
    return replace(item, position=item.position._replace(sequence=sequence), time=time)


def _restart(feed: Feed, objects_per_batch: int | None = None) -> FoundRestart | None:
    """Return the first restart that the core finds in the facts of the batches."""
    reached, source = LogReached(), feed.open()
    applied: list[SourceObject] = []
    while (selection := source.select_objects(feed.dimension, history_of(applied))).objects:
        selection = replace(selection, objects=selection.objects[:objects_per_batch], reached=reached)
        batch = source.read(feed.dimension, selection, EPOCH)
        batch.close()
        objects = [fact.in_log for fact in batch.facts.objects]
        restarts = find_restarts(objects, reached, ())
        if restarts:
            return restarts[0]
        reached = reduce(LogReached.with_span, (span for in_log in objects for span in in_log.spans), reached)
        applied += [fact.object for fact in batch.facts.objects]
    return None


LAWS: Final[tuple[Law, ...]] = (
    a_log_that_starts_over_is_reported,
    a_log_that_climbs_above_its_old_end_is_reported,
    a_log_that_starts_over_after_an_old_change_is_reported,
    late_and_repeated_changes_are_no_restart,
    changes_after_a_restart_are_above_the_old_log,
)
