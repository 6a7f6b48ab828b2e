"""The laws of a source for full loads: before all changes, complete or not at all, each in its own epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from lakeward.core.dimension import Dimension
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation
from lakeward.core.ledger.full_loads import Load
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.change_log import Reason
from lakeward.plugins.testing.contract import Closed
from lakeward.plugins.testing.feeds import DIMENSION, EPOCH, ROWS, Feed, Law, Read, contents, history_of
from lakeward.plugins.testing.scripts import Item


def rows_of_a_full_load_are_reads_of_a_new_epoch(feed: Feed) -> None:
    """Rows of a load come once, at the lowest sequence, in objects marked as a load, and the load is complete."""
    _load(feed, 1, 2)
    events = _read(feed, _select_complete(feed))
    assert contents(events.by_arrival) == contents([*_items(feed, 1), *_items(feed, 2)])
    assert {item.position[:2] for item in events.rows} == {(EPOCH, LOAD_SEQUENCE)}
    places = [item.position[2:] for item in events.by_arrival]
    assert len({*places}) == len(places), f"a place twice: {places}"
    assert [place[0] for place in places] == [item.order for item in events.objects for _ in range(ROWS)]
    facts = events.facts
    assert {name: n for name, n in facts.operations.items() if n} == {Operation.READ: 2 * ROWS - 1}
    assert {name: n for name, n in facts.rejects.items() if n} == {Reason.NULL_KEY: 1}
    assert [(fact.rows, fact.is_load) for fact in facts.objects] == [(ROWS, True)] * 2, "objects of a load"
    assert facts.loaded == EPOCH, f"the load begins epoch {EPOCH}; the facts have {facts.loaded}"


def changes_follow_the_full_load_of_their_epoch(feed: Feed) -> None:
    """Changes come after the load, at any source times. The load counts as complete once there are changes."""
    if feed.snapshots is not None:
        raise Closed("changes behind a full load")
    _load(feed, 1, 2)
    assert feed.read().facts.loaded is None, "a load without changes after it counts as complete"
    feed.deliver(1, 2)
    batches = list(feed.batches())
    rows = [item for batch in batches for item in batch.by_arrival]
    every = [*_items(feed, 1), *_items(feed, 2), *feed.items(1), *feed.items(2)]
    assert contents(rows) == contents(every)
    loads, changes = rows[: 2 * ROWS], rows[2 * ROWS :]
    assert max(item.position.source_order for item in loads) < min(item.position.source_order for item in changes)
    assert [fact.is_load for batch in batches for fact in batch.facts.objects] == [True, True, False, False]
    for facts in (batch.facts for batch in batches):
        loaded = None if all(fact.is_load for fact in facts.objects) else EPOCH
        assert facts.loaded == loaded, f"loaded is epoch {loaded}; the facts have {facts.loaded}"


def an_incomplete_full_load_is_not_selected(feed: Feed) -> None:
    """A load that may be incomplete is reported and not selected, until an operator says that it is complete."""
    _load(feed, 1, 2)
    _awaits(feed, objects=2)
    selection = _select_complete(feed)
    assert selection.load_epoch == EPOCH, f"epoch {EPOCH} begins; the selection has {selection.load_epoch}"
    assert len(selection.objects) == 2, f"of 2 objects selected are {[*selection.objects]}"
    _load(feed, 3)
    _awaits(feed, objects=3, whole=selection.objects)


def a_full_load_that_changed_after_its_selection_is_not_read(feed: Feed) -> None:
    """If one object of a load changed, none is read: an incomplete load would replace all rows."""
    _load(feed, 1, 2)
    selection = _select_complete(feed)
    _load(feed, 2, rows=ROWS + 1)
    batch = feed.open().read(_table(feed), selection, EPOCH)
    batch.close()
    assert (batch.facts.objects, batch.facts.read) == ((), 0)


def a_rewritten_full_load_begins_the_next_epoch(feed: Feed) -> None:
    """A load that is written again begins an epoch if one is awaited. Else an alarm stops the table."""
    _load(feed, 1, 2)
    applied = _read(feed, _select_complete(feed)).objects
    _awaits(feed, *applied, objects=0, epoch=EPOCH + 1)
    _load(feed, 1, rows=ROWS + 1)
    with pytest.raises(AlarmRaised):
        feed.open().select_objects(_table(feed), history_of(applied))
    _awaits(feed, *applied, objects=1, epoch=EPOCH + 1)
    _load(feed, 2, rows=ROWS + 1)
    events = _read(feed, _select_complete(feed, *applied, epoch=EPOCH + 1), EPOCH + 1)
    assert contents(events.by_arrival) == contents([*_items(feed, 1, ROWS + 1), *_items(feed, 2, ROWS + 1)])
    assert events.facts.least is not None
    assert (events.facts.least.epoch, events.facts.loaded) == (EPOCH + 1, EPOCH + 1)


def _load(feed: Feed, *places: int, rows: int = ROWS) -> None:
    """Put objects of a full load, in this order. Raises Closed for a source without full loads."""
    if feed.put_load is None:
        raise Closed("full loads")
    for place in places:
        feed.put_load(DIMENSION, place, _items(feed, place, rows))


def _items(feed: Feed, place: int, rows: int = ROWS) -> Sequence[Item]:
    """Return the rows of an object of a full load: those of the object of changes at this place, as reads."""
    items = [
        replace(item, position=item.position._replace(sequence=LOAD_SEQUENCE)) for item in feed.items(place, rows)
    ]
    return [replace(item, operation=Operation.READ) if isinstance(item, ChangeEvent) else item for item in items]


def _table(feed: Feed) -> Dimension:
    return replace(feed.dimension, snapshots=feed.snapshots)


def _take(
    feed: Feed, *applied: SourceObject, whole: Iterable[SourceObject] | None = None, epoch: int = EPOCH
) -> ObjectSelection:
    """Select as a new process that awaits a full load, of which `whole` are all objects as an operator said."""
    settles = None if feed.snapshots is None else feed.snapshots.settles
    versions = None if whole is None else frozenset(item.version for item in whole)
    load = Load(epoch=epoch, since=1 if settles is None else None, completed_versions=versions, settles=settles)
    return feed.open().select_objects(_table(feed), history_of(applied, load=load))


def _select_complete(feed: Feed, *applied: SourceObject, epoch: int = EPOCH) -> ObjectSelection:
    """Say that the existing objects are the complete load, and select it."""
    return _take(feed, *applied, whole=_take(feed, *applied, epoch=epoch).remaining, epoch=epoch)


def _awaits(feed: Feed, *applied: SourceObject, objects: int, epoch: int = EPOCH, **more: Any) -> None:
    """Check that a source selects nothing, and reports how many objects of the awaited load there are."""
    selection = _take(feed, *applied, epoch=epoch, **more)
    assert (selection.objects, selection.load_epoch) == ((), None), "an incomplete load is selected"
    assert selection.awaited is not None, "the selection does not say that a full load is awaited"
    assert (selection.awaited.epoch, selection.awaited.objects, len(selection.remaining)) == (
        epoch,
        objects,
        objects,
    )


def _read(feed: Feed, selection: ObjectSelection, epoch: int = EPOCH) -> Read:
    batch = feed.open().read(_table(feed), selection, epoch)
    try:
        return Read(batch.facts, list(feed.rows(batch.frame)))
    finally:
        batch.close()


LAWS: Final[tuple[Law, ...]] = (
    rows_of_a_full_load_are_reads_of_a_new_epoch,
    changes_follow_the_full_load_of_their_epoch,
    an_incomplete_full_load_is_not_selected,
    a_full_load_that_changed_after_its_selection_is_not_read,
    a_rewritten_full_load_begins_the_next_epoch,
)
