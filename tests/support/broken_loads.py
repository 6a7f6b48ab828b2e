"""Sources in plain Python with mistakes in full loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from changed_sources import (
    changed_facts,
    changed_histories,
    changed_reads,
    changed_rows,
    changed_selections,
    listed,
    placed,
)
from memory_feeds import BEFORE

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.ports import Batch
from lakeward.plugins.testing import Item


def as_inserts(frame: Frame) -> Frame:
    """Read rows of a load as inserts."""
    return [
        replace(item, operation=Operation.INSERT)
        if isinstance(item, ChangeEvent) and item.operation is Operation.READ
        else item
        for item in frame
    ]


class OrdersALoadAfterChanges(MemorySource):
    """Orders objects of a load after all changes."""

    def put(self, table: TableName, order: int, items: Sequence[Item], *rest: Any, **more: Any) -> None:
        order = order if order > 0 else order + 2 * BEFORE
        MemorySource.put(self, table, order, [placed(item, object=order) for item in items], *rest, **more)


class ReadsAllLoadsInOneEpoch(MemorySource):
    """Reads every load with the first epoch."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        first = self.loaded.setdefault(dimension.source, epoch)
        return MemorySource.read(self, dimension, replace(selection, load_epoch=first), first)


class SelectsAnIncompleteLoad(MemorySource):
    """Selects objects of an incomplete load."""

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        selection = MemorySource.select_objects(self, dimension, replace(object_history, load=None))
        return replace(selection, load_epoch=None if object_history.load is None else object_history.load.epoch)


def without_a_check(
    _: MemorySource, __: Dimension, past: ObjectHistory, selection: ObjectSelection
) -> ObjectSelection:
    """Select the objects that the operator saw, without a check for more."""
    load = past.load
    if load is None or load.completed_versions is None:
        return selection
    seen = tuple(
        item for item in (*selection.objects, *selection.remaining) if item.version in load.completed_versions
    )
    return replace(selection, objects=seen, load_epoch=load.epoch)


def current_objects(source: MemorySource, dimension: Dimension, selection: ObjectSelection) -> ObjectSelection:
    """Read the objects as they are now, without a check whether the load changed."""
    now = {item.name: item for item in listed(source, dimension)}
    return replace(selection, objects=tuple(now[item.name] for item in selection.objects))


def without_an_alarm(source: MemorySource, dimension: Dimension, past: ObjectHistory) -> ObjectHistory:
    """Select a rewritten load without an alarm."""
    now = {item.name: item for item in listed(source, dimension)}
    seen = {name: item for name, item in past.applied.items() if now[name] == item}
    return past if past.load is not None else replace(past, applied=seen)


UNMARKED: Final = changed_facts(
    lambda batch, *_: {"objects": tuple(replace(known, is_load=False) for known in batch.facts.objects)}
)
"""Does not mark objects of a load."""

BROKEN: Final[Mapping[str, Sequence[type[MemorySource]]]] = {
    "rows_of_a_full_load_are_reads_of_a_new_epoch": [
        changed_rows(as_inserts),
        changed_rows(lambda frame: [placed(item, sequence=item.time or 0) for item in frame]),
        changed_rows(lambda frame: [placed(one, object=1 - BEFORE, row=row) for row, one in enumerate(frame, 1)]),
        changed_rows(lambda frame: [*frame, *frame]),
        UNMARKED,
        changed_facts(lambda *_: {"loaded": None}),
    ],
    "changes_follow_the_full_load_of_their_epoch": [
        changed_facts(lambda _, __, epoch: {"loaded": epoch}),
        changed_facts(lambda _, selection, __: {"loaded": selection.load_epoch}),
        OrdersALoadAfterChanges,
        changed_rows(lambda frame: [placed(item, sequence=LOAD_SEQUENCE) for item in frame]),
        UNMARKED,
    ],
    "an_incomplete_full_load_is_not_selected": [
        SelectsAnIncompleteLoad,
        changed_selections(lambda _, __, ___, selection: replace(selection, awaited=None)),
        changed_histories(
            lambda _, __, past: replace(past, load=past.load and replace(past.load, completed_versions=None))
        ),
        changed_selections(without_a_check),
    ],
    "a_full_load_that_changed_after_its_selection_is_not_read": [
        changed_reads(lambda _, __, selection: replace(selection, load_epoch=None)),
        changed_reads(current_objects),
    ],
    "a_rewritten_full_load_begins_the_next_epoch": [
        changed_histories(lambda _, __, past: past if past.load is None else replace(past, applied={})),
        changed_histories(without_an_alarm),
        ReadsAllLoadsInOneEpoch,
    ],
}
"""The broken sources of each law."""
