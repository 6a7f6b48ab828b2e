"""Sources with mistakes that the laws of other tables must show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.ports import Batch


class PassesOverOtherTables(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, skipped=0, others=None))


class CountsOtherTablesWithoutTheirNames(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=_nameless(batch.facts))


class GoesByTimesOfOtherTables(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, time=(batch.facts.time or 0) + 1))


class GoesByPlacesOfOtherTables(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return replace(batch, facts=replace(batch.facts, greatest=Position(epoch, 2**60, 1, 99)))


class ReadsOtherTables(MemorySource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        cells = {"id": 1, "a": "of another table"}
        place = Position(epoch, 0, selection.objects[0].order, 99)
        row = ChangeEvent(operation=Operation.INSERT, position=place, key=(1,), cells=cells)
        return replace(batch, frame=[*batch.frame, row])


def _nameless(facts: BatchFacts) -> BatchFacts:
    return replace(facts, others=None if facts.others is None else replace(facts.others, names=()))


BROKEN: Final[Mapping[str, Sequence[type[MemorySource]]]] = {
    "rows_of_other_tables_are_counted_and_not_read": [
        GoesByTimesOfOtherTables,
        GoesByPlacesOfOtherTables,
        PassesOverOtherTables,
        CountsOtherTablesWithoutTheirNames,
        ReadsOtherTables,
    ],
    "an_object_of_other_tables_alone_is_not_passed_over_in_silence": [
        PassesOverOtherTables,
        CountsOtherTablesWithoutTheirNames,
        ReadsOtherTables,
    ],
}
"""The broken sources of each law."""
