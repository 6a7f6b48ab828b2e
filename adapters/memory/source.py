"""A source in plain Python, whose objects a test delivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import takewhile
from typing import Final, TypeAlias

from lakeward.core.checks.log_restart import LogRestart, lift_place
from lakeward.core.checks.log_steps import LogChange, LogName, find_steps, spans_of
from lakeward.core.checks.source_clock import believed, beyond, first_step_back, latest
from lakeward.core.dimension import ORDERED, Dimension, Lateness, TableName
from lakeward.core.errors import RepairError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Operation, Position, Sequences, key_of
from lakeward.core.ledger.full_loads import Naming
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection, select_objects, until_changed
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import READ_REASONS, BatchFacts, Capability, ObjectFacts, Refusal
from lakeward.core.plan import tolerance_of
from lakeward.core.ports import (
    Batch,
    Cells,
    Entry,
    RepairedRow,
    Written,
)
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.shaping.recomputed_columns import RecomputedColumns

Frame: TypeAlias = Sequence[ChangeEvent | Reject]


@dataclass(slots=True)
class MemoryObject:
    """An object of a memory source and its content.

    `schema` is set if its columns differ from those of the table. `others` are its numbers of rows of other tables,
    by table name.
    """

    object: SourceObject
    items: Frame
    schema: Schema | None = None
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_load(self) -> bool:
        """Whether it belongs to a declared full load."""
        return any(item.position.sequence == LOAD_SEQUENCE for item in self.items)


@dataclass(slots=True)
class MemorySource:
    """Objects by table, in a dictionary that a test fills.

    - `snapshot`: returns the name of the snapshot of an object, if snapshots are named
    - `dates_snapshots`: whether the names of snapshots give their time, which is that of their rows
    - `own_times`: whether rows have their times from a column
    - `logs`: returns the source log of a change, if sequences are places in a log
    - `partition_end`: returns the end of the topic partition that an order belongs to
    - `order_column`: the column of the sequences
    - `form_of_keys`: the result of `key_form`
    """

    limits: Limits = field(default_factory=Limits)
    tables: dict[TableName, list[MemoryObject]] = field(default_factory=dict)
    lateness: Lateness = ORDERED
    sequences: Sequences = Sequences.TIMES
    loaded: dict[TableName, int] = field(default_factory=dict)
    now: Callable[[], int] | None = None
    snapshot: Callable[[str], str | None] = lambda _: None
    dates_snapshots: bool = False
    own_times: bool = False
    logs: Callable[[ChangeEvent], LogName] | None = None
    partition_end: Callable[[int], int | None] = lambda _: None
    order_column: str | None = None
    form_of_keys: str | None = None

    def put(
        self,
        table: TableName,
        order: int,
        items: Frame,
        schema: Schema | None = None,
        modified: int = 0,
        others: Mapping[str, int] | None = None,
    ) -> None:
        """Deliver an object with the name of its order. With `modified` it replaces an object of that name."""
        name = f"{order:08d}"
        objects = self.tables.setdefault(table, [])
        if modified:
            objects[:] = [delivered for delivered in objects if delivered.object.name != name]
        item = SourceObject(name, order, max(1, len(items)), modified)
        objects.append(MemoryObject(item, items, schema, others or {}))

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the column of the sequences."""
        return self.order_column

    def key_form(self, dimension: Dimension) -> str | None:
        """Return the configured form of keys; keys are values already."""
        return self.form_of_keys

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Select the next objects, in order."""
        by_name = {delivered.object.name: delivered for delivered in self.tables.get(dimension.source, [])}
        objects = [delivered.object for delivered in self.tables.get(dimension.source, [])]
        naming = Naming(
            is_load=lambda name: name in by_name and (by_name[name].is_load or self.snapshot(name) is not None),
            written=lambda item: item.modified,
            snapshot=self.snapshot,
            is_dated=lambda _: self.dates_snapshots,
            partition_end=lambda name: self.partition_end(int(name)),
        )
        return select_objects(str(dimension.name), objects, object_history, self.limits, naming)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return the rows of the objects, up to the first that has changed or has other columns than the first."""
        by_name = {delivered.object.name: delivered for delivered in self.tables[dimension.source]}
        unchanged = until_changed(selection, {name: delivered.object for name, delivered in by_name.items()})
        selected = [by_name[item.name] for item in unchanged.objects]
        schema = next((delivered.schema for delivered in selected), None)
        objects = list(takewhile(lambda delivered: delivered.schema == schema, selected))
        dimension = replace(dimension, schema=schema or dimension.schema)
        objects = [delivered if epoch == 1 else _of_epoch(delivered, epoch) for delivered in objects]
        written = objects
        objects = (
            [_lift_places(delivered, selection.restarts) for delivered in objects]
            if selection.restarts
            else objects
        )
        items = [item for delivered in objects for item in delivered.items]
        limit = None if self.now is None else believed(self.now())
        tolerance = tolerance_of(dimension)
        object_facts = [_object_facts(o, limit, tolerance) for o in objects]
        object_facts = self._in_log(written, object_facts, selection, limit)
        facts = facts_of(dimension, items, object_facts, limit)
        load_epoch = None if all(delivered.is_load for delivered in objects) else epoch
        others = sum((Counter(delivered.others) for delivered in objects), Counter[str]())
        if others:
            other_tables = OtherTables(others.total(), tuple(others.most_common()))
            facts = replace(facts, skipped=facts.skipped + other_tables.messages, others=other_tables)
        loaded = selection.load_epoch or self.loaded.get(dimension.source) or load_epoch
        return Batch(items, replace(facts, loaded=loaded, own_times=self.own_times))

    def _in_log(
        self,
        objects: Sequence[MemoryObject],
        all_facts: Sequence[ObjectFacts],
        selection: ObjectSelection,
        limit: int | None,
    ) -> list[ObjectFacts]:
        """Add the spans and steps of each object in the source log."""
        logs, reached, object_facts = self.logs, selection.reached, []
        if logs is None:
            return list(all_facts)
        for delivered, facts in zip(objects, all_facts, strict=True):
            events = [item for item in delivered.items if isinstance(item, ChangeEvent) and not item.is_load]
            changes = [_in_log(event, logs(event), selection.restarts, limit) for event in events]
            spans, order = spans_of(changes), delivered.object.order
            steps = find_steps(changes, reached.of(order), selection.reached.of(order))
            object_facts.append(replace(facts, spans=spans, steps=steps))
            for span in spans:
                reached = reached.after(order, span)
        return object_facts

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return the names of the objects that a new table would not select."""
        selection = self.select_objects(dimension, ObjectHistory())
        names = {item.name for item in (*selection.objects, *selection.remaining)}
        return [item.name for item in objects if item.name not in names]

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> Frame:
        """Return a frame with one truncate."""
        return [ChangeEvent(operation=Operation.TRUNCATE, position=place, time=time)]

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move nothing: there is no archive."""
        return ()

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension: objects here have the columns of their table."""
        return dimension

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return no columns: rules belong to a shaped source."""
        return RecomputedColumns()

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return no cells: these objects have no source text."""
        return Cells()

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        """Return repaired rows as events, and other rows as delivered."""
        return [
            self._find_delivered(dimension, entry)
            if entry.repaired is None
            else event_of(dimension, entry, entry.repaired)
            for entry in entries
        ]

    def _find_delivered(self, dimension: Dimension, entry: Entry) -> ChangeEvent:
        objects = [_of_epoch(delivered, entry.epoch) for delivered in self.tables[dimension.source]]
        items = [item for delivered in objects for item in delivered.items]
        return next(item for item in items if isinstance(item, ChangeEvent) and item.position == entry.position)


def _in_log(event: ChangeEvent, log: LogName, restarts: Sequence[LogRestart], limit: int | None) -> LogChange:
    """Return a change as it is compared with other changes of its log."""
    return LogChange(
        row=event.position.row,
        place=lift_place(event.position, restarts).sequence,
        time=latest([event.time], limit),
        log=log,
        is_read=event.operation is Operation.READ,
        has_place=event.position.has_order,
        is_truncate=event.operation is Operation.TRUNCATE,
    )


def _lift_places(delivered: MemoryObject, restarts: Sequence[LogRestart]) -> MemoryObject:
    """Return an object with its places lifted above those of logs before a restart."""
    return replace(
        delivered, items=[replace(item, position=lift_place(item.position, restarts)) for item in delivered.items]
    )


def _of_epoch(delivered: MemoryObject, epoch: int) -> MemoryObject:
    """Return an object with its positions in an epoch; objects themselves have none."""
    items = [replace(item, position=item.position._replace(epoch=epoch)) for item in delivered.items]
    return replace(delivered, items=items)


def event_of(dimension: Dimension, entry: Entry, repaired: RepairedRow) -> ChangeEvent:
    """Return a repaired row as an event; raises RepairError if a cell does not fit its column."""
    position, time = entry.position, entry.time
    time_cell = _typed(dimension, Column("time", Type("bigint")), repaired.time)
    if isinstance(time_cell, int):
        time = time_cell
        position = position if dimension.sequences.are_wide else position._replace(sequence=time_cell)
    sequence_cell = _typed(dimension, Column("sequence", Type("bigint")), repaired.sequence)
    if isinstance(sequence_cell, int):
        position = position._replace(sequence=sequence_cell)
    cells = {c.name: _typed(dimension, c, repaired.cells[c.name]) for c in dimension.schema}
    old_cells = {c.name: _typed(dimension, c, (repaired.old_key or {}).get(c.name)) for c in dimension.schema}
    return ChangeEvent(
        operation=repaired.operation,
        position=position,
        key=key_of(cells, dimension.key) or (),
        cells=cells,
        old_key=key_of(old_cells, dimension.key) if repaired.old_key is not None else None,
        time=time,
    )


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "int": int,
    "bigint": int,
    "float": float,
    "double": float,
    "decimal": Decimal,
}


def _typed(dimension: Dimension, item: Column, text: Written) -> object:
    try:
        return text if text is None or text is UNSET else _READERS.get(item.type.name, str)(text)
    except (ValueError, ArithmeticError) as error:
        raise RepairError(
            f"{dimension.name}: {text!r} is not {item.type.with_article} (column {item.name})",
            todo="Correct the cell.",
        ) from error


def _object_facts(delivered: MemoryObject, limit: int | None, tolerance: int | None) -> ObjectFacts:
    positions = [item.position for item in delivered.items]
    known_positions = _known_positions(delivered.items)
    changes = [(place.row, place.sequence) for place in positions if place.sequence != LOAD_SEQUENCE]
    reasons = [item.reason for item in delivered.items if isinstance(item, Reject)]
    ahead = beyond((item.time for item in delivered.items), limit)
    times = [
        item.time for item in delivered.items if item.time is not None and (limit is None or item.time <= limit)
    ]
    return ObjectFacts(
        delivered.object,
        len(delivered.items),
        min(known_positions, default=None),
        max(known_positions, default=None),
        unreadable=reasons.count(Reason.UNREADABLE),
        ahead=ahead,
        is_load=delivered.is_load,
        backwards=None if tolerance is None else first_step_back(changes, tolerance),
        refusal=_refusal(delivered),
        earliest=min(times, default=None),
        latest=max(times, default=None),
    )


def _refusal(delivered: MemoryObject) -> Refusal | None:
    """Return the refusal of an object if no row can be read, for one reason."""
    rejects = [item for item in delivered.items if isinstance(item, Reject)]
    reasons = {reject.reason for reject in rejects}
    if len(rejects) < len(delivered.items) or len(reasons) != 1 or not reasons <= READ_REASONS:
        return None
    first = min(rejects, key=lambda reject: reject.position.row)
    return Refusal(first.reason, len(rejects), first.position.row, first.detail)


def _known_positions(items: Frame) -> Sequence[Position]:
    """Return the positions that bound the others: the known ones, or all if none is known."""
    positions = [item.position for item in items if isinstance(item, ChangeEvent) or item.has_place]
    return positions or [item.position for item in items]


def facts_of(
    dimension: Dimension, items: Frame, objects: Sequence[ObjectFacts] = (), limit: int | None = None
) -> BatchFacts:
    """Return the batch facts that the core needs; `limit` is the latest source time that is believed."""
    events = [item for item in items if isinstance(item, ChangeEvent)]
    rejects = [item for item in items if isinstance(item, Reject)]
    places = _known_positions(items)
    operations = [event.operation for event in events]
    return BatchFacts(
        schema=dimension.schema,
        objects=tuple(objects),
        operations={op: operations.count(op) for op in Operation if op in operations},
        rejects={
            r: sum(reject.reason is r for reject in rejects)
            for r in Reason
            if any(reject.reason is r for reject in rejects)
        },
        least=min(places, default=None),
        greatest=max(places, default=None),
        time=latest((item.time for item in items), limit),
        needs=frozenset(_needs(dimension, events)),
        truncates=tuple(event.position for event in events if event.operation is Operation.TRUNCATE),
        believed=limit,
    )


def _needs(dimension: Dimension, events: Sequence[ChangeEvent]) -> Iterator[Capability]:
    for event in events:
        if event.operation is Operation.TRUNCATE:
            yield Capability.TRUNCATE
        elif event.old_key is not None:
            yield Capability.KEY_CHANGE
        elif event.operation is Operation.UPDATE and event.lacks(dimension.schema.names):
            yield Capability.UNSET
