"""The reference adapter: a source, a lake, a queue and a ledger in plain Python.

It does what the core says a plan means, and keeps what it did where a test can see it.
Other adapters are held to it, and it is the default of the fast tests.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import takewhile
from typing import Final, TypeAlias

from lakeward.core.append import append
from lakeward.core.books import applied_record, may_become
from lakeward.core.clock import believed, beyond, first_step_back, latest
from lakeward.core.delivery import Delivery, Resolution, Settled
from lakeward.core.dimension import ORDERED, Dimension, Lateness, TableName
from lakeward.core.errors import CommitConflict, MendError, TableError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Key, Operation, Position, Sequences, key_of
from lakeward.core.evolution import Recorded, SchemaChange
from lakeward.core.fold import Row, apply
from lakeward.core.holds import Waiter, Waiters
from lakeward.core.known import Known, Refused, Remembered, Stored
from lakeward.core.ledger import Account, Limits, Notes, ObjectRecord, ObjectState, Past, SourceObject, Taken, take
from lakeward.core.memory import HOLDING, Change, Memory, Reason, Reject, trim
from lakeward.core.mending import check_same_keys
from lakeward.core.plan import BatchFacts, Capability, MergePlan, ObjectFacts, tolerance_of
from lakeward.core.ports import (
    Ack,
    Batch,
    Cells,
    Commit,
    Entry,
    Mended,
    Notice,
    Opened,
    Recalled,
    Resolved,
    Standing,
    Written,
)
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.settle import absorb, settle
from lakeward.core.showing import shows, without
from lakeward.plugins import Options, Registry, Runtime, hookimpl

Frame: TypeAlias = Sequence[ChangeEvent | Reject]


@dataclass(slots=True)
class MemoryObject:
    """An object of a memory source, and what it holds; its columns, where they are not those of the table."""

    object: SourceObject
    items: Frame
    schema: Schema | None = None


@dataclass(slots=True)
class MemorySource:
    """Objects per table, in a dictionary that a test fills."""

    limits: Limits = field(default_factory=Limits)
    tables: dict[TableName, list[MemoryObject]] = field(default_factory=dict)
    lateness: Lateness = ORDERED
    sequences: Sequences = Sequences.TIMES
    loaded: dict[TableName, int] = field(default_factory=dict)
    now: Callable[[], int] | None = None

    def put(self, table: TableName, order: int, items: Frame, schema: Schema | None = None) -> None:
        """Deliver an object, in the manner of a file named by its order."""
        name = f"{order:08d}"
        listed = self.tables.setdefault(table, [])
        listed.append(MemoryObject(SourceObject(name, order, max(1, len(items)), 0), items, schema))

    def take(self, dimension: Dimension, past: Past) -> Taken:
        """Choose the next objects, in order."""
        listed = [item.object for item in self.tables.get(dimension.name, [])]
        return take(str(dimension.name), listed, past, self.limits)

    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[Frame]:
        """Return what the objects hold, up to the first that has other columns than the one before it."""
        every = [o for o in self.tables[dimension.name] if o.object in taken.objects]
        schema = next((one.schema for one in every), None)
        objects = list(takewhile(lambda one: one.schema == schema, every))
        dimension = replace(dimension, schema=schema or dimension.schema)
        items = [item for one in objects for item in one.items]
        limit = None if self.now is None else believed(self.now())
        tolerance = tolerance_of(dimension)
        facts = facts_of(dimension, items, [_object_facts(o, limit, tolerance) for o in objects], limit)
        return Batch(items, replace(facts, loaded=self.loaded.get(dimension.name)))

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move nothing: there is no archive."""
        return ()

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension: objects here have the columns of their table."""
        return dimension

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return nothing: objects here hold no row as it was written."""
        return Cells()

    def mend(self, dimension: Dimension, entries: Sequence[Entry]) -> Frame:
        """Return mended rows as events, the others as they were delivered."""
        return [
            self._delivered(dimension, entry) if entry.mended is None else event_of(dimension, entry, entry.mended)
            for entry in entries
        ]

    def _delivered(self, dimension: Dimension, entry: Entry) -> ChangeEvent:
        items = [item for one in self.tables[dimension.name] for item in one.items]
        return next(item for item in items if isinstance(item, ChangeEvent) and item.position == entry.position)


def event_of(dimension: Dimension, entry: Entry, mended: Mended) -> ChangeEvent:
    """Return a mended row as an event; raises MendError where a cell does not fit its column."""
    position, time = entry.position, entry.time
    given = _typed(dimension, Column("time", Type("bigint")), mended.time)
    if isinstance(given, int):
        time = given
        position = position if dimension.sequences.are_wide else position._replace(sequence=given)
    placed = _typed(dimension, Column("sequence", Type("bigint")), mended.sequence)
    if isinstance(placed, int):
        position = position._replace(sequence=placed)
    cells = {c.name: _typed(dimension, c, mended.cells[c.name]) for c in dimension.schema}
    then = {c.name: _typed(dimension, c, (mended.old_key or {}).get(c.name)) for c in dimension.schema}
    return ChangeEvent(
        operation=mended.operation,
        position=position,
        key=key_of(cells, dimension.key) or (),
        cells=cells,
        old_key=key_of(then, dimension.key) if mended.old_key is not None else None,
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
        raise MendError(
            f"{dimension.name}: {text!r} is not {item.type.with_article} (column {item.name})",
            todo="Correct the cell.",
        ) from error


def _waiters(changes: Iterable[Change], epoch: int) -> Iterator[Waiter[Key]]:
    """Return the events that wait behind a hold; what waits for a load does not."""
    for change in changes:
        if change.waiting and change.event.position.epoch <= epoch:
            yield Waiter(change.event.position, change.event.keys)


def _key_text(key: Key) -> str:
    return json.dumps([str(part) for part in key], separators=(",", ":"))


def _object_facts(found: MemoryObject, limit: int | None, tolerance: int | None) -> ObjectFacts:
    places = [item.position for item in found.items]
    changes = [(place.row, place.sequence) for place in places if place.sequence != LOAD_SEQUENCE]
    reasons = [item.reason for item in found.items if isinstance(item, Reject)]
    ahead = beyond((item.time for item in found.items), limit)
    return ObjectFacts(
        found.object,
        len(found.items),
        min(places, default=None),
        max(places, default=None),
        unreadable=reasons.count(Reason.UNREADABLE),
        ahead=ahead,
        backwards=None if tolerance is None else first_step_back(changes, tolerance),
    )


def facts_of(
    dimension: Dimension, items: Frame, objects: Sequence[ObjectFacts] = (), limit: int | None = None
) -> BatchFacts:
    """Find what the core needs to know of a batch; `limit` is the latest source time that is believed."""
    events = [item for item in items if isinstance(item, ChangeEvent)]
    rejects = [item for item in items if isinstance(item, Reject)]
    places = [item.position for item in items]
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


@dataclass(slots=True)
class MemoryTable:
    """Rows and progress, replaced together; the memory and the quarantine beside them."""

    dimension: Dimension
    exists: bool = False
    rows: dict[Key, Row] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    memory: Memory = field(default_factory=Memory)
    written: dict[int, Settled] = field(default_factory=dict)
    remembered: int = 0
    objects: dict[int, tuple[ObjectFacts, ...]] = field(default_factory=dict)
    acks: list[Ack] = field(default_factory=list)
    quarantined: dict[int, list[Reject]] = field(default_factory=dict)
    given_up: dict[int, frozenset[Position]] = field(default_factory=dict)
    mended: dict[Position, Mended] = field(default_factory=dict)
    shown: dict[int, tuple[SchemaChange, ...]] = field(default_factory=dict)
    capabilities: frozenset[Capability] = frozenset(Capability)

    # The table.

    def standing(self) -> Standing:
        """Return progress and columns."""
        return Standing(self.progress, self.dimension.schema if self.exists else None)

    def resolve(self, plan: MergePlan, frame: Frame) -> Resolved:
        """Work out what the plan means."""
        events = [item for item in frame if isinstance(item, ChangeEvent)]
        mended = {event.position[2:]: event for event in events if plan.releases}
        delivery = Delivery(
            number=plan.batch,
            events=[] if plan.releases else events,
            rejects=[item for item in frame if isinstance(item, Reject)],
            resolutions=[Resolution(position, mended.get(position[2:])) for position in plan.releases],
            loaded=plan.facts.loaded,
            believed=plan.facts.believed,
        )
        work_out = append if plan.appends else settle
        dimension = replace(self.dimension, schema=plan.evolution.schema)
        settled = work_out(dimension, self.rows, self.memory, delivery)
        counts = replace(settled.counts, read=settled.counts.read + plan.facts.skipped, skipped=plan.facts.skipped)
        holds = [h for h in self.memory.holds.values() if h.position not in settled.closed]
        delivered = {item.position for item in frame} if not plan.releases else set()
        held = {key for hold in [*holds, *settled.holds] for key in hold.keys}
        held |= Waiters.of(_waiters(settled.changes, settled.epoch)).moved()
        return Resolved(
            counts=counts,
            written=sum(row is not None for row in settled.rows.values()),
            removed=sum(key in self.rows for key in settled.rows),
            held=len(held),
            rejects=Counter(reject.reason for reject in settled.rejects if reject.position in delivered),
            detail=settled,
        )

    def commit(self, plan: MergePlan, resolved: Resolved, progress: Progress) -> Commit:
        """Replace rows and progress at once."""
        if plan.batch != self.progress.batch + 1:
            raise CommitConflict(f"{self.dimension.name} is at batch {self.progress.batch} already")
        self.dimension = replace(self.dimension, schema=plan.evolution.schema)
        self.rows = self.rows_after(resolved.detail)
        self.progress = progress
        self.exists = True
        return Commit(str(plan.batch), resolved.written, resolved.removed)

    def rows_after(self, settled: Settled) -> dict[Key, Row]:
        """Return the rows with what was worked out in place."""
        changed = {**self.rows, **settled.rows}
        return {key: row for key, row in changed.items() if row is not None}

    # The companion.

    def recall(self, progress: Progress) -> Recalled:
        """Take in what is stamped up to the table's batch; what is stamped above does not exist."""
        if self.remembered > progress.batch:
            raise TableError(
                f"{self.dimension.name} was rolled back to batch {progress.batch}",
                found=f"its memory knows batch {self.remembered}",
                todo="Load the table again.",
            )
        for kept in (self.written, self.objects, self.quarantined, self.given_up, self.shown):
            for batch in [batch for batch in kept if batch > progress.batch]:
                del kept[batch]
        for batch in sorted(self.written):
            self.memory = absorb(self.dimension, self.memory, self.written.pop(batch))
            self.remembered = batch
        seen = [found.object for objects in self.objects.values() for found in objects]
        holds, records = tuple(self.memory.holds.values()), tuple(self.memory.records)
        objects = {item.name: item for item in seen}
        return Recalled(objects, holds, records, acks=tuple(self.acks), shown=dict(self.shown))

    def remember(self, plan: MergePlan, resolved: Resolved) -> None:
        """Write down what the batch leaves to remember, stamped with its number."""
        self.written[plan.batch] = resolved.detail
        self.objects[plan.batch] = plan.facts.objects
        self.shown[plan.batch] = plan.evolution.shown

    def trim(self, progress: Progress) -> None:
        """Forget what the mark has passed; events that found no row to complete until then go into quarantine."""
        self.recall(progress)
        for event in trim(self.dimension, self.memory):
            reject = Reject(event.position, Reason.INCOMPLETE_ROW, event.keys, event.transaction, event.time)
            self.quarantined.setdefault(progress.batch, []).append(reject)

    def ack(self, progress: Progress, ack: Ack) -> None:
        """Remember that an alarm was let pass."""
        self.acks.append(ack)

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of later batches."""
        return [
            applied_record(found, batch)
            for batch, objects in sorted(self.objects.items())
            for found in objects
            if after < batch <= progress.batch
        ]

    # The quarantine.

    def refuse(self, plan: MergePlan, batch: Batch[Frame]) -> Batch[Frame]:
        """Return a batch with the rows as rejects that show changes which go into quarantine."""
        items = [_refused(item, plan, batch.facts.schema) for item in batch.frame]
        found = facts_of(plan.dimension, items)
        return Batch(items, replace(batch.facts, operations=found.operations, rejects=found.rejects), batch.close)

    def hold(self, plan: MergePlan, resolved: Resolved) -> None:
        """Write down the rejects, and what was given up or overruled by a truncate, stamped with the batch."""
        self.quarantined[plan.batch] = list(resolved.detail.rejects)
        self.given_up[plan.batch] = frozenset(resolved.detail.closed)

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return what is in quarantine."""
        self.recall(progress)
        gone = {p for batch, given in self.given_up.items() if batch <= progress.batch for p in given}
        gone |= set(self.memory.closed)
        return [
            self._entry(batch, reject)
            for batch, rejects in sorted(self.quarantined.items())
            for reject in rejects
            if batch <= progress.batch and reject.position not in gone
        ]

    def _entry(self, batch: int, reject: Reject) -> Entry:
        waiters = Waiters.of(_waiters(self.memory.changes.values(), self.memory.epoch))
        keys = reject.keys if reject.reason in HOLDING else ()
        behind = waiters.behind(reject.position, keys)
        return Entry(
            key=_key_text(reject.keys[-1]) if reject.keys and self.dimension.key else None,
            other_key=_key_text(reject.keys[0]) if len(reject.keys) > 1 else None,
            reason=reject.reason.value,
            detail="",
            object=f"{reject.position.object:08d}",
            row=reject.position.row,
            operation=None,
            epoch=reject.position.epoch,
            sequence=reject.position.sequence,
            order=reject.position.object,
            batch=batch,
            since=0,
            text="",
            time=reject.time,
            waits=behind.waits,
            mended=self.mended.get(reject.position),
            also_holds=tuple(map(_key_text, behind.also_holds)),
        )

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        """Return the events that send a part of a row and wait for the rest."""
        self.recall(progress)
        changes = [change for change in self.memory.changes.values() if not change.waiting]
        rows = {key: base.row for key, base in self.memory.bases.items() if base.row is not None}
        folded = apply(self.dimension, rows, [change.event for change in changes])
        found = [self._part(change) for change in changes if folded.is_waiting(change.event)]
        return sorted(found, key=lambda entry: (entry.batch, entry.position))

    def _part(self, change: Change) -> Entry:
        reject = Reject(change.event.position, Reason.INCOMPLETE_ROW, change.event.keys, time=change.event.time)
        lacking = [name for name in self.dimension.schema.names if change.event.cells.get(name, UNSET) is UNSET]
        entry = self._entry(change.batch, reject)
        operation = change.event.operation.value
        return replace(entry, operation=operation, detail=f"not sent: {', '.join(lacking)}", is_waiting=True)

    def mend(self, progress: Progress, entries: Sequence[Entry], events: Frame) -> None:
        """Write down what a person mended."""
        for entry, event in zip(entries, events, strict=True):
            if entry.key is not None and isinstance(event, ChangeEvent):
                old = None if event.old_key is None else _key_text(event.old_key)
                check_same_keys(self.dimension, entry, _key_text(event.key), old)
        self.mended.update({entry.position: entry.mended for entry in entries if entry.mended is not None})

    def waiting(self, progress: Progress, resolved: Sequence[Entry], mended: Frame | None) -> Batch[Frame]:
        """Return what was mended: what waited is in the memory, and settling releases it."""
        return Batch(mended or (), facts_of(self.dimension, mended or ()))

    # One key.

    def known(self, key: Key) -> Known:
        """Return all that is known of a key."""
        self.recall(self.progress)
        changes = [c for c in self.memory.changes.values() if key in c.event.keys or not c.event.keys]
        row = self.rows.get(key)
        found = None if row is None else self.memory.changes.get(row.position)
        return Known(
            key=key,
            progress=self.progress,
            remembered=[
                Remembered(event=c.event, batch=c.batch, settled=None if c.waiting else c.batch) for c in changes
            ],
            refused=[
                Refused(
                    position=r.position, reason=r.reason, batch=batch, time=r.time, given_up=self._gone(r.position)
                )
                for batch, rejects in self.quarantined.items()
                for r in rejects
                if key in r.keys
            ],
            stored=None if row is None or row.deleted else Stored(row, None if found is None else found.batch),
            base=self.memory.bases.get(key),
            objects={x.object.order: x.object.name for objects in self.objects.values() for x in objects},
            has_loads=any(record.loads for record in self.memory.records),
        )

    def _gone(self, position: Position) -> int | None:
        """Return the batch with which an entry of the quarantine was given up, or None."""
        return next((batch for batch, given in self.given_up.items() if position in given), None)


def _refused(item: ChangeEvent | Reject, plan: MergePlan, incoming: Schema) -> ChangeEvent | Reject:
    """Return a row as a reject where it shows a change, else as if the changes were not there."""
    if isinstance(item, Reject):
        return item
    changes = plan.evolution.shown
    leaves_values = item.operation not in (Operation.DELETE, Operation.TRUNCATE)
    if leaves_values and any(shows(change, item.cells, incoming) for change in changes):
        return Reject(item.position, Reason.SCHEMA, item.keys, item.transaction, item.time)
    return replace(item, cells=without(changes, item.cells))


@dataclass(slots=True)
class MemoryTarget:
    """Tables by name."""

    tables: dict[TableName, MemoryTable] = field(default_factory=dict)

    def standing(self, dimension: Dimension) -> Standing:
        """Return how far the table of that name is."""
        return self.open(dimension).table.standing()

    def schema_changes(self, dimension: Dimension) -> Sequence[Recorded]:
        """Return nothing: how their columns changed is not kept."""
        return ()

    def known(self, dimension: Dimension, key: Key) -> Known:
        """Return what the table of that name knows of a key."""
        table = self.tables.setdefault(dimension.name, MemoryTable(dimension))
        return table.known(key)

    def open(self, dimension: Dimension) -> Opened[Frame]:
        """Return the table of that name."""
        table = self.tables.setdefault(dimension.name, MemoryTable(dimension))
        return Opened(str(dimension.name), table, table, table)


@dataclass(slots=True)
class MemoryLedger:
    """Accounts and objects by table, in dictionaries."""

    accounts: dict[str, Account] = field(default_factory=dict)
    known: dict[str, dict[str, ObjectRecord]] = field(default_factory=dict)

    def account(self, table: str) -> Account:
        """Return what is known of a table."""
        found = self.known.get(table, {}).values()
        waiting = {record.object.name: record.object for record in found if record.state is ObjectState.SEEN}
        return replace(self.accounts.get(table, Account()), waiting=waiting)

    def objects(self, table: str, *states: ObjectState) -> Iterator[ObjectRecord]:
        """Return objects in order."""
        for record in sorted(self.known.get(table, {}).values(), key=lambda r: (r.object.order, r.object.name)):
            if not states or record.state in states:
                yield record

    def write(self, table: str, notes: Notes) -> None:
        """Take in notes."""
        before = Account() if notes.anew else self.accounts.get(table, Account())
        known = {} if notes.anew else self.known.get(table, {})
        self.known[table] = known
        for record in notes.records:
            name = record.object.name
            first_seen = known[name].first_seen if name in known else record.first_seen
            known[name] = replace(record, first_seen=first_seen)
        for state, listed in notes.states.items():
            for name in listed:
                if name in known and may_become(known[name].state, state):
                    known[name] = replace(known[name], state=state)
        self.accounts[table] = replace(
            before,
            checked={**before.checked, **notes.checked},
            listed=before.listed if notes.listed is None else notes.listed,
            batch=before.batch if notes.batch is None else notes.batch,
            alarms=before.alarms if notes.alarms is None else tuple(notes.alarms),
            acked=before.acked if notes.acked is None else notes.acked,
        )


@dataclass(slots=True)
class MemoryQueue:
    """Notices in a list, until they are acknowledged."""

    notices: list[Notice] = field(default_factory=list)

    def receive(self) -> Sequence[Notice]:
        """Return the notices that wait."""
        return list(self.notices)

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Forget these notices."""
        self.notices = [notice for notice in self.notices if notice not in notices]


def build_source(options: Options, runtime: Runtime) -> MemorySource:
    """Make an empty source."""
    return MemorySource(now=runtime.now)


def build_target(options: Options, runtime: Runtime) -> MemoryTarget:
    """Make an empty lake."""
    return MemoryTarget()


def build_queue(options: Options, runtime: Runtime) -> MemoryQueue:
    """Make an empty queue."""
    return MemoryQueue()


def build_ledger(options: Options, runtime: Runtime) -> MemoryLedger:
    """Make an empty ledger."""
    return MemoryLedger()


@hookimpl
def register(registry: Registry) -> None:
    """Register `memory` as source, table format, queue and ledger."""
    registry.sources.add("memory", build_source)
    registry.formats.add("memory", build_target)
    registry.queues.add("memory", build_queue)
    registry.ledgers.add("memory", build_ledger)
