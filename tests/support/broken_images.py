"""Tables with wrong image match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from broken_memory import Rows, of_memory, of_rows
from broken_ports import AnyTable, BrokenLake, mutate_table
from mutations import mutate

from lakeward.adapters.memory import Frame, MemoryTable
from lakeward.core.events import ChangeEvent, Operation, same_cells
from lakeward.core.plan import MergePlan
from lakeward.plugins.testing import Item


def _without_nulls(event: ChangeEvent) -> ChangeEvent:
    has_null = event.before is not None and None in event.before.values()
    return replace(event, before=None) if has_null else event


def _deletes_twice(_: BrokenLake, item: Item) -> Sequence[Item]:
    if not isinstance(item, ChangeEvent) or item.operation is not Operation.DELETE:
        return [item]
    return [item, replace(item, position=item.position._replace(row=item.position.row + 100))]


def _updates_as_inserts(event: ChangeEvent) -> ChangeEvent:
    return replace(event, operation=Operation.INSERT) if event.operation is Operation.UPDATE else event


def _remove_equal_rows(own: MemoryTable, _: MergePlan, __: Frame, rows: Rows) -> None:
    for fact in [fact for fact, row in rows.items() if row is None and fact in own.rows]:
        rows.update({key: None for key, row in own.rows.items() if same_cells(row.cells, own.rows[fact].cells)})


def _remove_newest_equal_row(own: MemoryTable, _: MergePlan, __: Frame, rows: Rows) -> None:
    for fact in [fact for fact, row in rows.items() if row is None and fact in own.rows]:
        equal = [key for key, row in own.rows.items() if same_cells(row.cells, own.rows[fact].cells)]
        del rows[fact]
        rows[max(other for other in equal if other not in rows)] = None


_mutate = partial(mutate, MemoryTable)
RemovesEveryEqualRow = _mutate("removes every row that equals an image", resolve=of_rows(_remove_equal_rows))

_NULLS = "a_row_of_nulls_is_equal_to_its_image"
_ONE = "an_image_removes_one_equal_row"

OF_ANY: Mapping[str, Sequence[type[AnyTable]]] = {
    _NULLS: (
        mutate_table("compares images with `=`, for which NULL equals nothing", deliver_event=_without_nulls),
    ),
    _ONE: (
        mutate_table("removes two equal rows for one delete", deliver_item=_deletes_twice),
        mutate_table("adds the row of an update without removing the old one", deliver_event=_updates_as_inserts),
    ),
}
"""Mistakes that a table of any format could make, by their law."""

BY_LAW: Mapping[str, Sequence[type[MemoryTable]]] = {
    _NULLS: (RemovesEveryEqualRow,),
    _ONE: (
        RemovesEveryEqualRow,
        _mutate(
            "removes the newest of several equal rows instead of the oldest",
            resolve=of_rows(_remove_newest_equal_row),
        ),
        _mutate(
            "removes another row for a repeated object",
            resolve=of_memory(lambda own, _: replace(own.memory, records=[])),
        ),
    ),
}
"""Mistakes of the reference adapter, by their law."""
