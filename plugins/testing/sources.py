"""The laws of a source: the same objects in the same order, each row once in its place, none uncounted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import pytest

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import AlarmRaised, MendError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.facts import BatchFacts, Capability
from lakeward.core.ledger import Past, SourceObject
from lakeward.core.memory import Reason, Reject
from lakeward.core.ports import Entry, Mended, Source
from lakeward.core.remaking import Remaking
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.plugins.testing.contract import port_contract
from lakeward.plugins.testing.scripts import Item

COLUMNS: Final = Schema((Column("id", parse_type("bigint")), Column("a", parse_type("string"))))
DIMENSION: Final = Dimension(name=TableName("shop", "orders"), schema=COLUMNS, key=("id",))
OTHER: Final = replace(DIMENSION, name=TableName("shop", "lines"))

BEGIN: Final = 1_700_000_000_000_000
"""The source time before the first change, in microseconds since 1970."""

ROWS: Final = 3
"""The rows of an object; a changed one has another more."""

EPOCH: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A source under test that has no object yet.

    `open` opens it as a new process would: twice, it is the same one. `put` puts an object at a place
    among those of a table, 1 being the first, with these rows in this order, written as the source has
    them; one that is put again takes the place of the one before. A row is a change, at its `time`, or a
    reject: a row whose key is NULL. `rows` reads events and rejects of a frame, in any order. A source
    that does not tell all `operations` apart says those that it does. One that tells the cells of a row by
    its original text gives the `texts` of a frame, by position. The tables are those of `DIMENSION` and
    `OTHER`.
    """

    open: Callable[[], Source[Any]]
    put: Callable[[Dimension, int, Sequence[Item]], object]
    rows: Callable[[Any], Iterable[Item]]
    operations: Sequence[Operation] = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
    texts: Callable[[Any], Mapping[Position, str]] = lambda _frame: {}

    @property
    def dimension(self) -> Dimension:
        """The table, in the order that the source offers."""
        source = self.open()
        return replace(DIMENSION, lateness=source.lateness, sequences=source.sequences)

    def deliver(self, *places: int, rows: int = ROWS) -> None:
        """Put objects, in this order."""
        for place in places:
            self.put(DIMENSION, place, self.items(place, rows))

    def items(self, place: int, rows: int = ROWS) -> Sequence[Item]:
        """Return what an object holds: the second row of the second object has no key."""
        return [self._item(place, row) for row in range(1, rows + 1)]

    def _item(self, place: int, row: int) -> Item:
        time = BEGIN + 1_000_000 * (place * 100 + row)
        position, number = Position(1, time, place, row), place * 100 + row
        if (place, row) == (2, 2):
            return Reject(position, Reason.NULL_KEY, time=time)
        operation = self.operations[row % len(self.operations)]
        cells = {"id": number, "a": f"of {number}"}
        return ChangeEvent(operation=operation, position=position, key=(number,), cells=cells, time=time)

    def take(self, *applied: SourceObject, **more: Any) -> Sequence[SourceObject]:
        """Take as a new process does, which knows what was applied."""
        return self.open().take(self.dimension, _past(applied, **more)).objects

    def read(self, *applied: SourceObject) -> Read:
        """Take and read the next batch."""
        source = self.open()
        batch = source.read(self.dimension, source.take(self.dimension, _past(applied)), EPOCH)
        try:
            return Read(batch.facts, list(self.rows(batch.frame)))
        finally:
            batch.close()

    def batches(self) -> Iterator[Read]:
        """Take, read and apply until nothing is left."""
        applied: list[SourceObject] = []
        while self.take(*applied):
            found = self.read(*applied)
            assert found.objects, "objects were taken that nobody changed, and none of them was read"
            twice = [item.name for item in found.objects if item in applied]
            assert not twice, f"taken again after they were applied: {twice}"
            applied += found.objects
            yield found


@dataclass(frozen=True, slots=True)
class Read:
    """A batch that was read."""

    facts: BatchFacts
    rows: Sequence[Item]

    @property
    def objects(self) -> Sequence[SourceObject]:
        """The objects that are in it."""
        return [known.object for known in self.facts.objects]

    @property
    def by_arrival(self) -> Sequence[Item]:
        """The rows in the order in which they came."""
        return sorted(self.rows, key=lambda item: item.position[2:])


Law: TypeAlias = Callable[[Feed], None]


def source_contract(make: Callable[..., Feed]) -> type:
    """Return a test class with the laws of a source; parameters of `make` are fixtures of pytest."""
    return port_contract("The laws of a source.", make, LAWS)


def _past(applied: Sequence[SourceObject], **more: Any) -> Past:
    last = applied[-1].name if applied else None
    return Past(seen={item.name: item for item in applied}, last=last, **more)


def _told(items: Iterable[Item]) -> Sequence[object]:
    """Return what rows say, without their places: of a delete its key alone."""
    return [_words(item) for item in items]


def _words(item: Item) -> object:
    if isinstance(item, Reject):
        return item.reason, item.time
    cells = None if item.operation is Operation.DELETE else {name: item.cells.get(name) for name in COLUMNS.names}
    return item.operation, item.key, cells, item.time


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
    found = [words for batch in batches for words in _told(batch.by_arrival)]
    assert found == [words for place in (1, 2, 3, 4) for words in _told(feed.items(place))]


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
    again = feed.open().take(feed.dimension, _past(applied))
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
    """What it holds now is read once it is taken so."""
    feed.deliver(1, 2, 3)
    source = feed.open()
    taken = source.take(feed.dimension, Past())
    changed = min(2, len(taken.objects))
    feed.deliver(changed, rows=ROWS + 1)
    batch = source.read(feed.dimension, taken, EPOCH)
    found = Read(batch.facts, list(feed.rows(batch.frame)))
    batch.close()
    assert tuple(found.objects) == taken.objects[: changed - 1]
    assert len(found.rows) == ROWS * (changed - 1)
    (now,) = [item for item in feed.take(*found.objects) if item.name == taken.objects[changed - 1].name]
    assert now != taken.objects[changed - 1], "a changed object is listed as it was"


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
    taken = feed.open().take(feed.dimension, _past(applied))
    assert [item.name for item in taken.objects] == list(taken.late) != []
    with pytest.raises(AlarmRaised):
        feed.take(*applied, floor=applied[-1].order)


def a_truncation_is_one_truncate_at_its_place(feed: Feed) -> None:
    """A frame of one row, as if the source had written it."""
    place = Position(1, BEGIN, 1, 1)
    (found,) = feed.rows(feed.open().truncation(feed.dimension, place))
    assert isinstance(found, ChangeEvent)
    assert (found.operation, found.position) == (Operation.TRUNCATE, place)


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


def without_rules_rows_have_the_columns_and_the_key_of_their_table(feed: Feed) -> None:
    """Rules are put behind a source; what a person mends has the columns that are written."""
    assert feed.open().written(feed.dimension) == feed.dimension


def without_rules_no_column_is_made_again(feed: Feed) -> None:
    """Whatever events may call for."""
    for may_need in (frozenset[Capability](), frozenset(Capability)):
        assert feed.open().remaking(feed.dimension, may_need) == Remaking()


def the_cells_of_a_row_in_quarantine_are_those_that_were_written(feed: Feed) -> None:
    """Of that row and no other, to another process; what cannot be told is left out."""
    feed.deliver(1, 2)
    for item, entry in _in_quarantine(feed):
        told = feed.open().cells(feed.dimension, entry)
        written = {name: str(cell) for name, cell in item.cells.items()}
        assert {*told.after} <= {*COLUMNS.names}, f"cells of columns that no row has: {told}"
        differing = {name: text for name, text in told.after.items() if written.get(name) != text}
        assert not differing, f"row {entry.row} of {entry.object} was written as {written}; told is {told}"
        assert not told.before, "of a row that changes no key there is none before"


def a_mended_row_is_an_event_in_its_place(feed: Feed) -> None:
    """With the cells that a person wrote, at the time of the row; among others, each is its own."""
    feed.deliver(1, 2)
    rows = list(_in_quarantine(feed))
    mended = [replace(entry, mended=_mended(item, a=f"mended {item.key}")) for item, entry in rows]
    found = sorted(feed.rows(feed.open().mend(feed.dimension, mended)), key=lambda item: item.position[2:])
    assert [item.position for item in found] == [item.position for item, _ in rows]
    cells = [{**item.cells, "a": f"mended {item.key}"} for item, _ in rows]
    assert _told(found) == [
        (item.operation, item.key, cells, item.time) for (item, _), cells in zip(rows, cells, strict=True)
    ]


def one_that_is_not_mended_is_read_as_it_was_written(feed: Feed) -> None:
    """A row that showed a change of columns is replayed so, once its table follows."""
    feed.deliver(1, 2)
    for item, entry in _in_quarantine(feed, Reason.SCHEMA):
        (found,) = feed.rows(feed.open().mend(feed.dimension, [entry]))
        assert (found.position, _words(found)) == (item.position, _words(item))


def a_cell_that_does_not_fit_its_column_is_refused_by_its_name(feed: Feed) -> None:
    """It is never taken for NULL, or for another value."""
    feed.deliver(1)
    ((item, entry), *_) = _in_quarantine(feed)
    with pytest.raises(MendError) as refused:
        feed.rows(feed.open().mend(feed.dimension, [replace(entry, mended=_mended(item, id="no number"))]))
    assert "id" in str(refused.value).split("column ")[-1], f"the column is not named: {refused.value}"


def _in_quarantine(feed: Feed, reason: Reason = Reason.QUALITY) -> Iterator[tuple[ChangeEvent, Entry]]:
    """Read the next batch; return its rows that leave values as if they were in quarantine."""
    source = feed.open()
    batch = source.read(feed.dimension, source.take(feed.dimension, _past(())), EPOCH)
    names = {known.object.order: known.object.name for known in batch.facts.objects}
    items, texts = list(feed.rows(batch.frame)), feed.texts(batch.frame)
    batch.close()
    for item in sorted(items, key=lambda item: item.position[2:]):
        if isinstance(item, ChangeEvent) and item.operation is not Operation.DELETE:
            epoch, sequence, order, row = item.position
            yield (
                item,
                Entry(
                    key=json.dumps([str(part) for part in item.key], separators=(",", ":")),
                    reason=reason.value,
                    detail="",
                    object=names[order],
                    row=row,
                    operation=item.operation.value,
                    epoch=epoch,
                    sequence=sequence,
                    order=order,
                    batch=1,
                    since=0,
                    text=texts.get(item.position, ""),
                    time=item.time,
                ),
            )


def _mended(item: ChangeEvent, **cells: str) -> Mended:
    written = {name: str(item.cells[name]) for name in COLUMNS.names}
    return Mended(operation=item.operation, cells={**written, **cells})


LAWS: Final[tuple[Law, ...]] = (
    of_a_table_without_objects_nothing_is_taken,
    objects_come_in_order_however_they_were_delivered,
    what_is_taken_is_taken_again_until_it_is_applied,
    what_was_applied_is_not_taken_again,
    a_listing_from_the_last_object_on_finds_the_same,
    each_row_has_a_place_of_its_own,
    each_row_is_counted,
    facts_bound_the_rows,
    what_is_read_again_is_the_same_to_the_position,
    an_object_that_changed_since_it_was_taken_is_left_out_with_all_behind_it,
    an_object_that_changed_after_it_was_applied_stops_the_table,
    an_object_that_comes_late_is_taken_and_said_to_be_late,
    a_truncation_is_one_truncate_at_its_place,
    what_is_archived_is_what_was_applied,
    without_rules_rows_have_the_columns_and_the_key_of_their_table,
    without_rules_no_column_is_made_again,
    the_cells_of_a_row_in_quarantine_are_those_that_were_written,
    a_mended_row_is_an_event_in_its_place,
    one_that_is_not_mended_is_read_as_it_was_written,
    a_cell_that_does_not_fit_its_column_is_refused_by_its_name,
)
