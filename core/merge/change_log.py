"""What a table remembers, so that late and repeated events find the right state.

Above its mark a table remembers every event, and for each key the row as it stood
before the first of them (its base): the state of a touched key is always *its state at
the mark, then its changes since, in position order*. An `ordered` table remembers only
deletes and truncates, for its redelivery window: with its first batch it forgets all else that
it knew. Entries are stamped with a batch; those stamped above the table's own batch were left
by a crash and do not exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from lakeward.core.dimension import Dimension, Lateness, Ordered, Within
from lakeward.core.events import (
    LOAD_SEQUENCE,
    NO_SEQUENCE,
    READ_SEQUENCE,
    ChangeEvent,
    Key,
    Mark,
    Operation,
    Position,
)
from lakeward.core.merge.fold import Row, apply, as_fold_base
from lakeward.core.merge.key_chains import chains


class Reason(Enum):
    """Why an event is in quarantine; `docs/how-to/quarantine.md` explains each."""

    CAST = "cast"
    QUALITY = "quality"
    OPERATION = "operation"
    SEQUENCE = "sequence"
    SCHEMA = "schema"
    KEY_SHIFT = "key_shift"
    HISTORY = "history"
    TIE = "tie"
    UNDATED = "undated"
    UNREADABLE = "unreadable"
    NULL_KEY = "null_key"
    NO_KEY = "no_key"
    TOO_LATE = "too_late"
    INCOMPLETE_ROW = "incomplete_row"


HOLDING = frozenset(
    {
        Reason.CAST,
        Reason.QUALITY,
        Reason.OPERATION,
        Reason.SEQUENCE,
        Reason.SCHEMA,
        Reason.KEY_SHIFT,
        Reason.HISTORY,
        Reason.TIE,
        Reason.UNDATED,
    }
)
"""Reasons that hold the key: its later events wait. The others hold nothing."""

UNPLACED = frozenset({Reason.SEQUENCE, Reason.UNREADABLE})
"""Reasons of rows whose place in the order may not be known: such a row bounds nothing, and is never late."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that could not become an event, and the keys it is about (none where it is unreadable).

    `detail` says in words what is wrong with it, where more is to be said than the reason.
    """

    position: Position
    reason: Reason
    keys: tuple[Key, ...] = ()
    transaction: Hashable = None
    time: int | None = None
    detail: str = ""

    @classmethod
    def of(cls, event: ChangeEvent, reason: Reason, detail: str = "") -> Self:
        """Return an event as one that cannot be applied."""
        return cls(event.position, reason, event.keys, event.transaction, event.time, detail)

    @property
    def has_place(self) -> bool:
        """Whether its place in the order is known."""
        return self.reason not in UNPLACED or self.position.sequence != LOAD_SEQUENCE

    @property
    def holds(self) -> bool:
        """Whether its keys wait for a person."""
        return self.reason in HOLDING


@dataclass(frozen=True, slots=True)
class Change:
    """A remembered event; `waiting` behind a hold or for a load to be complete."""

    event: ChangeEvent
    batch: int
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class BaseRow:
    """The row of a key, or its absence, before the first remembered event of it."""

    key: Key
    row: Row | None
    batch: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Keys that wait behind a quarantined event, until it is fixed or discarded."""

    position: Position
    keys: tuple[Key, ...]
    reason: Reason
    batch: int
    transaction: Hashable = None

    @classmethod
    def of(cls, reject: Reject, batch: int) -> Self:
        """Return the hold of a reject that came with a batch, or turned out with it to be one."""
        return cls(reject.position, reject.keys, reject.reason, batch, reject.transaction)


@dataclass(frozen=True, slots=True)
class Record:
    """What a batch held: kept for ever, it gives the mark and rebuilds the ledger.

    `loads` are the epochs of which it has rows of a full load, `loaded` is the newest whose
    load is complete with it (0: none). `truncates` are the positions of its truncates. With `added` the table
    got columns with it.
    """

    batch: int
    objects: frozenset[int]
    least: Position
    greatest: Position
    time: int | None = None
    loads: frozenset[int] = frozenset()
    loaded: int = 0
    truncates: tuple[Position, ...] = ()
    added: bool = False

    def is_of(self, epoch: int) -> bool:
        """Whether something of the batch is of an epoch."""
        return self.least.epoch <= epoch <= self.greatest.epoch


def times_of_objects(records: Iterable[Record]) -> Mapping[int, int]:
    """Return by the order of each object the newest time of all batches up to that with which it came first.

    Times are microseconds since 1970; an object is left out that came before any batch told a time.
    """
    found: dict[int, int | None] = {}
    newest: int | None = None
    for record in sorted(records, key=lambda record: record.batch):
        newest = max((time for time in (newest, record.time) if time is not None), default=None)
        for order in record.objects:
            found.setdefault(order, newest)
    return {order: time for order, time in found.items() if time is not None}


@dataclass(slots=True)
class ChangeLogContents:
    """What a table remembers as of one of its batches; of `unsettled` events, without a row, `trim` is to tell."""

    epoch: int = 1
    loaded: int = 0
    mark: Mark | None = None
    records: list[Record] = field(default_factory=list)
    changes: dict[Position, Change] = field(default_factory=dict)
    bases: dict[Key, BaseRow] = field(default_factory=dict)
    holds: dict[Position, Hold] = field(default_factory=dict)
    closed: dict[Position, ChangeEvent | None] = field(default_factory=dict)
    unsettled: list[ChangeEvent] = field(default_factory=list)

    @property
    def high_water(self) -> Position | None:
        """The greatest position that was ever applied."""
        return max((record.greatest for record in self.records), default=None)

    @property
    def is_loading(self) -> bool:
        """Whether a full load, or an epoch behind one, is not complete."""
        loads = {epoch for record in self.records for epoch in record.loads}
        return max(loads, default=0) > self.loaded or bool(self.staged)

    @property
    def staged(self) -> list[Change]:
        """Events of an epoch whose load is not complete."""
        return [change for position, change in self.changes.items() if position.epoch > self.epoch]

    def has_object(self, position: Position) -> bool:
        """Tell whether the object of a position was delivered before, in its epoch."""
        return any(position.object in record.objects and record.is_of(position.epoch) for record in self.records)


def next_low_watermark(memory: ChangeLogContents, lateness: Lateness) -> Mark | None:
    """Return the low-water mark that the committed batches give.

    It is the greatest recorded (epoch, sequence) below every batch that holds an event
    still in time, and not above a load that is incomplete. What an operator said is of no object, and moves it
    nowhere. Where it lies inside a transaction, what `trim` forgets ends before that.
    """
    times = [record.time for record in memory.records if record.time is not None]
    if not isinstance(lateness, Within) or memory.is_loading or not times:
        return memory.mark
    oldest = max(times) - lateness.micros
    in_time = min(r.least.mark for r in memory.records if r.time is not None and r.time >= oldest)
    bounds = [bound for r in memory.records if r.objects for bound in (r.least, r.greatest)]
    recorded = {bound.mark for bound in bounds if bound.sequence != READ_SEQUENCE}  # it passes no such row
    mark = max((mark for mark in recorded if mark < in_time), default=None)
    return memory.mark if mark is None else max(mark, memory.mark or mark)


def object_watermark(
    lateness: Lateness, records: Iterable[Record], mark: Mark | None, epoch: int = 1, *, by_times: bool = False
) -> int | None:
    """Return the order of the objects of an epoch at or below which nothing may appear any more, or None.

    Of an `ordered` table that is the last object; else the last of a batch that lies at or
    below the mark as a whole. Where a table goes `by_times` now, nothing may appear below what it has without:
    every time would be above that.
    """
    passed = [record for record in records if record.is_of(epoch)]
    if not isinstance(lateness, Ordered):
        timed = min((record.batch for record in passed if record.greatest.sequence > NO_SEQUENCE), default=None)
        passed = [
            record
            for record in passed
            if (mark is not None and record.greatest.mark <= mark)
            or (by_times and record.greatest.sequence == NO_SEQUENCE and (timed is None or record.batch < timed))
        ]
    return max((order for record in passed for order in record.objects), default=None)


def forget_applied_events(dimension: Dimension, memory: ChangeLogContents, rows: Mapping[Key, Row | None]) -> None:
    """Forget how rows came to stand, as an `ordered` table does whose batch leaves `rows`.

    The events stay that leave no row, and what waits behind a hold. What comes from now on is not remembered: a
    row from before would be gone on from without it, should the lateness become a duration again; so what stands
    counts. An event that finds no row until then finds none any more.
    """
    memory.unsettled += [event for event in _incomplete(dimension, memory) if not _is_newer(rows, event)]
    memory.bases = {}
    leaving = (Operation.DELETE, Operation.TRUNCATE)
    memory.changes = {
        position: change
        for position, change in memory.changes.items()
        if change.waiting or change.event.operation in leaving or change.event.old_key is not None
    }


def _incomplete(dimension: Dimension, memory: ChangeLogContents) -> list[ChangeEvent]:
    """Return the events that found no row to complete, of keys of which it is known what stood before."""
    rows = {key: base.row for key, base in memory.bases.items() if base.row is not None}
    events = [change.event for change in memory.changes.values() if not change.waiting]
    folded = apply(dimension, rows, events)
    return [event for event in events if folded.is_waiting(event) and memory.bases.keys() >= {*event.keys}]


def _is_newer(rows: Mapping[Key, Row | None], event: ChangeEvent) -> bool:
    row = rows.get(event.key)
    return row is not None and row.position > event.position


def trim(dimension: Dimension, memory: ChangeLogContents) -> list[ChangeEvent]:
    """Fold what the mark has passed into the bases; return the events that stayed incomplete.

    Keys joined by key changes are trimmed together. A held key pins its chain from the
    first event of the transaction that is held, and every truncate from there on; so does a
    transaction that the mark parts. An event of a key without a base did not stay incomplete: an `ordered`
    table remembers what was applied.
    """
    incomplete, memory.unsettled = memory.unsettled, []
    if isinstance(dimension.lateness, Ordered):
        _forget_beyond(memory, dimension.lateness.redelivery)
        return incomplete
    if memory.mark is None:
        return incomplete
    pins = [hold.position for hold in memory.holds.values()]
    past: set[Position] = set()
    all_truncates = _truncates(memory)
    for keys, part in _parts(memory):
        pin = _pin(part, keys, memory.mark)
        pins += [] if pin is None else [pin]
        events, later = _split(part, keys, memory.mark, pin)
        truncates = [t for t in all_truncates if _is_past(t.position, memory.mark, pin)]
        rows = {key: b.row for key in keys if (b := memory.bases.get(key)) and b.row is not None}
        folded = apply(dimension, rows, [*events, *truncates])
        if folded.incomplete:
            after = [change.event for change in part.changes.values() if not change.waiting]
            folded_on = apply(dimension, rows, [*after, *all_truncates])
            known = [event for event in events if memory.bases.keys() >= {*event.keys}]
            incomplete += [event for event in known if folded_on.is_waiting(event)]
        past |= {event.position for event in events}
        kept = {key for event in later for key in event.keys}
        if dimension.keeps_ended and len(truncates) < len(all_truncates):
            kept |= keys  # what a truncate ended, which the mark has not passed
        for key in keys:
            has_base = memory.bases.pop(key, None) is not None
            if key in kept and has_base:  # else what stands is the state: all of it waits, or left nothing
                row = folded.rows.get(key)
                memory.bases[key] = BaseRow(key, None if row is None or row.is_bare else as_fold_base(row), 0)
    pin = min(pins, default=None)
    past |= {t.position for t in all_truncates if _is_past(t.position, memory.mark, pin)}
    memory.changes = {p: change for p, change in memory.changes.items() if p not in past}
    memory.closed = {p: e for p, e in memory.closed.items() if p.mark > memory.mark}
    return incomplete


def _is_past(position: Position, mark: Mark, pin: Position | None) -> bool:
    return position.mark <= mark and (pin is None or position < pin)


def _truncates(memory: ChangeLogContents) -> list[ChangeEvent]:
    events = [change.event for change in memory.changes.values() if not change.waiting]
    return [event for event in events if event.operation is Operation.TRUNCATE]


def _chains(memory: ChangeLogContents) -> list[set[Key]]:
    """Group the remembered keys of the table's epoch by the key changes that join them."""
    links: dict[Key, set[Key]] = {key: set() for key in memory.bases}
    for change in memory.changes.values():
        if change.event.position.epoch <= memory.epoch:
            for key in change.event.keys:
                links.setdefault(key, set()).update(change.event.keys)
    return chains(links, links)


def _parts(memory: ChangeLogContents) -> Iterator[tuple[set[Key], ChangeLogContents]]:
    """Yield each chain of keys with the changes and the holds that touch it."""
    changes: dict[Key, list[Change]] = defaultdict(list)
    for change in memory.changes.values():
        for key in change.event.keys:
            changes[key].append(change)
    holds: dict[Key, list[Hold]] = defaultdict(list)
    for hold in memory.holds.values():
        for key in hold.keys:
            holds[key].append(hold)
    for keys in _chains(memory):
        part = ChangeLogContents(epoch=memory.epoch)
        part.changes = {change.event.position: change for key in keys for change in changes.get(key, ())}
        part.holds = {hold.position: hold for key in keys for hold in holds.get(key, ())}
        yield keys, part


def _pin(memory: ChangeLogContents, keys: set[Key], mark: Mark) -> Position | None:
    """The first position of the transactions that are held, wait, or are parted by the mark, on these keys.

    What does not say its transaction may be of any that committed at its time.
    """
    held = [(h.position, h.transaction) for h in memory.holds.values() if keys & set(h.keys)]
    waiting = [
        (c.event.position, c.event.transaction)
        for c in memory.changes.values()
        if c.waiting and keys & set(c.event.keys)
    ]
    transactions = {transaction for _, transaction in [*held, *waiting] if transaction is not None}
    transactions |= _parted(memory, keys, mark)
    marks = {position.mark for position, transaction in [*held, *waiting] if transaction is None}
    started = [
        c.event.position
        for c in memory.changes.values()
        if (c.event.transaction in transactions or c.event.position.mark in marks) and keys & set(c.event.keys)
    ]
    return min([position for position, _ in [*held, *waiting]] + started, default=None)


def _parted(memory: ChangeLogContents, keys: set[Key], mark: Mark) -> set[Hashable]:
    """The transactions with events of these keys on both sides of the mark."""
    spans: dict[Hashable, list[Mark]] = defaultdict(list)
    for change in memory.changes.values():
        if change.event.transaction is not None and keys & set(change.event.keys):
            spans[change.event.transaction].append(change.event.position.mark)
    return {transaction for transaction, span in spans.items() if min(span) <= mark < max(span)}


def _split(
    memory: ChangeLogContents, keys: set[Key], mark: Mark, pin: Position | None
) -> tuple[list[ChangeEvent], list[ChangeEvent]]:
    """Part the remembered events of the keys into those that are past and those that are not."""
    past: list[ChangeEvent] = []
    later: list[ChangeEvent] = []
    for change in memory.changes.values():
        if keys & set(change.event.keys) and change.event.position.epoch <= memory.epoch:
            done = not change.waiting and _is_past(change.event.position, mark, pin)
            (past if done else later).append(change.event)
    return past, later


def _forget_beyond(memory: ChangeLogContents, objects: int) -> None:
    """Forget the deletes and truncates of batches older than the last `objects` delivered."""
    seen, oldest = 0, 0
    for record in sorted(memory.records, key=lambda record: -record.batch):
        if seen >= objects:
            oldest = record.batch
            break
        seen += len(record.objects)
    memory.changes = {
        position: change for position, change in memory.changes.items() if change.waiting or change.batch > oldest
    }
