"""Sources in plain Python with a mistake each, by the law that must show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias

from changed_sources import (
    END,
    LogSource,
    TopicSource,
    changed_batches,
    changed_facts,
    changed_histories,
    changed_items,
    changed_objects,
    changed_orders,
    changed_reads,
    changed_rows,
    changed_selections,
    listed_objects,
    with_place,
)
from memory_feeds import BEFORE
from mutations import Method, mutate

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.checks.log_steps import LogName, LogReached, LogSpan
from lakeward.core.dimension import Dimension
from lakeward.core.errors import RepairError
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position, Sequences, key_of
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.schema import Schema
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.plugins.testing import Item

Kind: TypeAlias = type[MemorySource]
Objects: TypeAlias = Sequence[SourceObject]

_mutate = partial(mutate, MemorySource)

# Rows and cells.


def with_cells(change: Callable[[Any], Any]) -> Kind:
    """Return a source that changes the cells that it reads, in keys too."""

    def changed(event: ChangeEvent) -> ChangeEvent:
        cells = {name: change(cell) for name, cell in event.cells.items()}
        return replace(event, key=tuple(map(change, event.key)), cells=cells)

    return changed_rows(lambda frame: [changed(item) for item in frame if isinstance(item, ChangeEvent)])


def with_sequence(sequence: Callable[[Item], int], declared: Sequences) -> Kind:
    """Return a source with these sequences, which declares them as another kind."""
    return changed_rows(lambda frame: [with_place(item, sequence=sequence(item)) for item in frame], declared)


def equal_rows_once(frame: Frame) -> Frame:
    return [*{repr(with_place(item, sequence=0, row=0)): item for item in frame}.values()]


def loads_as_inserts(frame: Frame) -> Frame:
    return [
        replace(item, operation=Operation.INSERT)
        if isinstance(item, ChangeEvent) and item.operation is Operation.READ
        else item
        for item in frame
    ]


def first_key_range(batch: Batch[Frame], *_: object) -> Mapping[str, Any]:
    first = next(item.keys[0][0] for item in batch.frame if item.keys)
    return {"key_range": ((first, first),)}


def without_names_of_others(batch: Batch[Frame], *_: object) -> Mapping[str, Any]:
    return {"others": batch.facts.others and replace(batch.facts.others, names=())}


def with_row_of_another_table(batch: Batch[Frame], selection: ObjectSelection, epoch: int) -> Batch[Frame]:
    place = Position(epoch, 0, selection.objects[0].order, 99)
    cells = {"id": 1, "a": "of another table"}
    row = ChangeEvent(operation=Operation.INSERT, position=place, key=(1,), cells=cells)
    return replace(batch, frame=[*batch.frame, row])


def _renamed(batch: Batch[Frame], dimension: Dimension, names: Sequence[str]) -> Batch[Frame]:
    """Return a batch whose cells have these names, by place."""

    def renamed(event: ChangeEvent) -> ChangeEvent:
        cells = dict(zip(names, event.cells.values(), strict=True))
        return replace(event, cells=cells, key=key_of(cells, dimension.key) or ())

    items = [renamed(item) if isinstance(item, ChangeEvent) else item for item in batch.frame]
    columns = [replace(column, name=name) for column, name in zip(batch.facts.schema, names, strict=True)]
    return replace(batch, frame=items, facts=replace(batch.facts, schema=Schema(tuple(columns))))


def _read_unknown_as_missing(right: Method, _: MemorySource, dimension: Dimension, *of: Any) -> Batch[Frame]:
    batch = right(dimension, *of)
    own, found = dimension.schema.names, batch.facts.schema.names
    missing = iter([name for name in own if name not in found])
    return _renamed(batch, dimension, [name if name in own else next(missing, name) for name in found])


CUTS_TEXTS = with_cells(lambda cell: cell.splitlines()[0] if isinstance(cell, str) and cell else cell)
NULLS_EMPTY_TEXTS = with_cells(lambda cell: None if cell == "" else cell)
ZERO_IS_A_PLACE = with_sequence(lambda _: 0, Sequences.PLACES)
READS_BY_PLACE = _mutate(
    "reads cells by the order of the columns of the table",
    read=lambda right, _, table, *of: _renamed(right(table, *of), table, table.schema.names),
)
UNMARKED_LOAD = changed_facts(
    lambda batch, *_: {"objects": tuple(replace(known, is_load=False) for known in batch.facts.objects)}
)
OTHERS: Final = (
    changed_facts(lambda *_: {"skipped": 0, "others": None}),
    changed_facts(without_names_of_others),
    changed_batches(with_row_of_another_table),
)
NUMBERS = count(1)

# Selected objects.


def selecting(change: Callable[[MemorySource, Dimension, ObjectHistory, Objects], Iterable[SourceObject]]) -> Kind:
    """Return a source that changes the objects that it selects."""
    return changed_selections(
        lambda source, dimension, object_history, selection: replace(
            selection, objects=tuple(change(source, dimension, object_history, selection.objects))
        )
    )


def _select_of_any_table(
    right: Method, own: MemorySource, dimension: Dimension, object_history: ObjectHistory
) -> ObjectSelection:
    every = [right(replace(dimension, name=name), object_history) for name in own.tables]
    return next((selection for selection in every if selection.objects), ObjectSelection())


def first_ten(source: MemorySource, dimension: Dimension, _: ObjectHistory, objects: Objects) -> Objects:
    names = sorted(item.name for item in listed_objects(source, dimension))[:10]
    return [item for item in objects if item.name in names]


def unchanged_objects(source: MemorySource, dimension: Dimension, selection: ObjectSelection) -> ObjectSelection:
    return replace(
        selection, objects=tuple(item for item in selection.objects if item in listed_objects(source, dimension))
    )


def current_objects(is_read: Callable[[SourceObject, SourceObject], bool]) -> Kind:
    """Return a source that reads an object as it is now, by what it was and is."""

    def current(source: MemorySource, dimension: Dimension, selection: ObjectSelection) -> ObjectSelection:
        now = {item.name: item for item in listed_objects(source, dimension)}
        objects = [now[item.name] if is_read(item, now[item.name]) else item for item in selection.objects]
        return replace(selection, objects=tuple(objects))

    return changed_reads(current)


def only_once(source: MemorySource, _: Dimension, __: ObjectHistory, objects: Objects) -> Objects:
    seen = vars(source).setdefault("seen", set())
    fresh = [item for item in objects if item.name not in seen]
    seen.update(item.name for item in fresh)
    return fresh


def behind_the_last(_: MemorySource, __: Dimension, object_history: ObjectHistory, objects: Objects) -> Objects:
    last = max((item.order for item in object_history.applied.values()), default=0)
    return [item for item in objects if item.order > last]


def with_current_versions(
    source: MemorySource, dimension: Dimension, object_history: ObjectHistory
) -> ObjectHistory:
    now = {item.name: item for item in listed_objects(source, dimension)}
    return replace(
        object_history, applied={name: now.get(name, item) for name, item in object_history.applied.items()}
    )


def without_changed_objects(
    source: MemorySource, dimension: Dimension, object_history: ObjectHistory
) -> ObjectHistory:
    now = {item.name: item for item in listed_objects(source, dimension)}
    seen = {name: item for name, item in object_history.applied.items() if now[name] == item}
    return object_history if object_history.load is not None else replace(object_history, applied=seen)


def completed_objects(
    _: MemorySource, __: Dimension, object_history: ObjectHistory, selection: ObjectSelection
) -> ObjectSelection:
    """Select the objects that the operator saw, without a check for more."""
    load = object_history.load
    if load is None or load.completed_versions is None:
        return selection
    every = (*selection.objects, *selection.remaining)
    seen = tuple(item for item in every if item.version in load.completed_versions)
    return replace(selection, objects=seen, load_epoch=load.epoch)


def _select_incomplete(
    right: Method, _: MemorySource, dimension: Dimension, object_history: ObjectHistory
) -> ObjectSelection:
    selection = right(dimension, replace(object_history, load=None))
    return replace(selection, load_epoch=None if object_history.load is None else object_history.load.epoch)


def _read_in_first_epoch(
    right: Method, own: MemorySource, dimension: Dimension, selection: ObjectSelection, epoch: int
) -> Batch[Frame]:
    first = own.loaded.setdefault(dimension.source, epoch)
    return right(dimension, replace(selection, load_epoch=first), first)


# Truncations, and rows in quarantine.


def truncating(change: Callable[[Position, int | None], tuple[Position, int | None]]) -> Kind:
    """Return a source that changes the position and the time of a truncation."""
    return _mutate("changed truncations", truncation=lambda right, _, table, *of: right(table, *change(*of)))


def repairing(change: Callable[[Sequence[Entry]], Sequence[Entry]]) -> Kind:
    """Return a source that repairs other entries."""
    return _mutate("changed repairs", repair_row=lambda right, _, table, entries: right(table, change(entries)))


def _repair_what_fits(right: Method, _: MemorySource, *of: Any) -> Frame:
    try:
        return right(*of)
    except RepairError:
        return []


def _repair_or_name_no_column(right: Method, _: MemorySource, *of: Any) -> Frame:
    try:
        return right(*of)
    except RepairError as error:
        raise RepairError("some cell does not fit", todo="Correct it.") from error


def _first_cells(_: Method, own: MemorySource, dimension: Dimension, __: Entry) -> Cells:
    first = own.tables[dimension.name][0].items[0]
    assert isinstance(first, ChangeEvent)
    return Cells({name: str(cell) for name, cell in first.cells.items()})


# Logs and topics.


def log_reads(change: Callable[[ObjectSelection], ObjectSelection]) -> Kind:
    """Return a source of a log that reads another selection than the given one."""
    return changed_reads(lambda _, __, selection: change(selection), LogSource)


def lifts(**place: int | None) -> Kind:
    """Return a source that lifts changes after a restart otherwise."""
    return log_reads(
        lambda selection: replace(selection, restarts=tuple(one._replace(**place) for one in selection.restarts))
    )


def without_steps(is_known: Callable[[LogSpan, LogReached], bool]) -> Kind:
    """Return a source without the steps of objects with a span that seems to be of the known log."""

    def changed(item: ObjectFacts, selection: ObjectSelection) -> ObjectFacts:
        return replace(item, steps=None) if any(is_known(one, selection.reached) for one in item.spans) else item

    return changed_objects(changed, LogSource)


def topic_objects(change: Callable[[ObjectFacts], ObjectFacts]) -> Kind:
    """Return a source of a topic that changes the facts of its objects."""
    return changed_objects(lambda item, _: change(item), TopicSource)


WITHOUT_TIMES_OF_OBJECTS = topic_objects(lambda one: replace(one, earliest=None, latest=None))

BROKEN: Mapping[str, Sequence[Kind]] = {
    "a_table_without_objects_selects_nothing": [
        _mutate("selects objects of any table", select_objects=_select_of_any_table)
    ],
    "objects_are_read_in_order": [
        selecting(
            lambda source, dimension, _, objects: sorted(objects, key=listed_objects(source, dimension).index)
        )
    ],
    "many_objects_of_many_rows_are_read_completely": [
        selecting(first_ten),
        changed_orders(lambda order: sorted(map(str, range(1, 100))).index(str(order)) + 1),
        changed_rows(equal_rows_once),
    ],
    "a_cell_is_read_as_it_was_written": [
        *(NULLS_EMPTY_TEXTS, CUTS_TEXTS),
        with_cells(lambda cell: int(float(cell)) if isinstance(cell, int) else cell),
    ],
    "objects_are_selected_until_they_are_applied": [selecting(only_once)],
    "applied_objects_are_not_selected_again": [
        selecting(lambda _, __, object_history, objects: objects or [*object_history.applied.values()][-1:])
    ],
    "a_listing_after_the_last_object_selects_the_same": [
        selecting(lambda _, __, object_history, objects: objects if object_history.start is None else objects[1:])
    ],
    "each_row_has_a_place_of_its_own": [
        changed_rows(lambda frame: [with_place(item, row=100 - item.position.row) for item in frame])
    ],
    "sequences_are_as_the_source_declares": [
        with_sequence(lambda item: item.time or 0, Sequences.UNIQUE),
        changed_rows(lambda frame: frame, Sequences.ARRIVAL),
        with_sequence(lambda _: 7, Sequences.TIMES),
        ZERO_IS_A_PLACE,
    ],
    "each_row_is_counted": [changed_rows(lambda frame: [item for item in frame if isinstance(item, ChangeEvent)])],
    "facts_bound_the_rows": [
        changed_facts(lambda batch, *_: {"greatest": batch.facts.objects[0].greatest}),
        changed_facts(first_key_range),
    ],
    "objects_are_read_the_same_again": [
        changed_rows(lambda frame: [with_place(item, row=next(NUMBERS)) for item in frame])
    ],
    "an_object_that_changed_after_its_selection_is_left_out": [
        changed_reads(unchanged_objects),
        current_objects(lambda then, now: then.size == now.size),
    ],
    "an_object_that_changed_after_it_was_applied_stops_the_table": [changed_histories(with_current_versions)],
    "a_late_object_is_selected_and_reported": [
        selecting(behind_the_last),
        changed_histories(lambda _, __, object_history: replace(object_history, object_watermark=None)),
    ],
    "a_truncation_is_one_truncate_at_its_place": [
        truncating(lambda place, time: (place._replace(sequence=0), time)),
        truncating(lambda place, _: (place, None)),
    ],
    "a_table_is_read_under_its_name_in_the_source": [
        _mutate(
            "selects by the name of the table",
            select_objects=lambda right, _, table, object_history: right(
                replace(table, source_name=None), object_history
            ),
        ),
        _mutate(
            "reads by the name of the table",
            read=lambda right, _, table, *of: right(replace(table, source_name=None), *of),
        ),
    ],
    "only_applied_objects_are_archived": [
        _mutate(
            "archives all", archive=lambda _, own, table, __: [item.name for item in listed_objects(own, table)]
        )
    ],
    "without_rules_rows_have_the_columns_and_the_key_of_their_table": [
        _mutate("leaves the key out", written=lambda _, __, table: replace(table, key=()))
    ],
    "without_rules_no_column_is_recomputed": [
        _mutate(
            "recomputes a column",
            recomputed=lambda _, __, ___, may_need: RecomputedColumns({"a": "a"} if may_need else {}),
        )
    ],
    "cells_of_a_row_in_quarantine_are_those_of_the_source": [
        _mutate("shows the first row", cells=_first_cells),
        _mutate("shows unknown columns", cells=lambda *_: Cells({"note": "of nobody"})),
    ],
    "a_repaired_row_is_an_event_at_its_position": [
        _mutate(
            "puts repaired rows behind all others",
            repair_row=lambda right, _, *of: [with_place(one, row=one.position.row + 100) for one in right(*of)],
        ),
        repairing(lambda entries: [replace(entry, repaired=None) for entry in entries]),
        repairing(lambda entries: [replace(entry, repaired=entries[0].repaired) for entry in entries]),
    ],
    "an_unrepaired_row_is_read_as_it_was_written": [
        repairing(lambda entries: [entry for entry in entries if entry.repaired is not None]),
        repairing(lambda entries: [replace(entry, epoch=1) for entry in entries]),
    ],
    "a_cell_that_does_not_fit_its_column_is_refused_by_its_name": [
        _mutate("drops rows that do not fit", repair_row=_repair_what_fits),
        _mutate("names no column", repair_row=_repair_or_name_no_column),
    ],
    "rows_of_a_full_load_are_reads_of_a_new_epoch": [
        changed_rows(loads_as_inserts),
        changed_rows(lambda frame: [with_place(item, sequence=item.time or 0) for item in frame]),
        changed_rows(
            lambda frame: [with_place(one, object=1 - BEFORE, row=row) for row, one in enumerate(frame, 1)]
        ),
        changed_rows(lambda frame: [*frame, *frame]),
        UNMARKED_LOAD,
        changed_facts(lambda *_: {"loaded": None}),
    ],
    "changes_follow_the_full_load_of_their_epoch": [
        changed_facts(lambda _, __, epoch: {"loaded": epoch}),
        changed_facts(lambda _, selection, __: {"loaded": selection.load_epoch}),
        changed_orders(lambda order: order if order > 0 else order + 2 * BEFORE),
        changed_rows(lambda frame: [with_place(item, sequence=LOAD_SEQUENCE) for item in frame]),
        UNMARKED_LOAD,
    ],
    "an_incomplete_full_load_is_not_selected": [
        _mutate("selects an incomplete load", select_objects=_select_incomplete),
        changed_selections(lambda _, __, ___, selection: replace(selection, awaited=None)),
        changed_histories(
            lambda _, __, object_history: replace(
                object_history, load=object_history.load and replace(object_history.load, completed_versions=None)
            )
        ),
        changed_selections(completed_objects),
    ],
    "a_full_load_that_changed_after_its_selection_is_not_read": [
        changed_reads(lambda _, __, selection: replace(selection, load_epoch=None)),
        current_objects(lambda *_: True),
    ],
    "a_rewritten_full_load_begins_the_next_epoch": [
        changed_histories(
            lambda _, __, object_history: (
                object_history if object_history.load is None else replace(object_history, applied={})
            )
        ),
        changed_histories(without_changed_objects),
        _mutate("reads every load in the first epoch", read=_read_in_first_epoch),
    ],
    "a_log_that_starts_over_is_reported": [
        without_steps(lambda *_: True),
        changed_items(lambda item, _: replace(item, time=None), LogSource),
    ],
    "a_log_that_climbs_above_its_old_end_is_reported": [
        log_reads(lambda selection: replace(selection, reached=LogReached())),  # compares within an object alone
        without_steps(lambda span, reached: span.greatest > (reached.highest or 0)),
    ],
    "a_log_that_starts_over_after_an_old_change_is_reported": [
        without_steps(lambda span, reached: not reached.is_newer(span.earliest))
    ],
    "late_and_repeated_changes_are_no_restart": [
        changed_items(lambda item, order: replace(item, time=2 * 10**15 + 10**7 * order), LogSource),
        mutate(
            LogSource,
            "names a log by its object",
            __init__=lambda right, _: right(lambda event: LogName(f"bin{event.position.object}.")),
        ),
    ],
    "changes_after_a_restart_are_above_the_old_log": [
        log_reads(lambda selection: replace(selection, restarts=())),
        lifts(order=0),
        lifts(end=None),
        lifts(offset=1),
    ],
    "columns_in_another_order_are_read_by_name": [READS_BY_PLACE],
    "a_cell_of_an_unknown_column_is_read_under_no_other_name": [
        READS_BY_PLACE,
        _mutate("puts cells of an unknown column under a missing one", read=_read_unknown_as_missing),
    ],
    "rows_of_other_tables_are_counted_and_not_read": [
        changed_facts(lambda batch, *_: {"time": (batch.facts.time or 0) + 1}),
        changed_facts(lambda _, __, epoch: {"greatest": Position(epoch, 2**60, 1, 99)}),
        *OTHERS,
    ],
    "an_object_of_other_tables_alone_is_reported": OTHERS,
    "a_recreated_topic_is_reported": [
        changed_selections(lambda *of: replace(of[-1], partition_end=lambda _: None), TopicSource),
        WITHOUT_TIMES_OF_OBJECTS,
    ],
    "a_recreated_topic_is_reported_after_applied_objects": [
        changed_selections(lambda *of: replace(of[-1], late=()), TopicSource),
        WITHOUT_TIMES_OF_OBJECTS,
    ],
    "repeated_messages_are_no_recreated_topic": [
        topic_objects(lambda one: replace(one, object=replace(one.object, modified=END - one.object.order)))
    ],
}
"""The broken sources of each law."""
