"""The change log of a table: what it remembers, so that late and repeated events find the right state.

Above its low watermark a table remembers every event, and for each key its base row: the row before the first of
these events. The state of a touched key is always *its base row, then its remembered events in position order*. An
`ordered` table remembers only deletes, key changes and truncates, for its redelivery window. Its first batch drops
all other entries. Each entry is stamped with a batch. Entries stamped with a batch above that of the table were
left by a crash and are ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Self, TypeAlias

from lakeward.core.dimension import Dimension, Lateness, Ordered, Within
from lakeward.core.events import (
    LOAD_SEQUENCE,
    NO_SEQUENCE,
    READ_SEQUENCE,
    ChangeEvent,
    Key,
    Operation,
    Position,
    SourceOrder,
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
"""Reasons that hold the key, so that its later events wait. All other reasons hold nothing."""

UNPLACED = frozenset({Reason.SEQUENCE, Reason.UNREADABLE})
"""Reasons of rows whose position may be unknown. Such a row is not counted in the bounds of a batch, and is never
late.
"""


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that could not become an event, with the keys that it concerns (none where the row is unreadable).

    `detail` describes the fault where the reason alone does not.
    """

    position: Position
    reason: Reason
    keys: tuple[Key, ...] = ()
    transaction: Hashable = None
    time: int | None = None
    detail: str = ""

    @classmethod
    def of(cls, event: ChangeEvent, reason: Reason, detail: str = "") -> Self:
        """Return the reject of an event that cannot be applied."""
        return cls(event.position, reason, event.keys, event.transaction, event.time, detail)

    @property
    def has_place(self) -> bool:
        """Whether its position is known."""
        return self.reason not in UNPLACED or self.position.sequence != LOAD_SEQUENCE

    @property
    def holds(self) -> bool:
        """Whether its keys are held until an operator decides."""
        return self.reason in HOLDING


@dataclass(frozen=True, slots=True)
class Change:
    """A remembered event.

    It is `waiting` while a hold, or a full load that is not complete, keeps it from being applied.
    """

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
    """A hold on the keys of a quarantined event, until the event is repaired or discarded."""

    position: Position
    keys: tuple[Key, ...]
    reason: Reason
    batch: int
    transaction: Hashable = None

    @classmethod
    def of(cls, reject: Reject, batch: int) -> Self:
        """Return the hold of a reject of a batch."""
        return cls(reject.position, reject.keys, reject.reason, batch, reject.transaction)


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a batch.

    It is kept for ever: the low watermark is computed from it, and the ledger rebuilt from it.

    `least` and `greatest` are the bounds of the positions, `time` is the greatest source time in microseconds since
    1970. `loads` are the epochs of which the batch has rows of a full load, `loaded` is the newest epoch whose full
    load is complete with it (0: none). `truncates` are the positions of its truncates. `added` says that the table
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
        """Return True if the batch has a position of this epoch."""
        return self.least.epoch <= epoch <= self.greatest.epoch


def times_of_objects(records: Iterable[Record]) -> Mapping[int, int]:
    """Return, by the order of each object, the newest source time up to the batch in which the object came first.

    Times are microseconds since 1970. An object that came before any batch had a time is left out.
    """
    newest_times: dict[int, int | None] = {}
    newest: int | None = None
    for record in sorted(records, key=lambda record: record.batch):
        newest = max((time for time in (newest, record.time) if time is not None), default=None)
        for order in record.objects:
            newest_times.setdefault(order, newest)
    return {order: time for order, time in newest_times.items() if time is not None}


@dataclass(slots=True)
class ChangeLogContents:
    """The contents of the change log of a table as of one of its batches.

    These are all entries, or those of the keys of a batch. The port's `ChangeLogState` is the summary that is read
    before a batch, without events and base rows. `closed` are the quarantined events
    that were repaired or discarded (None). `unsettled` are events that found no row to complete; the next `trim`
    returns those that must be quarantined.
    """

    epoch: int = 1
    loaded: int = 0
    low_watermark: SourceOrder | None = None
    records: list[Record] = field(default_factory=list)
    changes: dict[Position, Change] = field(default_factory=dict)
    bases: dict[Key, BaseRow] = field(default_factory=dict)
    holds: dict[Position, Hold] = field(default_factory=dict)
    closed: dict[Position, ChangeEvent | None] = field(default_factory=dict)
    unsettled: list[ChangeEvent] = field(default_factory=list)

    @property
    def high_watermark(self) -> Position | None:
        """The high watermark: the greatest position of all batches, None before the first."""
        return max((record.greatest for record in self.records), default=None)

    @property
    def is_loading(self) -> bool:
        """Whether a full load, or an epoch that begins with one, is not complete."""
        loads = {epoch for record in self.records for epoch in record.loads}
        return max(loads, default=0) > self.loaded or bool(self.staged)

    @property
    def staged(self) -> list[Change]:
        """The events of an epoch whose full load is not complete."""
        return [change for position, change in self.changes.items() if position.epoch > self.epoch]

    def has_object(self, position: Position) -> bool:
        """Return True if the object of a position was delivered before in its epoch."""
        return any(position.object in record.objects and record.is_of(position.epoch) for record in self.records)


def next_low_watermark(memory: ChangeLogContents, lateness: Lateness) -> SourceOrder | None:
    """Return the low watermark after the committed batches.

    It is the greatest recorded (epoch, sequence) below every batch that holds an event still in time, and it does
    not pass a full load that is not complete. Batches without objects, which an operator made, do not raise it.
    Where it lies inside a transaction, `trim` stops before that transaction.
    """
    times = [record.time for record in memory.records if record.time is not None]
    if not isinstance(lateness, Within) or memory.is_loading or not times:
        return memory.low_watermark
    oldest = max(times) - lateness.micros
    in_time = min(r.least.source_order for r in memory.records if r.time is not None and r.time >= oldest)
    bounds = [bound for r in memory.records if r.objects for bound in (r.least, r.greatest)]
    recorded = {bound.source_order for bound in bounds if bound.sequence != READ_SEQUENCE}  # it passes no such row
    highest = max((order for order in recorded if order < in_time), default=None)
    return memory.low_watermark if highest is None else max(highest, memory.low_watermark or highest)


def object_watermark(
    lateness: Lateness,
    records: Iterable[Record],
    low_watermark: SourceOrder | None,
    epoch: int = 1,
    *,
    by_times: bool = False,
) -> int | None:
    """Return the order of the newest object of an epoch at or below which no new object may appear, or None.

    Of an `ordered` table that is its last object, else the last object of a batch that lies wholly at or below the
    low watermark. With `by_times` the table has changed from arrival order to commit times: no new object may
    appear among the batches from before that, because every commit time lies above them.
    """
    passed = [record for record in records if record.is_of(epoch)]
    if not isinstance(lateness, Ordered):
        timed = min((record.batch for record in passed if record.greatest.sequence > NO_SEQUENCE), default=None)
        passed = [
            record
            for record in passed
            if (low_watermark is not None and record.greatest.source_order <= low_watermark)
            or (by_times and record.greatest.sequence == NO_SEQUENCE and (timed is None or record.batch < timed))
        ]
    return max((order for record in passed for order in record.objects), default=None)


def forget_applied_events(dimension: Dimension, memory: ChangeLogContents, rows: Mapping[Key, Row | None]) -> None:
    """Remove the entries that an `ordered` table does not need, after a batch that leaves `rows`.

    Kept are waiting events, deletes, truncates and key changes. Base rows are removed too: events are not
    remembered from now on, so if the lateness became a duration again, a fold from an old base row would miss them.
    The stored row counts instead. Events that found no row to complete and that no newer row supersedes become
    `unsettled`.
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
    """Return the applied events that found no row to complete, of keys whose base row is known."""
    rows = {key: base.row for key, base in memory.bases.items() if base.row is not None}
    events = [change.event for change in memory.changes.values() if not change.waiting]
    folded = apply(dimension, rows, events)
    return [event for event in events if folded.is_waiting(event) and memory.bases.keys() >= {*event.keys}]


def _is_newer(rows: Mapping[Key, Row | None], event: ChangeEvent) -> bool:
    row = rows.get(event.key)
    return row is not None and row.position > event.position


def trim(dimension: Dimension, memory: ChangeLogContents) -> list[ChangeEvent]:
    """Fold the events at or below the low watermark into the base rows, and remove them.

    Keys joined by key changes are trimmed together. A held key pins its chain of keys: no event is folded from the
    first event of the held transaction on, and no truncate from there on. A transaction on both sides of the low
    watermark pins its keys in the same way. Returns the events that still have no row to complete. An event of a
    key without a base row is not among them: it was applied while the table was `ordered`.
    """
    incomplete, memory.unsettled = memory.unsettled, []
    if isinstance(dimension.lateness, Ordered):
        _forget_beyond(memory, dimension.lateness.redelivery)
        return incomplete
    if memory.low_watermark is None:
        return incomplete
    pins = [hold.position for hold in memory.holds.values()]
    folded: set[Position] = set()
    truncates = _truncates(memory)
    for chain in _chain_contents(memory):
        pin = _pin(*chain, memory.low_watermark)
        pins += [] if pin is None else [pin]
        events, waiting = _fold_chain(dimension, memory, chain, truncates, pin)
        folded |= {event.position for event in events}
        incomplete += waiting
    pin = min(pins, default=None)
    folded |= {t.position for t in truncates if _is_foldable(t.position, memory.low_watermark, pin)}
    memory.changes = {p: change for p, change in memory.changes.items() if p not in folded}
    memory.closed = {p: e for p, e in memory.closed.items() if p.source_order > memory.low_watermark}
    return incomplete


def _fold_chain(
    dimension: Dimension,
    memory: ChangeLogContents,
    chain: _Chain,
    all_truncates: Sequence[ChangeEvent],
    pin: Position | None,
) -> tuple[list[ChangeEvent], list[ChangeEvent]]:
    """Fold the events of a chain up to the low watermark, and before its pin, into its base rows.

    Returns these events, and those of them that still have no row to complete.
    """
    keys, contents = chain
    events, later = _split(contents, keys, memory.low_watermark, pin)
    truncates = [t for t in all_truncates if _is_foldable(t.position, memory.low_watermark, pin)]
    rows = {key: b.row for key in keys if (b := memory.bases.get(key)) and b.row is not None}
    folded = apply(dimension, rows, [*events, *truncates])
    waiting: list[ChangeEvent] = []
    if folded.incomplete:
        applied = [change.event for change in contents.changes.values() if not change.waiting]
        folded_on = apply(dimension, rows, [*applied, *all_truncates])
        with_base = [event for event in events if memory.bases.keys() >= {*event.keys}]
        waiting = [event for event in with_base if folded_on.is_waiting(event)]
    remaining_keys = {key for event in later for key in event.keys}
    if dimension.keeps_ended and len(truncates) < len(all_truncates):
        remaining_keys |= keys  # a truncate that is not folded yet has ended rows of these keys
    for key in keys:
        has_base = memory.bases.pop(key, None) is not None
        # Any other key needs no base row: its stored row is its state.
        if key in remaining_keys and has_base:
            row = folded.rows.get(key)
            memory.bases[key] = BaseRow(key, None if row is None or row.is_bare else as_fold_base(row), 0)
    return events, waiting


def _is_foldable(position: Position, low_watermark: SourceOrder | None, pin: Position | None) -> bool:
    """Return True if a position is at or below the low watermark and before the pin."""
    return low_watermark is not None and position.source_order <= low_watermark and (pin is None or position < pin)


def _truncates(memory: ChangeLogContents) -> list[ChangeEvent]:
    events = [change.event for change in memory.changes.values() if not change.waiting]
    return [event for event in events if event.operation is Operation.TRUNCATE]


def _chains(memory: ChangeLogContents) -> list[set[Key]]:
    """Group the remembered keys of the table's epoch into chains that key changes join."""
    links: dict[Key, set[Key]] = {key: set() for key in memory.bases}
    for change in memory.changes.values():
        if change.event.position.epoch <= memory.epoch:
            for key in change.event.keys:
                links.setdefault(key, set()).update(change.event.keys)
    return chains(links, links)


_Chain: TypeAlias = tuple[set[Key], ChangeLogContents]
"""Keys that key changes join, with the changes and the holds of these keys."""


def _chain_contents(memory: ChangeLogContents) -> Iterator[_Chain]:
    """Yield each chain of keys with the changes and the holds of its keys."""
    changes: dict[Key, list[Change]] = defaultdict(list)
    for change in memory.changes.values():
        for key in change.event.keys:
            changes[key].append(change)
    holds: dict[Key, list[Hold]] = defaultdict(list)
    for hold in memory.holds.values():
        for key in hold.keys:
            holds[key].append(hold)
    for keys in _chains(memory):
        contents = ChangeLogContents(epoch=memory.epoch)
        contents.changes = {change.event.position: change for key in keys for change in changes.get(key, ())}
        contents.holds = {hold.position: hold for key in keys for hold in holds.get(key, ())}
        yield keys, contents


def _pin(keys: set[Key], memory: ChangeLogContents, low_watermark: SourceOrder) -> Position | None:
    """Return the first position that must not be folded on these keys, or None.

    It is the first event of a transaction that is held, waits, or lies on both sides of the low watermark. An event
    without a transaction may belong to any transaction with its commit time.
    """
    held = [(h.position, h.transaction) for h in memory.holds.values() if keys & set(h.keys)]
    waiting = [
        (c.event.position, c.event.transaction)
        for c in memory.changes.values()
        if c.waiting and keys & set(c.event.keys)
    ]
    transactions = {transaction for _, transaction in [*held, *waiting] if transaction is not None}
    transactions |= _split_transactions(memory, keys, low_watermark)
    source_orders = {position.source_order for position, transaction in [*held, *waiting] if transaction is None}
    started = [
        c.event.position
        for c in memory.changes.values()
        if (c.event.transaction in transactions or c.event.position.source_order in source_orders)
        and keys & set(c.event.keys)
    ]
    return min([position for position, _ in [*held, *waiting]] + started, default=None)


def _split_transactions(memory: ChangeLogContents, keys: set[Key], low_watermark: SourceOrder) -> set[Hashable]:
    """Return the transactions with events of these keys on both sides of the low watermark."""
    spans: dict[Hashable, list[SourceOrder]] = defaultdict(list)
    for change in memory.changes.values():
        if change.event.transaction is not None and keys & set(change.event.keys):
            spans[change.event.transaction].append(change.event.position.source_order)
    return {transaction for transaction, span in spans.items() if min(span) <= low_watermark < max(span)}


def _split(
    memory: ChangeLogContents, keys: set[Key], low_watermark: SourceOrder | None, pin: Position | None
) -> tuple[list[ChangeEvent], list[ChangeEvent]]:
    """Return the remembered events of the keys to fold now, and those that stay."""
    to_fold: list[ChangeEvent] = []
    to_keep: list[ChangeEvent] = []
    for change in memory.changes.values():
        if keys & set(change.event.keys) and change.event.position.epoch <= memory.epoch:
            is_foldable = not change.waiting and _is_foldable(change.event.position, low_watermark, pin)
            (to_fold if is_foldable else to_keep).append(change.event)
    return to_fold, to_keep


def _forget_beyond(memory: ChangeLogContents, objects: int) -> None:
    """Remove the entries of all batches before the last ones that delivered this many objects."""
    delivered, oldest = 0, 0
    for record in sorted(memory.records, key=lambda record: -record.batch):
        if delivered >= objects:
            oldest = record.batch
            break
        delivered += len(record.objects)
    memory.changes = {
        position: change for position, change in memory.changes.items() if change.waiting or change.batch > oldest
    }
