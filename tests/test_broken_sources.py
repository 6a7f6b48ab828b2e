"""The laws of a source can fail, each on a mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias

import broken_loads
import broken_logs
import broken_names
import broken_others
import broken_topics
import pytest
from changed_sources import (
    changed_facts,
    changed_histories,
    changed_reads,
    changed_rows,
    changed_selections,
    listed,
    placed,
)
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


def with_cells(change: Callable[[Any], Any]) -> type[MemorySource]:
    """Return a source that changes the cells that it reads, in keys too."""

    def changed(event: ChangeEvent) -> ChangeEvent:
        cells = {name: change(cell) for name, cell in event.cells.items()}
        return replace(event, key=tuple(map(change, event.key)), cells=cells)

    return changed_rows(lambda frame: [changed(item) for item in frame if isinstance(item, ChangeEvent)])


def with_sequence(sequence: Callable[[Item], int], declared: Sequences) -> type[MemorySource]:
    """Return a source with these sequences, which declares them as another kind."""
    return changed_rows(lambda frame: [placed(item, sequence=sequence(item)) for item in frame], declared)


Objects: TypeAlias = Sequence[SourceObject]


def selecting(
    change: Callable[[MemorySource, Dimension, ObjectHistory, Objects], Iterable[SourceObject]],
) -> type[MemorySource]:
    """Return a source that changes the objects that it selects."""
    return changed_selections(
        lambda source, dimension, past, selection: replace(
            selection, objects=tuple(change(source, dimension, past, selection.objects))
        )
    )


def repairing(change: Callable[[Sequence[Entry]], Sequence[Entry]]) -> type[MemorySource]:
    """Return a source that repairs other entries."""

    class Broken(MemorySource):
        def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
            return MemorySource.repair_row(self, dimension, change(entries))

    return Broken


def truncating(change: Callable[[Position, int | None], tuple[Position, int | None]]) -> type[MemorySource]:
    """Return a source that changes the position and the time of a truncation."""

    class Broken(MemorySource):
        def truncation(self, dimension: Dimension, place: Position, time: int | None) -> Frame:
            return MemorySource.truncation(self, dimension, *change(place, time))

    return Broken


class MixesTables(MemorySource):
    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        every = [
            MemorySource.select_objects(self, replace(dimension, name=name), object_history) for name in self.tables
        ]
        return next((selection for selection in every if selection.objects), ObjectSelection())


class OrdersNamesAsTexts(MemorySource):
    def put(self, table: TableName, order: int, items: Sequence[Item], *rest: Any, **more: Any) -> None:
        rank = sorted(map(str, range(1, 100))).index(str(order)) + 1
        MemorySource.put(self, table, rank, [placed(item, object=rank) for item in items], *rest, **more)


def first_ten(source: MemorySource, dimension: Dimension, _: ObjectHistory, objects: Objects) -> Objects:
    names = sorted(item.name for item in listed(source, dimension))[:10]
    return [item for item in objects if item.name in names]


def equal_rows_once(frame: Frame) -> Frame:
    return [*{repr(placed(item, sequence=0, row=0)): item for item in frame}.values()]


def equal_sizes(source: MemorySource, dimension: Dimension, selection: ObjectSelection) -> ObjectSelection:
    now = {item.name: item for item in listed(source, dimension)}
    objects = [now[item.name] if now[item.name].size == item.size else item for item in selection.objects]
    return replace(selection, objects=tuple(objects))


def unchanged_objects(source: MemorySource, dimension: Dimension, selection: ObjectSelection) -> ObjectSelection:
    objects = [item for item in selection.objects if item in listed(source, dimension)]
    return replace(selection, objects=tuple(objects))


SELECTED: set[str] = set()
"""The objects that the source below selected. Each law begins with none."""


def once_per_process(_: MemorySource, __: Dimension, ___: ObjectHistory, objects: Objects) -> Objects:
    fresh = [item for item in objects if item.name not in SELECTED]
    SELECTED.update(item.name for item in fresh)
    return fresh


def last_one_again(_: MemorySource, __: Dimension, past: ObjectHistory, objects: Objects) -> Objects:
    return objects or [*past.applied.values()][-1:]


def without_the_first(_: MemorySource, __: Dimension, past: ObjectHistory, objects: Objects) -> Objects:
    return objects if past.start is None else objects[1:]


def behind_the_last(_: MemorySource, __: Dimension, past: ObjectHistory, objects: Objects) -> Objects:
    last = max((item.order for item in past.applied.values()), default=0)
    return [item for item in objects if item.order > last]


def with_current_versions(source: MemorySource, dimension: Dimension, past: ObjectHistory) -> ObjectHistory:
    now = {item.name: item for item in listed(source, dimension)}
    return replace(past, applied={name: now.get(name, item) for name, item in past.applied.items()})


def first_key_range(batch: Batch[Frame], *_: object) -> Mapping[str, Any]:
    first = next(item.keys[0][0] for item in batch.frame if item.keys)
    return {"key_range": ((first, first),)}


NUMBERS = count(1)


class ArchivesAll(MemorySource):
    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        return [item.name for item in listed(self, dimension)]


class LeavesTheKeyOut(MemorySource):
    def written(self, dimension: Dimension) -> Dimension:
        return replace(dimension, key=())


class RecomputesAColumn(MemorySource):
    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        return RecomputedColumns({"a": "a"}) if may_need else RecomputedColumns()


class ShowsTheFirstRow(MemorySource):
    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        first = self.tables[dimension.name][0].items[0]
        assert isinstance(first, ChangeEvent)
        return Cells({name: str(cell) for name, cell in first.cells.items()})


class ShowsUnknownColumns(MemorySource):
    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        return Cells({"note": "of nobody"})


class PutsRepairedRowsBehindAllOthers(MemorySource):
    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        repaired = MemorySource.repair_row(self, dimension, entries)
        return [placed(item, row=item.position.row + 100) for item in repaired]


class DropsRowsThatDoNotFit(MemorySource):
    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        try:
            return MemorySource.repair_row(self, dimension, entries)
        except RepairError:
            return []


class NamesNoColumn(MemorySource):
    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        try:
            return MemorySource.repair_row(self, dimension, entries)
        except RepairError as error:
            raise RepairError("some cell does not fit", todo="Correct it.") from error


class ReadsByTheNameOfTheTable(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        return MemorySource.read(self, replace(dimension, source_name=None), selection, epoch)


class SelectsByTheNameOfTheTable(MemorySource):
    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        return MemorySource.select_objects(self, replace(dimension, source_name=None), object_history)


CUTS_TEXTS = with_cells(lambda cell: cell.splitlines()[0] if isinstance(cell, str) and cell else cell)
NULLS_EMPTY_TEXTS = with_cells(lambda cell: None if cell == "" else cell)
ZERO_IS_A_PLACE = with_sequence(lambda _: 0, Sequences.PLACES)


BROKEN: Mapping[str, Sequence[type[MemorySource]]] = {
    "a_table_without_objects_selects_nothing": [MixesTables],
    "objects_are_read_in_order": [
        selecting(lambda source, dimension, _, objects: sorted(objects, key=listed(source, dimension).index))
    ],
    "many_objects_of_many_rows_are_read_completely": [
        *(selecting(first_ten), OrdersNamesAsTexts, changed_rows(equal_rows_once))
    ],
    "a_cell_is_read_as_it_was_written": [
        *(NULLS_EMPTY_TEXTS, CUTS_TEXTS),
        with_cells(lambda cell: int(float(cell)) if isinstance(cell, int) else cell),
    ],
    "objects_are_selected_until_they_are_applied": [selecting(once_per_process)],
    "applied_objects_are_not_selected_again": [selecting(last_one_again)],
    "a_listing_after_the_last_object_selects_the_same": [selecting(without_the_first)],
    "each_row_has_a_place_of_its_own": [
        changed_rows(lambda frame: [placed(item, row=100 - item.position.row) for item in frame])
    ],
    "sequences_are_as_the_source_declares": [
        with_sequence(lambda item: item.time or 0, Sequences.UNIQUE),
        changed_rows(lambda frame: frame, Sequences.ARRIVAL),
        with_sequence(lambda _: 7, Sequences.TIMES),
        ZERO_IS_A_PLACE,
    ],
    "each_row_is_counted": [changed_rows(lambda frame: [item for item in frame if not isinstance(item, Reject)])],
    "facts_bound_the_rows": [
        changed_facts(lambda batch, *_: {"greatest": batch.facts.objects[0].greatest}),
        changed_facts(first_key_range),
    ],
    "objects_are_read_the_same_again": [
        changed_rows(lambda frame: [placed(item, row=next(NUMBERS)) for item in frame])
    ],
    "an_object_that_changed_after_its_selection_is_left_out": [
        changed_reads(unchanged_objects),
        changed_reads(equal_sizes),
    ],
    "an_object_that_changed_after_it_was_applied_stops_the_table": [changed_histories(with_current_versions)],
    "a_late_object_is_selected_and_reported": [
        selecting(behind_the_last),
        changed_histories(lambda _, __, past: replace(past, object_watermark=None)),
    ],
    "a_truncation_is_one_truncate_at_its_place": [
        truncating(lambda place, time: (place._replace(sequence=0), time)),
        truncating(lambda place, _: (place, None)),
    ],
    "a_table_is_read_under_its_name_in_the_source": [SelectsByTheNameOfTheTable, ReadsByTheNameOfTheTable],
    "only_applied_objects_are_archived": [ArchivesAll],
    "without_rules_rows_have_the_columns_and_the_key_of_their_table": [LeavesTheKeyOut],
    "without_rules_no_column_is_recomputed": [RecomputesAColumn],
    "cells_of_a_row_in_quarantine_are_those_of_the_source": [ShowsTheFirstRow, ShowsUnknownColumns],
    "a_repaired_row_is_an_event_at_its_position": [
        PutsRepairedRowsBehindAllOthers,
        repairing(lambda entries: [replace(entry, repaired=None) for entry in entries]),
        repairing(lambda entries: [replace(entry, repaired=entries[0].repaired) for entry in entries]),
    ],
    "an_unrepaired_row_is_read_as_it_was_written": [
        repairing(lambda entries: [entry for entry in entries if entry.repaired is not None]),
        repairing(lambda entries: [replace(entry, epoch=1) for entry in entries]),
    ],
    "a_cell_that_does_not_fit_its_column_is_refused_by_its_name": [DropsRowsThatDoNotFit, NamesNoColumn],
    **broken_loads.BROKEN,
    **broken_logs.BROKEN,
    **broken_names.BROKEN,
    **broken_others.BROKEN,
    **broken_topics.BROKEN,
}
"""The broken sources of each law."""


def _source_for(law: Law) -> MemorySource:
    """Return a source for which a law is open."""
    if law in log_restarts.LAWS:
        return broken_logs.LogSource()
    return broken_topics.TopicSource() if law in topic_restarts.LAWS else MemorySource()


@pytest.mark.parametrize("law", object_selection.LAWS)
def test_a_broken_source_breaks_its_law(law: Law) -> None:
    law(feed(_source_for(law)))
    for kind in BROKEN[law.__name__]:
        SELECTED.clear()
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
    law(replace(feed(ZERO_IS_A_PLACE()), has_places=False))
    places = MemorySource(sequences=Sequences.PLACES)
    told = replace(feed(MemorySource()), open=lambda: places, has_places=False)
    with pytest.raises(AssertionError, match="the order of arrival alone"):
        law(replace(told, put=lambda dimension, place, items: places.put(dimension.name, place, items)))


def test_a_source_is_tested_with_the_texts_that_it_can_hold() -> None:
    def without_lines(kind: type[MemorySource]) -> Feed:
        return replace(feed(kind()), holds=lambda text: len(text.splitlines()) <= 1)

    odd_values.a_cell_is_read_as_it_was_written(without_lines(CUTS_TEXTS))
    with pytest.raises(AssertionError, match=r"read is .* and written was"):
        odd_values.a_cell_is_read_as_it_was_written(without_lines(NULLS_EMPTY_TEXTS))


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
