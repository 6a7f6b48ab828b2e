"""The fold: `apply` applies events to rows, in position order, and defines what a merge plan means.

It is the specification in plain Python. It knows no batches and no change log: given every event of a feed, it
returns the one right table. The adapters are tested against it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakeward.core.dimension import Dimension
from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Operation, Position, has_fields, same_cells
from lakeward.core.history.options import Kind
from lakeward.core.history.versions import Columns, Step, Versions, apply_delete, apply_row, last_versions


@dataclass(frozen=True, slots=True)
class Row:
    """A stored row, or (`deleted`) the record of its delete.

    `position` is that of the last event folded into the row, including events that changed nothing. `origin` has
    for each cell the position of the event that set it. In a history `versions` are those of the key, and the row
    is the current one.
    """

    cells: Mapping[str, Cell]
    position: Position
    deleted: bool = False
    origin: Mapping[str, Position] = field(default_factory=dict, compare=False)
    versions: Versions = ()

    @property
    def is_bare(self) -> bool:
        """Whether nothing but the record of the delete is left of the row."""
        return self.deleted and not self.cells and not self.versions


Rows = Mapping[Key, Row]


@dataclass(slots=True)
class FoldResult:
    """The rows after a fold, deleted ones included, and the positions of events by their effect.

    An event in `incomplete` had `UNSET` cells and found no row to complete it. One in `undecided` entered a key
    that already has a row, in a feed without transactions. `truncates` are in order. Events in `placed` are part of
    the history of a key.
    """

    rows: dict[Key, Row]
    incomplete: set[Position] = field(default_factory=set)
    undecided: set[Position] = field(default_factory=set)
    insert_on_existing: set[Position] = field(default_factory=set)
    update_on_missing: set[Position] = field(default_factory=set)
    unset_as_null: set[Position] = field(default_factory=set)
    truncates: list[Position] = field(default_factory=list)
    placed: set[Position] = field(default_factory=set)

    def is_waiting(self, event: ChangeEvent) -> bool:
        """Whether an event found no row to complete and no newer event of its key supersedes it."""
        if event.position not in self.incomplete:
            return False
        row = self.rows.get(event.key)
        newer = [*self.truncates[-1:], *([] if row is None else [row.position])]
        return all(position < event.position for position in newer)

    @property
    def used(self) -> set[Position]:
        """The positions of events that the rows still show: those that set a row or a cell, all of a history."""
        last = {row.position for row in self.rows.values()}
        cells = {origin for row in self.rows.values() for origin in row.origin.values()}
        return last | cells | set(self.truncates[-1:]) | self.placed


def apply(dimension: Dimension, rows: Rows, events: Iterable[ChangeEvent]) -> FoldResult:
    """Return the result of applying `events` to `rows`, in position order.

    An event at or below the position of the row that it meets changes nothing. To every other rule a `deleted` row
    is absent.
    """
    fold = Fold(dimension, dict(rows))
    for event in sorted(events, key=lambda event: event.position):
        fold.take(event)
    return fold.result


@dataclass(slots=True)
class _Transaction:
    """The state of one transaction: the keys that rows entered, and the rows that they cover there.

    `moves` are its key changes by source order and keys, each with the row that it left when it first came.
    `key_changes` are those since the transaction began, or began again.
    """

    entered: set[Key] = field(default_factory=set)
    covered: dict[Key, Row] = field(default_factory=dict)
    moves: dict[Hashable, list[tuple[ChangeEvent, Row]]] = field(default_factory=dict)
    key_changes: dict[Hashable, list[ChangeEvent]] = field(default_factory=dict)

    def row_of_copy(self, event: ChangeEvent) -> Row | None:
        """Return the row that the first delivery of a key change left, or None where this is the first."""
        return next((row for other, row in self.moves.get(_move(event), ()) if _is_copy(event, other)), None)

    def has_come_before(self, event: ChangeEvent) -> bool:
        """Return True if an equal key change came since the transaction began."""
        return any(_is_copy(event, other) for other in self.key_changes.get(_move(event), ()))


class Fold:
    """A fold in progress: the rows after the events applied so far."""

    def __init__(self, dimension: Dimension, rows: dict[Key, Row]) -> None:
        self.columns: Sequence[str] = dimension.schema.names
        self.soft = dimension.is_soft
        self.history = columns_of(dimension)
        self.rows = rows
        self.result = FoldResult(rows)
        self.transactions: dict[Hashable, _Transaction] = {}

    def take(self, event: ChangeEvent) -> None:
        """Apply the next event in position order."""
        if event.operation is Operation.TRUNCATE:
            self.truncate(event)
        elif event.old_key is not None:
            self.move(event, event.old_key)
        elif self.is_news(event.key, event):
            if event.operation is Operation.DELETE:
                self.delete(event.key, event)
            else:
                self.upsert(event)

    def is_news(self, key: Key, event: ChangeEvent) -> bool:
        """Return True if an event is newer than the stored row of a key."""
        row = self.rows.get(key)
        return row is None or row.position < event.position

    def live(self, key: Key) -> Row | None:
        """Return the row of a key, or None where it is absent or deleted."""
        row = self.rows.get(key)
        return None if row is None or row.deleted else row

    def upsert(self, event: ChangeEvent) -> None:
        """Store the row of an event, completed from the stored row where cells were not sent."""
        current = self.live(event.key)
        partial = event.lacks(self.columns)
        base: Row | None = None
        if event.operation is Operation.UPDATE and partial:
            if current is None and not event.was_whole:
                self.result.incomplete.add(event.position)
                return
            if event.key in self.transaction(event).covered:
                self.result.undecided.add(event.position)
            base = current
        elif partial:
            self.result.unset_as_null.add(event.position)
        if event.operation is Operation.INSERT and current is not None:
            self.result.insert_on_existing.add(event.position)
        if event.operation is Operation.UPDATE and current is None:
            self.result.update_on_missing.add(event.position)
        self.put(event, base)

    def put(self, event: ChangeEvent, base: Row | None) -> None:
        """Store the row of the event's key. Cells that were not sent come from `base`, else they are NULL."""
        cells: dict[str, Cell] = {}
        origin: dict[str, Position] = {}
        for column in self.columns:
            value = event.cells.get(column, UNSET)
            if value is not UNSET:
                cells[column] = fill_unset(value, None if base is None else base.cells.get(column))
                origin[column] = event.position
            elif base is None:
                cells[column] = None
            else:
                cells[column] = base.cells.get(column)
                if column in base.origin:
                    origin[column] = base.origin[column]
        row = Row(cells, event.position, origin=origin)
        self.rows[event.key] = row if self.history is None else self.version(row, event, self.history)

    def version(self, row: Row, event: ChangeEvent, columns: Columns) -> Row:
        """Return a row with the versions of its key, of which it is the current one."""
        self.result.placed.add(event.position)
        stored = self.rows.get(event.key)
        before = () if stored is None else stored.versions
        step = Step(event.instant, event.position, event.old_key)
        versions = apply_row(columns, before, row.cells, step)
        return replace(row, cells=versions[-1].cells, versions=versions)

    def delete(self, key: Key, event: ChangeEvent) -> None:
        """Replace a row by the record of its delete. Soft deletes keep its values, a history its versions."""
        stored = self.rows.get(key)
        cells = stored.cells if self.soft and stored is not None else {}
        row = Row(cells, event.position, deleted=True)
        if self.history is not None:
            self.result.placed.add(event.position)
            before = () if stored is None else stored.versions
            row = replace(row, versions=apply_delete(before, Step(event.instant, event.position)))
        self.rows[key] = row

    def truncate(self, event: ChangeEvent) -> None:
        """Remove every older row. In a history, or where deletes are soft, end it instead."""
        self.result.truncates.append(event.position)
        if self.history is not None:
            self.result.placed.add(event.position)
        for key, row in [(key, row) for key, row in self.rows.items() if row.position < event.position]:
            if row.versions or (self.soft and row.cells):
                self.end(key, event)
            else:
                del self.rows[key]

    def end(self, key: Key, event: ChangeEvent) -> None:
        """Delete the row of a key, unless it is deleted already."""
        if not self.rows[key].deleted:
            self.delete(key, event)

    def transaction(self, event: ChangeEvent) -> _Transaction:
        """Return the state of the event's transaction. An event that names none is a transaction of its own."""
        if event.transaction is None:
            return _Transaction()
        return self.transactions.setdefault(event.transaction, _Transaction())

    def move(self, event: ChangeEvent, old: Key) -> None:
        """Apply a key change: a row leaves the key `old` and enters the key of the event.

        The row that leaves is the one that had the old key when the transaction began, if it has not left yet, else
        the row that entered it since (`UPDATE t SET id = id + 1`, swaps, 1 → 2 → 3 of one row). A row that was
        there at the beginning and has not left is *covered* by the one that entered.

        A key change that came before in its transaction is a copy. It changes nothing where the row that it left is
        still stored. Otherwise the whole transaction was delivered again after itself: it begins again, from the
        rows that it left.
        """
        transaction = self.transaction(event)
        first, current = transaction.row_of_copy(event), self.live(event.key)
        if first is not None and current is not None and current.position == first.position:
            return
        if transaction.has_come_before(event):
            transaction = self.transactions[event.transaction] = _Transaction(moves=transaction.moves)
        transaction.key_changes.setdefault(_move(event), []).append(event)
        mover = transaction.covered.pop(old, None)
        if mover is None and self.is_news(old, event):
            mover = self.live(old)
            self.delete(old, event)
            transaction.entered.discard(old)
        if not self.is_news(event.key, event):
            return
        base = first or mover
        if base is None and event.lacks(self.columns) and not event.was_whole:
            self.result.incomplete.add(event.position)
            return
        if current is not None and event.transaction is None:
            self.result.undecided.add(event.position)
        if current is not None and event.key not in transaction.entered:
            transaction.covered[event.key] = current
        transaction.entered.add(event.key)
        self.put(event, base)
        if first is None:
            transaction.moves.setdefault(_move(event), []).append((event, self.rows[event.key]))


def _move(event: ChangeEvent) -> Hashable:
    return event.position.source_order, event.old_key, event.key


def _is_copy(event: ChangeEvent, other: ChangeEvent) -> bool:
    """Whether two events of one transaction are the same key change, delivered twice."""
    return _move(event) == _move(other) and same_cells(event.cells, other.cells)


def deleted_row(row: Row, position: Position) -> Row:
    """Return a row as deleted at a position, with its values."""
    return Row(row.cells, position, deleted=True)


def as_fold_base(row: Row) -> Row:
    """Return the part of a row that a fold needs to go on from it. No table stores which event set a cell."""
    return replace(row, origin={}, versions=last_versions(row.versions))


def row_of(versions: Versions) -> Row:
    """Return the row that the versions of a key leave: the current one, or the record of its delete."""
    last = versions[-1]
    cells = last.cells if last.is_current else {}
    return Row(cells, last.position, deleted=not last.is_current, versions=versions)


def columns_of(dimension: Dimension) -> Columns | None:
    """Return the columns of a history by what a change of them does, or None for a mirror."""
    history, names, key = dimension.history, dimension.schema.names, dimension.key
    if history is None:
        return None
    return Columns(
        history.tracked(names, key),
        history.of_kind(names, key, Kind.KEEP_FIRST),
        history.of_kind(names, key, Kind.PREVIOUS),
    )


def fill_unset(value: Cell, stored: Cell) -> Cell:
    """Return a value with its `UNSET` fields, at any depth, taken from the stored value, else NULL."""
    if value is UNSET:
        return stored
    if not has_fields(value):
        return value
    stored_fields = stored if has_fields(stored) else {}
    return {name: fill_unset(part, stored_fields.get(name)) for name, part in value.items()}
