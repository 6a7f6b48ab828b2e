"""Sources with mistakes that the laws of topics must show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Sequences
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.ports import Batch

END: Final = 1000
"""The order after all objects of the one partition."""


class TopicSource(MemorySource):
    """A source whose objects are of one partition of a topic."""

    def __init__(self) -> None:
        MemorySource.__init__(self, sequences=Sequences.PLACES, partition_end=lambda _: END)


class TellsNoPartition(TopicSource):
    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        return replace(TopicSource.select_objects(self, dimension, object_history), partition_end=lambda _: None)


class TellsNoTimesOfObjects(TopicSource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = TopicSource.read(self, dimension, selection, epoch)
        return _with(batch, lambda one: replace(one, earliest=None, latest=None))


class TellsTheTimesOfWriting(TopicSource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = TopicSource.read(self, dimension, selection, epoch)
        return _with(batch, lambda one: replace(one, earliest=one.object.order, latest=one.object.order))


class TakesOffsetsForPlaces(TopicSource):
    def put(self, table: TableName, order: int, items: Frame, *more: Any, **named: Any) -> None:
        placed = [replace(item, position=item.position._replace(sequence=order)) for item in items]
        TopicSource.put(self, table, order, placed, *more, **named)


class SaysThatNothingIsLate(TopicSource):
    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        return replace(TopicSource.select_objects(self, dimension, object_history), late=())


class TellsWhenItsObjectsWereLookedAt(TopicSource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = TopicSource.read(self, dimension, selection, epoch)
        return _with(batch, lambda one: replace(one, object=replace(one.object, modified=END - one.object.order)))


def _with(batch: Batch[Frame], change: Callable[[ObjectFacts], ObjectFacts]) -> Batch[Frame]:
    objects = tuple(map(change, batch.facts.objects))
    return replace(batch, facts=replace(batch.facts, objects=objects))


BROKEN: Final[Mapping[str, Sequence[type[TopicSource]]]] = {
    "a_recreated_topic_is_reported": [
        TellsNoPartition,
        TellsNoTimesOfObjects,
        TellsTheTimesOfWriting,
        TakesOffsetsForPlaces,
    ],
    "a_recreated_topic_is_reported_after_applied_objects": [SaysThatNothingIsLate, TellsNoTimesOfObjects],
    "repeated_messages_are_no_recreated_topic": [TellsWhenItsObjectsWereLookedAt],
}
"""The broken sources of each law."""
