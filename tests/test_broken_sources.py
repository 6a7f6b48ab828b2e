"""The laws of a source can fail, each on a mistake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from typing import Any

import broken_loads
import broken_logs
import broken_names
import broken_others
import broken_topics
import pytest
from memory_feeds import feed

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.dimension import Dimension, Snapshots, TableName
from lakeward.core.errors import LakewardError, RepairError
from lakeward.core.events import ChangeEvent, Position, Sequences
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.change_log import Reject
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.schema import Column, parse_type
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.plugins.testing import Feed
from lakeward.plugins.testing.contract import Closed
from lakeward.plugins.testing.feeds import Law
from lakeward.plugins.testing.laws import odd_values
from lakeward.plugins.testing.laws.sources import (
    column_names,
    full_loads,
    log_restarts,
    object_selection,
    other_tables,
    read_rows,
    repaired_rows,
    topic_restarts,
)
from lakeward.plugins.testing.scripts import Item

SEEN = (AssertionError, LakewardError, LookupError, ValueError, pytest.fail.Exception)


class MixesTables(MemorySource):
    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        every = [MemorySource.select_objects(self, replace(dimension, name=name), past) for name in self.tables]
        return next((selection for selection in every if selection.objects), ObjectSelection())


class TakesObjectsAsTheyAreListed(MemorySource):
    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        selection = MemorySource.select_objects(self, dimension, past)
        listed = [one.object for one in self.tables.get(dimension.name, [])]
        return replace(selection, objects=tuple(sorted(selection.objects, key=listed.index)))


class ListsTheFirstTen(MemorySource):
    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        names = sorted(one.object.name for one in self.tables.get(dimension.name, []))[:10]
        selection = MemorySource.select_objects(self, dimension, past)
        return replace(selection, objects=tuple(item for item in selection.objects if item.name in names))


class OrdersNamesAsTexts(MemorySource):
    def put(self, table: TableName, order: int, items: Sequence[Item], *rest: Any, **more: Any) -> None:
        rank = sorted(map(str, range(1, 100))).index(str(order)) + 1
        placed = [replace(item, position=item.position._replace(object=rank)) for item in items]
        MemorySource.put(self, table, rank, placed, *rest, **more)


class ReadsEqualRowsOnce(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        once = {
            repr(replace(item, position=item.position._replace(sequence=0, row=0))): item for item in batch.frame
        }
        return changed(batch, [*once.values()])


class TakesTheEmptyTextForNull(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        return bent(MemorySource.read(self, dimension, selection, epoch), lambda cell: None if cell == "" else cell)


class CutsTextsAtLines(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return bent(batch, lambda cell: cell.splitlines()[0] if isinstance(cell, str) and cell else cell)


class ReadsNumbersAsDoubles(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return bent(batch, lambda cell: int(float(cell)) if isinstance(cell, int) else cell)


def bent(batch: Batch[Frame], bend: Callable[[Any], Any]) -> Batch[Frame]:
    events = [item for item in batch.frame if isinstance(item, ChangeEvent)]
    return changed(
        batch,
        [
            replace(
                event,
                key=tuple(map(bend, event.key)),
                cells={name: bend(cell) for name, cell in event.cells.items()},
            )
            for event in events
        ],
    )


def in_order(batch: Batch[Frame], sequence: Callable[[Item], int]) -> Batch[Frame]:
    items = [replace(item, position=item.position._replace(sequence=sequence(item))) for item in batch.frame]
    return changed(batch, items)


class CallsTimesNumbersOfTheirOwn(MemorySource):
    def __init__(self) -> None:
        MemorySource.__init__(self, sequences=Sequences.UNIQUE)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return in_order(batch, lambda item: item.time or 0)


class CallsTimesNoOrder(MemorySource):
    def __init__(self) -> None:
        MemorySource.__init__(self, sequences=Sequences.ARRIVAL)


class CallsAConstantATime(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return in_order(batch, lambda _: 7)


class CallsZeroAPlace(MemorySource):
    def __init__(self) -> None:
        MemorySource.__init__(self, sequences=Sequences.PLACES)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return in_order(batch, lambda _: 0)


class LooksAtSizesAlone(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        now = {one.object.name: one.object for one in self.tables[dimension.name]}
        equal = [now[item.name] if now[item.name].size == item.size else item for item in selection.objects]
        return MemorySource.read(self, dimension, replace(selection, objects=tuple(equal)), epoch)


class RemembersWhatItTook(MemorySource):
    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        selection = MemorySource.select_objects(self, dimension, past)
        fresh = tuple(item for item in selection.objects if item.name not in TOLD)
        TOLD.update(item.name for item in fresh)
        return replace(selection, objects=fresh)


TOLD: set[str] = set()
"""The objects that the source above selected. Each law begins with none."""


class TakesTheLastAgain(MemorySource):
    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        selection = MemorySource.select_objects(self, dimension, past)
        is_done = past.seen and not selection.objects
        return replace(selection, objects=tuple(past.seen.values())[-1:]) if is_done else selection


class BeginsBehindTheStart(MemorySource):
    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        selection = MemorySource.select_objects(self, dimension, past)
        return selection if past.start is None else replace(selection, objects=selection.objects[1:])


def changed(batch: Batch[Frame], items: Sequence[Item]) -> Batch[Frame]:
    return replace(batch, frame=items)


class NumbersRowsFromTheEnd(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return changed(batch, [placed(item, row=100 - item.position.row) for item in batch.frame])


class DropsWhatItCannotRead(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return changed(batch, [item for item in batch.frame if not isinstance(item, Reject)])


class BoundsTheFirstObjectAlone(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, greatest=batch.facts.objects[0].greatest))


class RangesTheFirstKeyAlone(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        first = next(item.keys[0][0] for item in batch.frame if item.keys)
        return replace(batch, facts=replace(batch.facts, key_range=((first, first),)))


NUMBERS = count(1)


class CountsOnFromReadToRead(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return changed(batch, [placed(item, row=next(NUMBERS)) for item in batch.frame])


class ReadsOnBehindAChangedObject(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        now = {one.object for one in self.tables[dimension.name]}
        same = tuple(item for item in selection.objects if item in now)
        return MemorySource.read(self, dimension, replace(selection, objects=same), epoch)


class BelievesWhatWasApplied(MemorySource):
    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        listed = {one.object.name: one.object for one in self.tables.get(dimension.name, [])}
        seen = {name: listed.get(name, item) for name, item in past.seen.items()}
        return MemorySource.select_objects(self, dimension, replace(past, seen=seen))


class LooksBehindTheLastAlone(MemorySource):
    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        selection = MemorySource.select_objects(self, dimension, past)
        last = max((item.order for item in past.seen.values()), default=0)
        return replace(selection, objects=tuple(item for item in selection.objects if item.order > last))


class SaysNothingOfTheFloor(MemorySource):
    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        return MemorySource.select_objects(self, dimension, replace(past, floor=None))


class TruncatesAtTheBeginning(MemorySource):
    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> Frame:
        return MemorySource.truncation(self, dimension, place._replace(sequence=0), time)


class TruncatesAtNoTime(MemorySource):
    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> Frame:
        return MemorySource.truncation(self, dimension, place, None)


class ArchivesAll(MemorySource):
    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        return [one.object.name for one in self.tables[dimension.name]]


class LeavesTheKeyOut(MemorySource):
    def written(self, dimension: Dimension) -> Dimension:
        return replace(dimension, key=())


class MakesAColumnAgain(MemorySource):
    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        return RecomputedColumns({"a": "a"}) if may_need else RecomputedColumns()


class ShowsTheFirstRow(MemorySource):
    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        first = self.tables[dimension.name][0].items[0]
        assert isinstance(first, ChangeEvent)
        return Cells({name: str(cell) for name, cell in first.cells.items()})


class ShowsWhatStandsNowhere(MemorySource):
    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        return Cells({"note": "of nobody"})


class PutsMendedRowsBehindAllOthers(MemorySource):
    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        return [
            placed(item, row=item.position.row + 100) for item in MemorySource.repair_row(self, dimension, entries)
        ]


class ReadsMendedRowsAsTheyWereWritten(MemorySource):
    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        return MemorySource.repair_row(self, dimension, [replace(entry, repaired=None) for entry in entries])


class GivesAllTheCellsOfTheFirst(MemorySource):
    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        return MemorySource.repair_row(
            self, dimension, [replace(entry, repaired=entries[0].repaired) for entry in entries]
        )


class TakesWhatIsNotMendedForGivenUp(MemorySource):
    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        return MemorySource.repair_row(self, dimension, [entry for entry in entries if entry.repaired is not None])


class ReadsWhatIsNotMendedInEpochOne(MemorySource):
    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        return MemorySource.repair_row(self, dimension, [replace(entry, epoch=1) for entry in entries])


class NullsWhatDoesNotFit(MemorySource):
    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        try:
            return MemorySource.repair_row(self, dimension, entries)
        except RepairError:
            return []


class GoesByTheNameOfTheTable(MemorySource):
    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        return MemorySource.select_objects(self, replace(dimension, reads=None), past)


class ReadsByTheNameOfTheTable(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        return MemorySource.read(self, replace(dimension, reads=None), selection, epoch)


class SaysThatSomeCellDoesNotFit(MemorySource):
    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        try:
            return MemorySource.repair_row(self, dimension, entries)
        except RepairError as error:
            raise RepairError("some cell does not fit", todo="Correct it.") from error


def placed(item: Item, *, row: int) -> ChangeEvent | Reject:
    return replace(item, position=item.position._replace(row=row))


BROKEN: Mapping[str, Sequence[type[MemorySource]]] = {
    "a_table_without_objects_selects_nothing": [MixesTables],
    "objects_are_read_in_order": [TakesObjectsAsTheyAreListed],
    "many_objects_of_many_rows_are_read_completely": [ListsTheFirstTen, OrdersNamesAsTexts, ReadsEqualRowsOnce],
    "a_cell_is_read_as_it_was_written": [TakesTheEmptyTextForNull, CutsTextsAtLines, ReadsNumbersAsDoubles],
    "what_is_taken_is_taken_again_until_it_is_applied": [RemembersWhatItTook],
    "what_was_applied_is_not_taken_again": [TakesTheLastAgain],
    "a_listing_from_the_last_object_on_finds_the_same": [BeginsBehindTheStart],
    "each_row_has_a_place_of_its_own": [NumbersRowsFromTheEnd],
    "sequences_are_as_the_source_declares": [
        CallsTimesNumbersOfTheirOwn,
        CallsTimesNoOrder,
        CallsAConstantATime,
        CallsZeroAPlace,
    ],
    "each_row_is_counted": [DropsWhatItCannotRead],
    "facts_bound_the_rows": [BoundsTheFirstObjectAlone, RangesTheFirstKeyAlone],
    "what_is_read_again_is_the_same_to_the_position": [CountsOnFromReadToRead],
    "an_object_that_changed_since_it_was_taken_is_left_out_with_all_behind_it": [
        ReadsOnBehindAChangedObject,
        LooksAtSizesAlone,
    ],
    "an_object_that_changed_after_it_was_applied_stops_the_table": [BelievesWhatWasApplied],
    "an_object_that_comes_late_is_taken_and_said_to_be_late": [LooksBehindTheLastAlone, SaysNothingOfTheFloor],
    "a_truncation_is_one_truncate_at_its_place": [TruncatesAtTheBeginning, TruncatesAtNoTime],
    "a_table_is_read_by_what_its_source_calls_it": [GoesByTheNameOfTheTable, ReadsByTheNameOfTheTable],
    "what_is_archived_is_what_was_applied": [ArchivesAll],
    "without_rules_rows_have_the_columns_and_the_key_of_their_table": [LeavesTheKeyOut],
    "without_rules_no_column_is_recomputed": [MakesAColumnAgain],
    "cells_of_a_row_in_quarantine_are_those_of_the_source": [ShowsTheFirstRow, ShowsWhatStandsNowhere],
    "a_repaired_row_is_an_event_at_its_position": [
        PutsMendedRowsBehindAllOthers,
        ReadsMendedRowsAsTheyWereWritten,
        GivesAllTheCellsOfTheFirst,
    ],
    "an_unrepaired_row_is_read_as_it_was_written": [
        TakesWhatIsNotMendedForGivenUp,
        ReadsWhatIsNotMendedInEpochOne,
    ],
    "a_cell_that_does_not_fit_its_column_is_refused_by_its_name": [NullsWhatDoesNotFit, SaysThatSomeCellDoesNotFit],
    **broken_loads.BROKEN,
    **broken_logs.BROKEN,
    **broken_names.BROKEN,
    **broken_others.BROKEN,
    **broken_topics.BROKEN,
}


def _source_for(law: Law) -> MemorySource:
    """Return a source for which a law is open."""
    if law in log_restarts.LAWS:
        return broken_logs.LogSource()
    return broken_topics.TopicSource() if law in topic_restarts.LAWS else MemorySource()


@pytest.mark.parametrize("law", object_selection.LAWS)
def test_a_broken_source_breaks_its_law(law: Law) -> None:
    law(feed(_source_for(law)))
    for kind in BROKEN[law.__name__]:
        TOLD.clear()
        with pytest.raises(SEEN):
            law(feed(kind()))


def test_every_law_has_a_source_that_breaks_it() -> None:
    assert sorted(law.__name__ for law in object_selection.LAWS) == sorted(BROKEN)


@pytest.mark.parametrize("law", other_tables.LAWS)
def test_laws_of_other_tables_are_closed_to_a_source_with_one_table_per_object(law: Law) -> None:
    with pytest.raises(Closed, match="several tables"):
        law(replace(feed(MemorySource()), put_mixed=None))


@pytest.mark.parametrize("law", column_names.LAWS)
def test_laws_of_column_names_are_closed_to_a_source_without_them(law: Law) -> None:
    with pytest.raises(Closed, match="names of columns"):
        law(replace(feed(MemorySource()), put_named=None))


@pytest.mark.parametrize("law", log_restarts.LAWS)
def test_laws_of_logs_are_closed_to_a_source_without_a_log(law: Law) -> None:
    with pytest.raises(Closed, match="a log of the source"):
        law(feed(MemorySource()))


@pytest.mark.parametrize("law", topic_restarts.LAWS)
def test_laws_of_topics_are_closed_to_a_source_without_topics(law: Law) -> None:
    with pytest.raises(Closed, match="topics whose messages"):
        law(feed(MemorySource()))


@pytest.mark.parametrize("law", full_loads.LAWS)
def test_laws_of_full_loads_are_closed_to_a_source_without_them(law: Law) -> None:
    with pytest.raises(Closed, match="full loads"):
        law(replace(feed(MemorySource()), put_load=None))


def test_the_law_of_changes_after_a_load_is_closed_to_snapshots() -> None:
    for law in full_loads.LAWS:
        law_of_changes = law is full_loads.changes_follow_the_full_load_of_their_epoch
        with pytest.raises(Closed, match="changes behind") if law_of_changes else nullcontext():
            law(replace(feed(MemorySource()), snapshots=Snapshots()))


def test_a_source_of_log_positions_may_have_a_table_without_them() -> None:
    """Its sequences are 0, and arrival is the only order."""
    law = read_rows.sequences_are_as_the_source_declares
    law(replace(feed(CallsZeroAPlace()), has_places=False))
    places = MemorySource(sequences=Sequences.PLACES)
    told = replace(feed(MemorySource()), open=lambda: places, has_places=False)
    with pytest.raises(AssertionError, match="the order of arrival alone"):
        law(replace(told, put=lambda dimension, place, items: places.put(dimension.name, place, items)))


def test_a_source_is_tested_with_the_texts_that_it_can_hold() -> None:
    def without_lines(kind: type[MemorySource]) -> Feed:
        return replace(feed(kind()), holds=lambda text: len(text.splitlines()) <= 1)

    odd_values.a_cell_is_read_as_it_was_written(without_lines(CutsTextsAtLines))
    with pytest.raises(AssertionError, match=r"read is .* and written was"):
        odd_values.a_cell_is_read_as_it_was_written(without_lines(TakesTheEmptyTextForNull))


class ShowsItsOrder(MemorySource):
    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        return Cells({"rev": str(entry.sequence)})


class ShowsTheOrderOfAnother(MemorySource):
    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        return Cells({"rev": str(entry.sequence + 1)})


def test_the_text_of_a_further_column_is_checked() -> None:
    rev = Column("rev", parse_type("bigint"))

    def with_order(kind: type[MemorySource]) -> Feed:
        return replace(feed(kind()), beside={rev: lambda item: str(item.position.sequence)})

    law = repaired_rows.cells_of_a_row_in_quarantine_are_those_of_the_source
    law(with_order(ShowsItsOrder))
    with pytest.raises(AssertionError, match="read is"):
        law(with_order(ShowsTheOrderOfAnother))
    with pytest.raises(AssertionError, match="cells of unknown columns"):
        law(feed(ShowsItsOrder()))
