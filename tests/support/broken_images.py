"""Tables without a key that take away other rows than the one that an image is of: a class makes one mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from broken_ports import BrokenLake, Whole

from lakeward.adapters.memory import Frame, MemoryTable
from lakeward.core.events import ChangeEvent, Operation, same_cells
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult
from lakeward.plugins.testing import Item


def _without_nulls(event: ChangeEvent) -> ChangeEvent:
    has_null = event.before is not None and None in event.before.values()
    return replace(event, before=None) if has_null else event


class TellsEachDeleteTwice(Whole):
    """Takes two rows away for one delete, where there are two."""

    @classmethod
    def told_one(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        """Return a delete, and another of the same row."""
        if not isinstance(item, ChangeEvent) or item.operation is not Operation.DELETE:
            return [item]
        return [item, replace(item, position=item.position._replace(row=item.position.row + 100))]


class FindsNoRowOfNulls(Whole):
    """Compares an image with a row as `=` does, for which NULL is equal to nothing."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return a change whose image finds no row, where it has a NULL."""
        return _without_nulls(event)


class NeverTakesARow(Whole):
    """Adds the row of an update, and takes none away."""

    @staticmethod
    def told_event(event: ChangeEvent) -> ChangeEvent:
        """Return an insert in the place of an update."""
        return replace(event, operation=Operation.INSERT) if event.operation is Operation.UPDATE else event


class TakesEveryEqualRow(MemoryTable):
    """Takes away every row that is equal to an image."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        resolved = MemoryTable.resolve(self, plan, frame)
        rows = resolved.detail.rows
        for fact in [fact for fact, row in rows.items() if row is None and fact in self.rows]:
            equal = [other for other, row in self.rows.items() if same_cells(row.cells, self.rows[fact].cells)]
            rows.update(dict.fromkeys(equal))
        return resolved


class TakesTheNewestEqualRow(MemoryTable):
    """Takes away of several equal rows the newest that stood before the batch."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        resolved = MemoryTable.resolve(self, plan, frame)
        rows = resolved.detail.rows
        gone = [fact for fact, row in rows.items() if row is None and fact in self.rows]
        for fact in gone:
            equal = [other for other, row in self.rows.items() if same_cells(row.cells, self.rows[fact].cells)]
            del rows[fact]
            rows[max(other for other in equal if other not in rows)] = None
        return resolved


class TakesACopyForNews(MemoryTable):
    """Takes a row away once more where an object comes again."""

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        seen, self.memory.records = self.memory.records, []
        try:
            return MemoryTable.resolve(self, plan, frame)
        finally:
            self.memory.records = seen


_NULLS = "a_row_of_nulls_is_equal_to_its_image"
_ONE = "an_image_removes_one_equal_row"

OF_ANY: Mapping[str, Sequence[type[Whole]]] = {
    _NULLS: (FindsNoRowOfNulls,),
    _ONE: (TellsEachDeleteTwice, NeverTakesARow),
}
"""Mistakes that a table of any format could make, by their law."""

BY_LAW: Mapping[str, Sequence[type[MemoryTable]]] = {
    _NULLS: (TakesEveryEqualRow,),
    _ONE: (TakesEveryEqualRow, TakesTheNewestEqualRow, TakesACopyForNews),
}
"""Mistakes of the reference adapter, by their law."""
