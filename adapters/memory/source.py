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
        listed = self.tables.setdefault(table, [])
        if modified:
            listed[:] = [one for one in listed if one.object.name != name]
        item = SourceObject(name, order, max(1, len(items)), modified)
        listed.append(MemoryObject(item, items, schema, others or {}))

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the column of the sequences."""
        return self.order_column

    def key_form(self, dimension: Dimension) -> str | None:
        """Return the configured form of keys; keys are values already."""
        return self.form_of_keys

    def select_objects(self, dimension: Dimension, past: ObjectHistory) -> ObjectSelection:
        """Select the next objects, in order."""
        every = {one.object.name: one for one in self.tables.get(dimension.source, [])}
        listed = [one.object for one in self.tables.get(dimension.source, [])]
        naming = Naming(
            is_load=lambda name: name in every and (every[name].is_load or self.snapshot(name) is not None),
            written=lambda item: item.modified,
            snapshot=self.snapshot,
            is_dated=lambda _: self.dates_snapshots,
            partition_end=lambda name: self.partition_end(int(name)),
        )
        return select_objects(str(dimension.name), listed, past, self.limits, naming)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        """Return the rows of the objects, up to the first that has changed or has other columns than the first."""
        listed = {one.object.name: one for one in self.tables[dimension.source]}
        unchanged = until_changed(selection, {name: one.object for name, one in listed.items()})
        every = [listed[item.name] for item in unchanged.objects]
        schema = next((one.schema for one in every), None)
        objects = list(takewhile(lambda one: one.schema == schema, every))
        dimension = replace(dimension, schema=schema or dimension.schema)
        objects = [one if epoch == 1 else _of_epoch(one, epoch) for one in objects]
        written = objects
        objects = [_lift(one, selection.restarts) for one in objects] if selection.restarts else objects
        items = [item for one in objects for item in one.items]
        limit = None if self.now is None else believed(self.now())
        tolerance = tolerance_of(dimension)
        found = [_object_facts(o, limit, tolerance) for o in objects]
        found = self._in_log(written, found, selection, limit)
        facts = facts_of(dimension, items, found, limit)
        behind = None if all(one.is_load for one in objects) else epoch
        others = sum((Counter(one.others) for one in objects), Counter[str]())
        if others:
            other_tables = OtherTables(others.total(), tuple(others.most_common()))
            facts = replace(facts, skipped=facts.skipped + other_tables.messages, others=other_tables)
        loaded = selection.load or self.loaded.get(dimension.source) or behind
        return Batch(items, replace(facts, loaded=loaded, own_times=self.own_times))

    def _in_log(
        self,
        objects: Sequence[MemoryObject],
        found: Sequence[ObjectFacts],
        selection: ObjectSelection,
        limit: int | None,
    ) -> list[ObjectFacts]:
        """Add the spans and steps of each object in the source log."""
        logs, reached, object_facts = self.logs, selection.reached, []
        if logs is None:
            return list(found)
        for one, facts in zip(objects, found, strict=True):
            events = [item for item in one.items if isinstance(item, ChangeEvent) and not item.is_load]
            changes = [_in_log(event, logs(event), selection.restarts, limit) for event in events]
            spans, order = spans_of(changes), one.object.order
            steps = find_steps(changes, reached.of(order), selection.reached.of(order))
            object_facts.append(replace(facts, spans=spans, steps=steps))
            for span in spans:
                reached = reached.after(order, span)
        return object_facts

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return the names of the objects that a new table would not select."""
        selection = self.select_objects(dimension, ObjectHistory())
        names = {item.name for item in (*selection.objects, *selection.left)}
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
        every = [_of_epoch(one, entry.epoch) for one in self.tables[dimension.source]]
        items = [item for one in every for item in one.items]
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


def _lift(found: MemoryObject, restarts: Sequence[LogRestart]) -> MemoryObject:
    """Return an object with its places lifted above those of logs before a restart."""
    return replace(
        found, items=[replace(item, position=lift_place(item.position, restarts)) for item in found.items]
    )


def _of_epoch(found: MemoryObject, epoch: int) -> MemoryObject:
    """Return an object with its positions in an epoch; objects themselves have none."""
    items = [replace(item, position=item.position._replace(epoch=epoch)) for item in found.items]
    return replace(found, items=items)


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


def _object_facts(found: MemoryObject, limit: int | None, tolerance: int | None) -> ObjectFacts:
    every = [item.position for item in found.items]
    places = _known_positions(found.items)
    changes = [(place.row, place.sequence) for place in every if place.sequence != LOAD_SEQUENCE]
    reasons = [item.reason for item in found.items if isinstance(item, Reject)]
    ahead = beyond((item.time for item in found.items), limit)
    times = [item.time for item in found.items if item.time is not None and (limit is None or item.time <= limit)]
    return ObjectFacts(
        found.object,
        len(found.items),
        min(places, default=None),
        max(places, default=None),
        unreadable=reasons.count(Reason.UNREADABLE),
        ahead=ahead,
        is_load=found.is_load,
        backwards=None if tolerance is None else first_step_back(changes, tolerance),
        refusal=_refusal(found),
        earliest=min(times, default=None),
        latest=max(times, default=None),
    )


def _refusal(found: MemoryObject) -> Refusal | None:
    """Return the refusal of an object if no row can be read, for one reason."""
    rejects = [item for item in found.items if isinstance(item, Reject)]
    reasons = {reject.reason for reject in rejects}
    if len(rejects) < len(found.items) or len(reasons) != 1 or not reasons <= READ_REASONS:
        return None
    first = min(rejects, key=lambda reject: reject.position.row)
    return Refusal(first.reason, len(rejects), first.position.row, first.detail)


def _known_positions(items: Frame) -> Sequence[Position]:
    """Return the positions that bound the others: the known ones, or all if none is known."""
    known = [item.position for item in items if isinstance(item, ChangeEvent) or item.has_place]
    return known or [item.position for item in items]


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
        rejects={r: sum(x.reason is r for x in rejects) for r in Reason if any(x.reason is r for x in rejects)},
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
