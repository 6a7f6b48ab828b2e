"""Which batches are small, and the rows of a small batch in Arrow and as events and rejects of the core."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakeward.adapters.formats.shared.rows.unset_cells import quoted_paths, with_unset
from lakeward.adapters.formats.shared.small_batches.keys import key_in, keys_in
from lakeward.adapters.spark.frames.event_frame import SKIPPED
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.events import Cell, ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import HOLDING, Reason, Reject
from lakeward.core.plan import MergePlan

_WHOLE: Final = (Operation.INSERT, Operation.READ)


def reason_for_spark(plan: MergePlan, most_rows: int) -> str | None:
    """Return why Spark resolves a batch, or None if the core does. `most_rows` is the setting `small_batch`."""
    if not most_rows:
        return "`small_batch` is 0"
    if plan.facts.read > most_rows:
        return f"more than {most_rows:,} rows (`small_batch`)"
    return None


@dataclass(frozen=True, slots=True)
class SmallBatch:
    """The rows of a batch in the order of arrival, its events, and its rejects.

    `places` has the row index of each event and reject, by its position.
    """

    rows: pa.Table
    events: Sequence[ChangeEvent]
    rejects: Sequence[Reject]
    places: Mapping[Position, int]


def read_batch(rows: pa.Table, plan: MergePlan) -> SmallBatch:
    """Read the rows of an event frame. Raises OverflowError for a time outside the years 1 to 9999."""
    rows = rows.sort_by(names.ARRIVAL)
    columns = columns_of(rows)
    reader = _Reader(plan, columns)
    events, rejects, places = list[ChangeEvent](), list[Reject](), dict[Position, int]()
    for index, reason in enumerate(columns[names.REASON]):
        if reason == SKIPPED:
            continue
        if reason is None:
            event = reader.event(index)
            events.append(event)
            places.setdefault(event.position, index)
        else:
            reject = reader.reject(index, Reason(reason))
            rejects.append(reject)
            places.setdefault(reject.position, index)
    return SmallBatch(rows, events, rejects, places)


class _Reader:
    """Reads rows whose columns are lists of values."""

    def __init__(self, plan: MergePlan, columns: Mapping[str, Sequence[Any]]) -> None:
        self.epoch = plan.epoch
        self.columns = columns
        self.cells = {name: columns[name] for name in plan.folded.names if name in columns}
        history = plan.dimension.history
        dated_by = None if history is None else history.dated_by  # a new row without this column is a reject
        absent = (name for name in plan.evolution.absent if name not in columns and name != dated_by)
        self.absent: Mapping[str, Cell] = dict.fromkeys(absent)
        lacking = () if names.IMAGE in columns else plan.evolution.lacking  # with images, missing fields are NULL
        self.lacking = {path: quoted(*path) for path in lacking}
        self.key = plan.dimension.key
        self.keys = keys_in(columns, self.key)
        nulls = [None] * len(self.keys)
        self.unset = columns.get(names.UNSET, nulls)
        self.old = columns.get(names.OLD, nulls)
        self.images = columns.get(names.IMAGE, nulls)
        self.transactions = columns.get(names.TRANSACTION, nulls)

    def position(self, index: int) -> Position:
        columns = self.columns
        sequence = int(columns[names.SEQUENCE][index])
        return Position(self.epoch, sequence, columns[names.OBJECT][index], columns[names.ROW][index])

    def event(self, index: int) -> ChangeEvent:
        operation = Operation(self.columns[names.OPERATION][index])
        return ChangeEvent(
            operation=operation,
            position=self.position(index),
            key=() if operation is Operation.TRUNCATE else self.keys[index] or (),
            cells=self._cells(index, operation),
            old_key=key_in(self.old[index], self.key),
            before=self._before(index),
            transaction=self.transactions[index],
            time=self.columns[names.TIME][index],
        )

    def _before(self, index: int) -> Mapping[str, Cell] | None:
        """Return the before image by which a change finds its row; None if the change was not sent whole."""
        image = self.images[index]
        return None if image is None or self.unset[index] else {name: image[name] for name in self.cells}

    def _cells(self, index: int, operation: Operation) -> Mapping[str, Cell]:
        if operation is Operation.TRUNCATE:
            return {}
        cells: dict[str, Cell] = {name: values[index] for name, values in self.cells.items()}
        if operation in _WHOLE:
            cells |= self.absent
        not_sent = self._not_sent(index, operation)
        return (
            {name: with_unset(value, quoted(name), not_sent) for name, value in cells.items()}
            if not_sent
            else cells
        )

    def _not_sent(self, index: int, operation: Operation) -> Collection[str]:
        """Return the paths of cells that an event did not send, and of nested fields that its file lacks."""
        listed = self.unset[index]
        if not listed and not self.lacking:
            return ()
        paths = quoted_paths(listed)
        if operation is Operation.UPDATE:
            paths |= set(self.lacking.values())
        return paths

    def reject(self, index: int, reason: Reason) -> Reject:
        keys = (key_in(self.old[index], self.key), self.keys[index]) if reason in HOLDING else ()
        return Reject(
            position=self.position(index),
            reason=reason,
            keys=tuple(key for key in keys if key is not None),
            transaction=self.transactions[index],
            time=self.columns[names.TIME][index],
            detail=self.columns[names.DETAIL][index] or "",
        )


def columns_of(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
    """Return the values of each column. Raises OverflowError for a time outside the years 1 to 9999."""
    return {name: rows[name].to_pylist() for name in rows.column_names}
