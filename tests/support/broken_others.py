"""Sources with mistakes that the laws of other tables must show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from changed_sources import changed_batches, changed_facts

from lakeward.adapters.memory import Frame, MemorySource
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.ports import Batch


def without_names(batch: Batch[Frame], *_: object) -> Mapping[str, Any]:
    """Count rows of other tables without the names of the tables."""
    return {"others": batch.facts.others and replace(batch.facts.others, names=())}


def with_another_row(batch: Batch[Frame], selection: ObjectSelection, epoch: int) -> Batch[Frame]:
    """Read a row of another table."""
    place = Position(epoch, 0, selection.objects[0].order, 99)
    cells = {"id": 1, "a": "of another table"}
    row = ChangeEvent(operation=Operation.INSERT, position=place, key=(1,), cells=cells)
    return replace(batch, frame=[*batch.frame, row])


SILENT: Final = [
    changed_facts(lambda *_: {"skipped": 0, "others": None}),
    changed_facts(without_names),
    changed_batches(with_another_row),
]
BROKEN: Final[Mapping[str, Sequence[type[MemorySource]]]] = {
    "rows_of_other_tables_are_counted_and_not_read": [
        changed_facts(lambda batch, *_: {"time": (batch.facts.time or 0) + 1}),
        changed_facts(lambda _, __, epoch: {"greatest": Position(epoch, 2**60, 1, 99)}),
        *SILENT,
    ],
    "an_object_of_other_tables_alone_is_reported": SILENT,
}
"""The broken sources of each law."""
