"""Sources with mistakes that the laws of column names must show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent, key_of
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.ports import Batch
from lakeward.core.schema import Schema


class ReadsCellsByTheirPlace(MemorySource):
    """Reads cells by the order of the columns of the table."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        return _by_place(batch, dimension, dimension.schema.names)


class TakesAnUnknownNameForTheOneThatIsMissing(MemorySource):
    """Reads cells by name, and puts cells of an unknown column under the remaining one."""

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        batch = MemorySource.read(self, dimension, selection, epoch)
        own, names = dimension.schema.names, batch.facts.schema.names
        missing = iter([name for name in own if name not in names])
        return _by_place(batch, dimension, [name if name in own else next(missing, name) for name in names])


def _by_place(batch: Batch[Frame], dimension: Dimension, names: Sequence[str]) -> Batch[Frame]:
    """Return a batch whose cells stand under these names."""

    def renamed(event: ChangeEvent) -> ChangeEvent:
        cells = dict(zip(names, event.cells.values(), strict=True))
        return replace(event, cells=cells, key=key_of(cells, dimension.key) or ())

    items = [renamed(item) if isinstance(item, ChangeEvent) else item for item in batch.frame]
    columns = [replace(column, name=name) for column, name in zip(batch.facts.schema, names, strict=True)]
    return replace(batch, frame=items, facts=replace(batch.facts, schema=Schema(tuple(columns))))


BROKEN: Final[Mapping[str, Sequence[type[MemorySource]]]] = {
    "columns_in_another_order_are_read_by_name": [ReadsCellsByTheirPlace],
    "a_cell_of_an_unknown_column_is_read_under_no_other_name": [
        ReadsCellsByTheirPlace,
        TakesAnUnknownNameForTheOneThatIsMissing,
    ],
}
"""The broken sources of each law."""
