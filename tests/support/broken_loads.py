"""Sources in plain Python with mistakes in full loads: each class makes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from memory_feeds import BEFORE

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.ports import Batch
from lakeward.plugins.testing import Item


class ReadsInserts(MemorySource):
    """Reads rows of a load as inserts."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        items = [
            replace(item, operation=Operation.INSERT)
            if isinstance(item, ChangeEvent) and item.operation is Operation.READ
            else item
            for item in batch.frame
        ]
        return replace(batch, frame=items)


class OrdersALoadByItsTimes(MemorySource):
    """Orders rows of a load among the changes by time."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, frame=[_placed(item, sequence=item.time or 0) for item in batch.frame])


class HasALoadInOneObject(MemorySource):
    """Numbers the rows of a load across its objects."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        items = [_placed(item, object=1 - BEFORE, row=row) for row, item in enumerate(batch.frame, 1)]
        return replace(batch, frame=items)


class ReadsALoadTwice(MemorySource):
    """Reads each row of a load twice."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, frame=[*batch.frame, *batch.frame])


class TellsNoObjectsOfALoad(MemorySource):
    """Does not mark objects of a load."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        objects = tuple(replace(known, is_load=False) for known in batch.facts.objects)
        return replace(batch, facts=replace(batch.facts, objects=objects))


class TellsNoEpochThatBegins(MemorySource):
    """Never reports a load as complete."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, loaded=None))


class TellsThatALoadIsWholeAtOnce(MemorySource):
    """Reports a load as complete without later changes."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, loaded=epoch))


class NeverTellsThatALoadIsWhole(MemorySource):
    """Does not take later changes as the end of a load."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, loaded=selection.load))


class ListsALoadBehindChanges(MemorySource):
    """Orders objects of a load after all changes."""

    def put(self, table: TableName, order: int, items: Sequence[Item], *rest: Any, **more: Any) -> None:
        order = order if order > 0 else order + 2 * BEFORE
        MemorySource.put(self, table, order, [_placed(item, object=order) for item in items], *rest, **more)


class TakesChangesForALoad(MemorySource):
    """Orders changes by arrival alone, like a load."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, frame=[_placed(item, sequence=LOAD_SEQUENCE) for item in batch.frame])


class TakesWhatThereIsOfALoad(MemorySource):
    """Selects objects of an incomplete load."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        selection = MemorySource.select_objects(self, dimension, replace(past, load=None))
        return replace(selection, load=None if past.load is None else past.load.epoch)


class TellsNothingOfALoadThatItWaitsFor(MemorySource):
    """Does not report an awaited load."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        return replace(MemorySource.select_objects(self, dimension, past), awaited=None)


class HearsNobody(MemorySource):
    """Waits for changes although an operator completed the load."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        load = past.load and replace(past.load, whole=None)
        return MemorySource.select_objects(self, dimension, replace(past, load=load))


class TakesWhatWasSaidToBeAll(MemorySource):
    """Does not check for more objects than the operator saw."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        selection, load = MemorySource.select_objects(self, dimension, past), past.load
        if load is None or load.whole is None:
            return selection
        seen = tuple(item for item in (*selection.objects, *selection.left) if item.version in load.whole)
        return replace(selection, objects=seen, load=load.epoch)


class ReadsWhatDidNotChangeOfALoad(MemorySource):
    """Reads a load up to the first changed object."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        return MemorySource.read(self, dimension, replace(selection, load=None), epoch)


class ReadsALoadAsItIsNow(MemorySource):
    """Does not check whether a load changed."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        now = {one.object.name: one.object for one in self.tables[dimension.name]}
        objects = tuple(now[item.name] for item in selection.objects)
        return MemorySource.read(self, dimension, replace(selection, objects=objects), epoch)


class TakesTheLoadBeforeForTheNext(MemorySource):
    """Selects applied objects of the old load if a new one is awaited."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        return MemorySource.select_objects(self, dimension, past if past.load is None else replace(past, seen={}))


class BeginsAnEpochByItself(MemorySource):
    """Selects a rewritten load without an alarm."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        now = {one.object.name: one.object for one in self.tables[dimension.name]}
        seen = {name: item for name, item in past.seen.items() if now[name] == item}
        return MemorySource.select_objects(
            self, dimension, past if past.load is not None else replace(past, seen=seen)
        )


class StaysInItsEpoch(MemorySource):
    """Reads every load with the first epoch."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        first = self.loaded.setdefault(dimension.source, epoch)
        return MemorySource.read(self, dimension, replace(selection, load=first), first)


def _placed(item: Item, **places: int) -> Item:
    return replace(item, position=item.position._replace(**places))


BROKEN: Final[Mapping[str, Sequence[type[MemorySource]]]] = {
    "rows_of_a_full_load_are_reads_of_a_new_epoch": [
        ReadsInserts,
        OrdersALoadByItsTimes,
        HasALoadInOneObject,
        ReadsALoadTwice,
        TellsNoObjectsOfALoad,
        TellsNoEpochThatBegins,
    ],
    "changes_follow_the_full_load_of_their_epoch": [
        TellsThatALoadIsWholeAtOnce,
        NeverTellsThatALoadIsWhole,
        ListsALoadBehindChanges,
        TakesChangesForALoad,
        TellsNoObjectsOfALoad,
    ],
    "an_incomplete_full_load_is_not_selected": [
        TakesWhatThereIsOfALoad,
        TellsNothingOfALoadThatItWaitsFor,
        HearsNobody,
        TakesWhatWasSaidToBeAll,
    ],
    "a_full_load_that_changed_after_its_selection_is_not_read": [
        ReadsWhatDidNotChangeOfALoad,
        ReadsALoadAsItIsNow,
    ],
    "a_rewritten_full_load_begins_the_next_epoch": [
        TakesTheLoadBeforeForTheNext,
        BeginsAnEpochByItself,
        StaysInItsEpoch,
    ],
}
"""The broken sources of each law."""
