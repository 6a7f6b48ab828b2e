"""Tables with wrong image match: each class makes one mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from broken_feeds import changes
from broken_memory import ChangesRows, ForgetsEntries
from broken_ports import AnyTable, BrokenLake

from lakeward.adapters.memory import Frame, MemoryTable
from lakeward.core.events import ChangeEvent, Key, Operation, same_cells
from lakeward.core.merge.change_log import ChangeLogContents
from lakeward.core.merge.fold import Row
from lakeward.core.plan import MergePlan
from lakeward.plugins.testing import Item


def _without_nulls(event: ChangeEvent) -> ChangeEvent:
    has_null = event.before is not None and None in event.before.values()
    return replace(event, before=None) if has_null else event


class AppliesEachDeleteTwice(AnyTable):
    """Removes two equal rows for one delete."""

    @classmethod
    def deliver_item(cls, lake: BrokenLake, item: Item) -> Sequence[Item]:
        if not isinstance(item, ChangeEvent) or item.operation is not Operation.DELETE:
            return [item]
        return [item, replace(item, position=item.position._replace(row=item.position.row + 100))]


class FindsNoRowOfNulls(AnyTable):
    """Compares images with `=`, for which NULL equals nothing."""

    deliver_event = changes(_without_nulls)


class NeverRemovesARow(AnyTable):
    """Adds the row of an update without removing the old one."""

    @staticmethod
    def deliver_event(event: ChangeEvent) -> ChangeEvent:
        return replace(event, operation=Operation.INSERT) if event.operation is Operation.UPDATE else event


class RemovesEveryEqualRow(ChangesRows):
    """Removes every row that equals an image."""

    def change(self, plan: MergePlan, frame: Frame, rows: dict[Key, Row | None]) -> None:
        for fact in [fact for fact, row in rows.items() if row is None and fact in self.rows]:
            equal = [other for other, row in self.rows.items() if same_cells(row.cells, self.rows[fact].cells)]
            rows.update(dict.fromkeys(equal))


class RemovesTheNewestEqualRow(ChangesRows):
    """Removes the newest of several equal rows instead of the oldest."""

    def change(self, plan: MergePlan, frame: Frame, rows: dict[Key, Row | None]) -> None:
        for fact in [fact for fact, row in rows.items() if row is None and fact in self.rows]:
            equal = [other for other, row in self.rows.items() if same_cells(row.cells, self.rows[fact].cells)]
            del rows[fact]
            rows[max(other for other in equal if other not in rows)] = None


class RemovesAnotherRowForACopy(ForgetsEntries):
    """Removes another row for a repeated object."""

    def known(self, plan: MergePlan) -> ChangeLogContents:
        return replace(self.memory, records=[])


_NULLS = "a_row_of_nulls_is_equal_to_its_image"
_ONE = "an_image_removes_one_equal_row"

OF_ANY: Mapping[str, Sequence[type[AnyTable]]] = {
    _NULLS: (FindsNoRowOfNulls,),
    _ONE: (AppliesEachDeleteTwice, NeverRemovesARow),
}
"""Mistakes that a table of any format could make, by their law."""

BY_LAW: Mapping[str, Sequence[type[MemoryTable]]] = {
    _NULLS: (RemovesEveryEqualRow,),
    _ONE: (RemovesEveryEqualRow, RemovesTheNewestEqualRow, RemovesAnotherRowForACopy),
}
"""Mistakes of the reference adapter, by their law."""
