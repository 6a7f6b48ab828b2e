"""A source of the transactions of an outbox. Frames are lists of events in plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from lakeward.adapters.memory import Frame, MemorySource, event_of, facts_of
from lakeward.core.checks.source_clock import believed, beyond
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SourceError
from lakeward.core.events import ChangeEvent, Operation, Position, Sequences, key_of
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import (
    Limits,
    ObjectHistory,
    ObjectSelection,
    lacks_applied_objects,
    select_objects,
    until_changed,
)
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.schema import Column
from lakeward_outbox_source.outbox import Outbox, Written

FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "int": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "bigint": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "double": lambda value: type(value) in (int, float),
    "string": lambda value: type(value) is str,
}
"""The types of columns, each with a predicate for its JSON values. Values are never converted."""

OPERATIONS: Final = {item.value: item for item in (Operation.INSERT, Operation.UPDATE, Operation.DELETE)}


class OutboxSource(MemorySource):
    """A source that inherits the handling of plain Python frames, column rules included."""

    def __init__(self, outbox: Outbox, now: Callable[[], int], limits: Limits) -> None:
        super().__init__(limits=limits, sequences=Sequences.ARRIVAL, now=now)
        self.outbox = outbox
        self.clock = now

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """List the transactions that changed the table. The core selects some of them and raises the alarms."""
        with self.outbox.reading() as database:
            listed = self.outbox.listed(database, dimension.source, object_history.start)
            if lacks_applied_objects(listed, object_history):  # applied transactions are gone: list all
                object_history = replace(object_history, start=None)
                listed = self.outbox.listed(database, dimension.source)
        return select_objects(str(dimension.name), listed, object_history, self.limits)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Read transactions whole, in one read transaction, up to the first that changed meanwhile."""
        refuse_types(dimension)
        with self.outbox.reading() as database:
            listed = self.outbox.listed(database, dimension.source, min(item.name for item in selection.objects))
            same = until_changed(selection, {item.name: item for item in listed}).objects
            rows = [self.outbox.rows(database, dimension.source, item.order) for item in same]
        limit = believed(self.clock())
        frames = [
            [item_of(dimension, Position(epoch, 0, txn.order, row.number), row) for row in changes]
            for txn, changes in zip(same, rows, strict=True)
        ]
        known = [facts_of_one(txn, frame, limit) for txn, frame in zip(same, frames, strict=True)]
        items = [item for frame in frames for item in frame]
        return Batch(items, facts_of(dimension, items, known, limit))

    # Rows in quarantine.

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return the row of an entry as texts by column; nothing if it is not valid JSON."""
        cells = cells_of(self.written_at(dimension, entry)) or {}
        known = {name: cells[name] for name in dimension.schema.names if name in cells}
        return Cells({name: _text(value) for name, value in known.items()})

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        """Return repaired rows as events, the others as they were written."""
        return [
            event_of(dimension, entry, entry.repaired)
            if entry.repaired is not None
            else item_of(dimension, entry.position, self.written_at(dimension, entry))
            for entry in entries
        ]

    def written_at(self, dimension: Dimension, entry: Entry) -> Written:
        """Return the row of an entry. Raises SourceError if the application removed it."""
        with self.outbox.reading() as database:
            for change in self.outbox.rows(database, dimension.source, entry.order):
                if change.number == entry.row:
                    return change
        raise SourceError(
            f"{dimension.name}: change {entry.row} of transaction {entry.order} is no longer in the outbox",
            found=f"it waits in quarantine: {entry.reason}",
            todo="Give it up (`lakeward quarantine discard`), and let the application write the row again.",
        )


@dataclass(frozen=True, slots=True)
class OutboxInventory:
    """The tables of an outbox, listed without an engine."""

    outbox: Outbox

    def tables(self) -> Sequence[TableName]:
        """Return the tables that have changes."""
        return self.outbox.tables()

    def warnings(self, tables: Collection[TableName]) -> Sequence[str]:
        """Return nothing: every change names a table."""
        return ()

    def match_objects(self, tables: Collection[TableName]) -> Callable[[str], Collection[TableName]]:
        """Return a function that returns no table: an outbox is in no bucket."""
        return lambda _url: ()

    def cautions(self, table: TableName) -> Sequence[str]:
        """Return nothing: batches show all problems of a table."""
        return ()


def refuse_types(dimension: Dimension) -> None:
    """Raise SourceError for columns of types that an outbox does not send."""
    wrong = [f"{column.name} {column.type}" for column in dimension.schema if column.type.name not in FITS]
    if wrong:
        raise SourceError(
            f"{dimension.name} has columns that an outbox does not send",
            found=", ".join(wrong),
            todo=f"It sends {', '.join(FITS)}.",
        )


def item_of(dimension: Dimension, place: Position, row: Written) -> ChangeEvent | Reject:
    """Return a row as an event, or as a reject with the reason if something is wrong with it."""
    cells = cells_of(row)
    by_name = {column.name: column for column in dimension.schema}
    if cells is None or not all(_fits(by_name[name], cells) for name in dimension.key):
        return Reject(place, Reason.UNREADABLE, time=row.at)
    key = key_of(cells, dimension.key)
    if key is None:
        return Reject(place, Reason.NULL_KEY, time=row.at)
    keys = (key,) if dimension.key else ()
    operation = OPERATIONS.get(row.operation)
    if operation is None:
        return Reject(place, Reason.OPERATION, keys, time=row.at)
    wanted = dimension.schema.names if operation is not Operation.DELETE else dimension.key
    if not all(name in cells and _fits(by_name[name], cells) for name in wanted):
        return Reject(place, Reason.CAST, keys, time=row.at)
    sent = {name: cells[name] for name in wanted}
    return ChangeEvent(
        operation=operation, position=place, key=key, cells=sent, transaction=place.object, time=row.at
    )


def cells_of(row: Written) -> Mapping[str, Any] | None:
    """Return the cells of a row by column, or None if it is not a JSON object."""
    try:
        cells = json.loads(row.row)
    except ValueError:
        return None
    return cells if isinstance(cells, dict) else None


def facts_of_one(txn: SourceObject, frame: Frame, limit: int) -> ObjectFacts:
    """Return the facts of a transaction: number of rows, first and last position, and counts."""
    places = [item.position for item in frame]
    reasons = [item.reason for item in frame if isinstance(item, Reject)]
    return ObjectFacts(
        txn,
        len(frame),
        min(places),
        max(places),
        unreadable=reasons.count(Reason.UNREADABLE),
        ahead=beyond((item.time for item in frame), limit),
    )


def _fits(column: Column, cells: Mapping[str, Any]) -> bool:
    value = cells.get(column.name)
    return value is None or FITS[column.type.name](value)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
