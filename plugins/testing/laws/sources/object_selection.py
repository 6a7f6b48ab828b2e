"""The laws of a source: it selects the same objects in the same order, and reads and counts each row once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pytest

from lakeward.core.errors import AlarmRaised
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.plugins.testing.contract import port_contract
from lakeward.plugins.testing.feeds import (
    BEGIN,
    DIMENSION,
    EPOCH,
    OTHER,
    ROWS,
    Feed,
    Law,
    Read,
    contents,
    history_of,
)
from lakeward.plugins.testing.laws.sources import (
    column_names,
    full_loads,
    log_restarts,
    other_tables,
    read_rows,
    repaired_rows,
    topic_restarts,
)
from lakeward.plugins.testing.scripts import Item


def source_contract(make: Callable[..., Feed]) -> type:
    """Return a test class with the laws of a source. Parameters of `make` are pytest fixtures."""
    return port_contract("The laws of a source.", make, LAWS)


def _applied(feed: Feed) -> list[SourceObject]:
    return [item for batch in feed.batches() for item in batch.objects]


def a_table_without_objects_selects_nothing(feed: Feed) -> None:
    """A table without objects is no error, and objects of other tables are not selected for it."""
    assert not feed.take()
    feed.put(OTHER, 1, feed.items(1))
    selection = feed.open().select_objects(feed.dimension, ObjectHistory())
    assert (selection.objects, selection.remaining, selection.files_left) == ((), (), 0)


def objects_are_read_in_order(feed: Feed) -> None:
    """Objects are read by `SourceObject.order`, in any order of delivery, with all rows as written."""
    feed.deliver(3, 1, 4, 2)
    batches = list(feed.batches())
    orders = [item.order for batch in batches for item in batch.objects]
    assert orders == sorted(set(orders)), f"orders of objects: {orders}"
    assert len(orders) == 4, f"orders of objects: {orders}"
    rows = [words for batch in batches for words in contents(batch.by_arrival)]
    assert rows == [words for place in (1, 2, 3, 4) for words in contents(feed.items(place))]


def objects_are_selected_until_they_are_applied(feed: Feed) -> None:
    """The same objects are selected until they are applied, by any process. Reading does not change that."""
    feed.deliver(1, 2, 3)
    source = feed.open()
    first = source.select_objects(feed.dimension, ObjectHistory())
    assert first.objects
    feed.read()
    assert source.select_objects(feed.dimension, ObjectHistory()).objects == first.objects
    assert feed.take() == first.objects


def applied_objects_are_not_selected_again(feed: Feed) -> None:
    """Applied objects are not selected again and not reported as vanished. Later objects are."""
    feed.deliver(1, 2)
    applied = _applied(feed)
    again = feed.open().select_objects(feed.dimension, history_of(applied))
    assert (again.objects, again.vanished) == ((), ())
    feed.deliver(3)
    (fresh,) = feed.take(*applied)
    assert fresh.order > applied[-1].order


def a_listing_after_the_last_object_selects_the_same(feed: Feed) -> None:
    """`ObjectHistory.start` lets a source skip applied objects in a listing. It may ignore it."""
    feed.deliver(1, 2)
    applied = _applied(feed)
    feed.deliver(3, 4)
    history = {"object_watermark": applied[-1].order, "start": applied[-1].name}
    assert feed.take(*applied, **history) == feed.take(*applied)


def objects_are_read_the_same_again(feed: Feed) -> None:
    """A second process reads the same rows and facts, as after a crash before the commit."""
    feed.deliver(1, 2, 3)
    first, again = feed.read(), feed.read()
    assert first.facts == again.facts
    assert list(first.by_arrival) == list(again.by_arrival)


def an_object_that_changed_after_its_selection_is_left_out(feed: Feed) -> None:
    """An object that changed after its selection is left out with all later ones, and selected again as it is."""
    feed.deliver(1, 2, 3)
    for is_longer in (False, True):
        source = feed.open()
        selection = source.select_objects(feed.dimension, ObjectHistory())
        changed = min(2, len(selection.objects))
        feed.put(DIMENSION, changed, feed.items(changed, ROWS + 1) if is_longer else _of_equal_size(feed, changed))
        (now,) = [item for item in feed.take() if item.name == selection.objects[changed - 1].name]
        assert now != selection.objects[changed - 1], "an object that was put again is listed with its old version"
        batch = source.read(feed.dimension, selection, EPOCH)
        read = Read(batch.facts, list(feed.rows(batch.frame)))
        batch.close()
        assert [item.order for item in read.objects] == [item.order for item in selection.objects[: changed - 1]]
        assert len(read.rows) == ROWS * (changed - 1)
        assert now in feed.take(*read.objects), "the changed object is not selected"


def _of_equal_size(feed: Feed, place: int) -> Sequence[Item]:
    """Return rows of an object with other values of the same length, and later times."""
    later = [replace(item, time=(item.time or 0) + 1) for item in feed.items(place)]
    return [
        replace(item, cells={**item.cells, "a": str(item.cells["a"]).upper()})
        if isinstance(item, ChangeEvent)
        else item
        for item in later
    ]


def an_object_that_changed_after_it_was_applied_stops_the_table(feed: Feed) -> None:
    """An applied object that changed stops the table with an alarm."""
    feed.deliver(1, 2)
    applied = _applied(feed)
    feed.deliver(1, rows=ROWS + 1)
    with pytest.raises(AlarmRaised):
        feed.take(*applied)


def a_late_object_is_selected_and_reported(feed: Feed) -> None:
    """A late object is selected and reported as late. At or below the floor it stops the table with an alarm."""
    feed.deliver(1, 3)
    applied = _applied(feed)
    feed.deliver(2)
    selection = feed.open().select_objects(feed.dimension, history_of(applied))
    assert [item.name for item in selection.objects] == list(selection.late) != []
    with pytest.raises(AlarmRaised):
        feed.take(*applied, object_watermark=applied[-1].order)


def a_truncation_is_one_truncate_at_its_place(feed: Feed) -> None:
    """A truncation is a frame with one truncate at the given position and time."""
    place = Position(1, BEGIN, 1, 1)
    for time in (None, 5):
        (event,) = feed.rows(feed.open().truncation(feed.dimension, place, time))
        assert isinstance(event, ChangeEvent)
        assert (event.operation, event.position, event.time) == (Operation.TRUNCATE, place, time)


def a_table_is_read_under_its_name_in_the_source(feed: Feed) -> None:
    """A table is read under `Dimension.source`: two tables may be made from the same objects."""
    feed.deliver(1, 3)
    feed.put(OTHER, 2, feed.items(2))
    other = replace(feed.dimension, name=OTHER.name, source_name=DIMENSION.name)
    source = feed.open()
    selection = source.select_objects(other, ObjectHistory())
    assert selection.objects == feed.take()
    batch = source.read(other, selection, EPOCH)
    read = Read(batch.facts, list(feed.rows(batch.frame)))
    batch.close()
    assert contents(read.by_arrival) == contents(feed.read().by_arrival)
    assert set(source.archive(other, read.objects)) == set(feed.open().archive(feed.dimension, read.objects))


def only_applied_objects_are_archived(feed: Feed) -> None:
    """Only applied objects are archived. Archiving again gives the same answer, and others are still selected."""
    feed.deliver(1, 2)
    applied = _applied(feed)
    feed.deliver(3)
    first = set(feed.open().archive(feed.dimension, applied))
    assert first <= {item.name for item in applied}, f"also in the archive: {first}"
    assert set(feed.open().archive(feed.dimension, applied)) == first
    (fresh,) = feed.take(*applied)
    assert fresh.order > applied[-1].order


LAWS: Final[tuple[Law, ...]] = (
    a_table_without_objects_selects_nothing,
    objects_are_read_in_order,
    objects_are_selected_until_they_are_applied,
    applied_objects_are_not_selected_again,
    a_listing_after_the_last_object_selects_the_same,
    *read_rows.LAWS,
    objects_are_read_the_same_again,
    an_object_that_changed_after_its_selection_is_left_out,
    an_object_that_changed_after_it_was_applied_stops_the_table,
    a_late_object_is_selected_and_reported,
    a_truncation_is_one_truncate_at_its_place,
    a_table_is_read_under_its_name_in_the_source,
    only_applied_objects_are_archived,
    *full_loads.LAWS,
    *repaired_rows.LAWS,
    *log_restarts.LAWS,
    *column_names.LAWS,
    *other_tables.LAWS,
    *topic_restarts.LAWS,
)
