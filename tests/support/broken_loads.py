"""Sources in plain Python that make one mistake with full loads: a class makes one."""

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
    """Calls what was read new."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return inserts for reads."""
        batch = MemorySource.read(self, dimension, selection, epoch)
        items = [
            replace(item, operation=Operation.INSERT)
            if isinstance(item, ChangeEvent) and item.operation is Operation.READ
            else item
            for item in batch.frame
        ]
        return replace(batch, frame=items)


class OrdersALoadByItsTimes(MemorySource):
    """Has rows of a load among the changes of their time."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return rows at their times."""
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, frame=[_placed(item, sequence=item.time or 0) for item in batch.frame])


class HasALoadInOneObject(MemorySource):
    """Numbers rows of a load on, as if it were of one object."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return rows of the first object."""
        batch = MemorySource.read(self, dimension, selection, epoch)
        items = [_placed(item, object=1 - BEFORE, row=row) for row, item in enumerate(batch.frame, 1)]
        return replace(batch, frame=items)


class ReadsALoadTwice(MemorySource):
    """Reads rows of a load again, behind themselves."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return each row twice."""
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, frame=[*batch.frame, *batch.frame])


class TellsNoObjectsOfALoad(MemorySource):
    """Does not say which objects are of a load."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return facts of objects of changes."""
        batch = MemorySource.read(self, dimension, selection, epoch)
        objects = tuple(replace(known, is_load=False) for known in batch.facts.objects)
        return replace(batch, facts=replace(batch.facts, objects=objects))


class TellsNoEpochThatBegins(MemorySource):
    """Does not say that a load is whole, not of one that was taken whole, either."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return facts of a load that goes on."""
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, loaded=None))


class TellsThatALoadIsWholeAtOnce(MemorySource):
    """Waits for no changes behind it."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return facts of a whole load."""
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, loaded=epoch))


class NeverTellsThatALoadIsWhole(MemorySource):
    """Takes the changes behind it for nothing."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return facts of a whole load where it was taken as one."""
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, loaded=selection.load))


class ListsALoadBehindChanges(MemorySource):
    """Names objects of a load by a number above those of all changes."""

    def put(self, table: TableName, order: int, items: Sequence[Item], *rest: Any, **more: Any) -> None:
        """Put an object of a load behind all others."""
        order = order if order > 0 else order + 2 * BEFORE
        MemorySource.put(self, table, order, [_placed(item, object=order) for item in items], *rest, **more)


class TakesChangesForALoad(MemorySource):
    """Orders changes by their arrival alone, and that as a load is."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return changes where a load begins."""
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, frame=[_placed(item, sequence=LOAD_SEQUENCE) for item in batch.frame])


class TakesWhatThereIsOfALoad(MemorySource):
    """Waits for nothing."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Return all that was not applied."""
        selection = MemorySource.select_objects(self, dimension, replace(past, load=None))
        return replace(selection, load=None if past.load is None else past.load.epoch)


class TellsNothingOfALoadThatItWaitsFor(MemorySource):
    """Waits in silence."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Return no word of what is awaited."""
        return replace(MemorySource.select_objects(self, dimension, past), awaited=None)


class HearsNobody(MemorySource):
    """Waits for changes, whatever a person says."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Return what is taken without that word."""
        load = past.load and replace(past.load, whole=None)
        return MemorySource.select_objects(self, dimension, replace(past, load=load))


class TakesWhatWasSaidToBeAll(MemorySource):
    """Does not look for more."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Return the objects that a person saw."""
        selection, load = MemorySource.select_objects(self, dimension, past), past.load
        if load is None or load.whole is None:
            return selection
        seen = tuple(item for item in (*selection.objects, *selection.left) if item.version in load.whole)
        return replace(selection, objects=seen, load=load.epoch)


class ReadsWhatDidNotChangeOfALoad(MemorySource):
    """Reads a load as it does changes: up to the first object that is another now."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return the first objects."""
        return MemorySource.read(self, dimension, replace(selection, load=None), epoch)


class ReadsALoadAsItIsNow(MemorySource):
    """Does not look whether it changed."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return what the objects of these names hold."""
        now = {one.object.name: one.object for one in self.tables[dimension.name]}
        objects = tuple(now[item.name] for item in selection.objects)
        return MemorySource.read(self, dimension, replace(selection, objects=objects), epoch)


class TakesTheLoadBeforeForTheNext(MemorySource):
    """Forgets what was applied, where a load is awaited."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Return what there is of any load."""
        return MemorySource.select_objects(self, dimension, past if past.load is None else replace(past, seen={}))


class BeginsAnEpochByItself(MemorySource):
    """Takes a load that is written anew without a word."""

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Return objects that are others now as if they were new."""
        now = {one.object.name: one.object for one in self.tables[dimension.name]}
        seen = {name: item for name, item in past.seen.items() if now[name] == item}
        return MemorySource.select_objects(
            self, dimension, past if past.load is not None else replace(past, seen=seen)
        )


class StaysInItsEpoch(MemorySource):
    """Reads every load in the epoch of the first."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return rows of the epoch before."""
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
"""Of each law the sources that break it."""
