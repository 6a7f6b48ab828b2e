"""What became of one key, and why: `explain` makes a story of what a table knows of it.

The steps are in the order in which the table took the events in: batch by batch, and by
position within a batch. This is for a person who asks about a key; it is no data path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from lakeward.core.counts import Verdict
from lakeward.core.dimension import Dimension
from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Operation, Position, canonical, same
from lakeward.core.fold import Fold, Row
from lakeward.core.known import Known, Refused, Remembered

Changes: TypeAlias = Mapping[str, tuple[Cell, Cell]]
"""Cells by column, as they were and as they are; `UNSET` where there was none, or nobody knows."""

_BEFORE_ALL: Final = Position(-1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one event did to the key.

    `operation` is None where only the row that stands tells of the event. `batch` brought it,
    `settled` is the batch that applied it or found it overtaken; None where that is not known,
    or has not come. `by` is what overtook it, what it is a copy of, or what it waits for. The
    event before it at the same place of the source's order is `tie` where it has other
    contents, `alike` where it has the same. `unset` are columns that were not sent.
    """

    position: Position
    operation: Operation | None
    verdict: Verdict
    batch: int | None
    settled: int | None = None
    time: int | None = None
    key: Key = ()
    old_key: Key | None = None
    by: Position | None = None
    tie: Position | None = None
    alike: Position | None = None
    changes: Changes = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """The steps in order. Where the row that stands does not follow from them, they are not `whole`."""

    steps: Sequence[Step]
    is_whole: bool


def explain(dimension: Dimension, known: Known) -> Explained:
    """Work out what each known event of a key did."""
    return _Story(dimension, known).told()


@dataclass(frozen=True, slots=True)
class _Settled:
    """An event that was applied or overtaken; its operation is not known where only the row tells of it."""

    event: ChangeEvent
    batch: int | None
    settled: int
    operation: Operation | None


class _Story:
    def __init__(self, dimension: Dimension, known: Known) -> None:
        self.dimension = dimension
        self.columns = dimension.schema.names
        self.known = known
        self.settled, self.copies = _settled(known)
        moves = any(one.event.old_key is not None for one in self.settled)
        self.is_simple = not moves and not any(self.is_partial(one.event) for one in self.settled)
        self.changed, self.row, self.incomplete = self.changes()
        self.overtaken_by, self.beside = self.overtaken(), self.ties()

    def is_partial(self, event: ChangeEvent) -> bool:
        """Whether what an event leaves is made of the row that it meets."""
        return event.operation is Operation.UPDATE and event.old_key is None and event.lacks(self.columns)

    def told(self) -> Explained:
        told = [(one.settled, self.step(one)) for one in self.settled]
        told += [(one.settled, self.copy(one)) for one in self.copies]
        told += [(one.batch, self.wait(one)) for one in self.known.remembered if one.settled is None]
        told += [(refused.batch, _refused(refused)) for refused in self.known.refused]
        stands = None if self.row is None or self.row.position == _BEFORE_ALL else self.row.position
        stored = None if self.known.stored is None else self.known.stored.row.position
        steps = [step for _, step in sorted(told, key=lambda one: (one[0], one[1].position))]
        return Explained(steps, stands == stored)

    # What each event changed.

    def changes(self) -> tuple[Mapping[Position, Changes], Row | None, Collection[Position]]:
        """Return what each event changed when it came, the row in the end, and what stayed incomplete."""
        key, found, taken, newest = self.known.key, dict[Position, Changes](), list[ChangeEvent](), _BEFORE_ALL
        fold = self.fold(())
        for one in sorted(self.settled, key=lambda one: (one.settled, one.event.position)):
            before = fold.live(key)
            taken.append(one.event)
            if one.event.position > newest:
                newest = one.event.position
                self.take(fold, one.event)
            elif not self.is_simple:  # else it is overtaken whole
                fold = self.fold(taken)
            found[one.event.position] = _differences(before, fold.live(key), self.columns)
        return found, fold.live(key), {event.position for event in taken if fold.result.is_waiting(event)}

    def fold(self, events: Iterable[ChangeEvent]) -> Fold:
        """Fold events over the row that stood before them."""
        base = self.known.base
        before = self.unknown if base is None else base.row
        fold = Fold(self.dimension, {} if before is None else {self.known.key: before})
        for event in sorted(events, key=lambda event: event.position):
            self.take(fold, event)
        return fold

    def take(self, fold: Fold, event: ChangeEvent) -> None:
        """Fold one event more. What stands of the other key of a key change nobody knows."""
        for key in event.keys:
            if key != self.known.key and fold.live(key) is None:
                fold.rows[key] = self.unknown
        fold.take(event)

    @property
    def unknown(self) -> Row:
        """A row that stands for one that nobody knows."""
        return Row(dict.fromkeys(self.columns, UNSET), _BEFORE_ALL)

    # What was overtaken, and by what.

    def overtaken(self) -> Mapping[Position, tuple[Verdict, Position]]:
        """Return the events that left nothing, with the newest of what was there or came with them."""
        found: dict[Position, tuple[Verdict, Position]] = {}
        earlier: list[tuple[int, Position]] = []  # going down, each event that came before all above it
        newest: dict[int, Position] = {}
        for index in reversed(range(len(self.settled))):
            one = self.settled[index]
            position = one.event.position
            stood = next((above for batch, above in earlier if batch < one.settled), None)
            beside = newest.setdefault(one.settled, position)
            if self.leaves_nothing(index):
                if stood is not None:
                    found[position] = (Verdict.STALE, stood)
                elif beside != position:
                    found[position] = (Verdict.SUPERSEDED, beside)
            if not earlier or one.settled < earlier[-1][0]:
                earlier.append((one.settled, position))
        return found

    def leaves_nothing(self, index: int) -> bool:
        """Whether an event shows nowhere in the row once all that is newer, as of its batch, has its say."""
        one = self.settled[index]
        left = {name for name in self.columns if one.event.cells.get(name, UNSET) is not UNSET}
        removes = one.event.operation in (Operation.DELETE, Operation.TRUNCATE) or one.event.key != self.known.key
        for later in self.settled[index + 1 :]:
            if later.settled > one.settled:
                continue
            if not self.is_partial(later.event):
                return True
            left -= {name for name, value in later.event.cells.items() if value is not UNSET}
            if not left and not removes:
                return True
        return False

    def ties(self) -> Mapping[Position, tuple[Position, bool]]:
        """Return the events that arrival alone puts behind another, which, and whether they are alike."""
        found: dict[Position, tuple[Position, bool]] = {}
        for before, one in zip(self.settled, self.settled[1:], strict=False):
            first, event = before.event, one.event
            if event.is_load or not event.position.sequence or not event.keys:
                continue
            if first.position.mark == event.position.mark and first.keys == event.keys:
                is_alike = first.operation is event.operation and same(first.cells, event.cells)
                found[event.position] = (first.position, is_alike)
        return found

    # The steps.

    def step(self, one: _Settled) -> Step:
        position = one.event.position
        verdict, by = self.overtaken_by.get(position, (Verdict.APPLIED, None))
        if position in self.incomplete:
            verdict, by = Verdict.WAITING, None
        other, is_alike = self.beside.get(position, (None, False))
        return replace(
            self.of(one.event, verdict, one.batch, by),
            operation=one.operation,
            settled=one.settled or None,
            tie=None if is_alike else other,
            alike=other if is_alike else None,
            changes=self.changed[position],
        )

    def copy(self, one: _Settled) -> Step:
        copied = self.of(one.event, Verdict.DUPLICATE, one.batch, one.event.position)
        return replace(copied, operation=one.operation, settled=one.settled, unset=())

    def wait(self, one: Remembered) -> Step:
        """Return the step of an event that waits for what is held below it, or for its load.

        A key change that waits holds its keys, too.
        """
        event = one.event
        held = [refused.position for refused in self.known.refused if refused.is_holding]
        held += [
            o.event.position for o in self.known.remembered if o.settled is None and o.event.old_key is not None
        ]
        by = max((position for position in held if position < event.position), default=None)
        cells = {name: _without_unsent(event.cells.get(name, UNSET)) for name in self.columns}
        sent = {name: (UNSET, value) for name, value in cells.items() if value is not UNSET}
        return replace(self.of(event, Verdict.WAITING, one.batch, by), changes=sent)

    def of(self, event: ChangeEvent, verdict: Verdict, batch: int | None, by: Position | None) -> Step:
        """Return a step with what the event says of itself."""
        return Step(
            position=event.position,
            operation=event.operation,
            verdict=verdict,
            batch=batch,
            time=event.time,
            key=event.key,
            old_key=event.old_key,
            by=by,
            unset=self.unset(event),
        )

    def unset(self, event: ChangeEvent) -> tuple[str, ...]:
        if event.operation in (Operation.DELETE, Operation.TRUNCATE):
            return ()
        return tuple(path for name in self.columns for path in _not_sent(name, event.cells.get(name, UNSET)))


def _settled(known: Known) -> tuple[list[_Settled], list[_Settled]]:
    """Return the events that were settled, by position, and the copies that came of some later."""
    first: dict[Position, _Settled] = {}
    copies: list[_Settled] = []
    for found in sorted(known.remembered, key=lambda found: found.batch):
        if found.settled is not None:
            one = _Settled(found.event, found.batch, found.settled, found.event.operation)
            if first.setdefault(found.event.position, one) is not one:
                copies.append(one)
    if known.stored is not None and known.stored.row.position not in first:
        position = known.stored.row.position
        event = ChangeEvent(
            operation=Operation.INSERT, position=position, key=known.key, cells=known.stored.row.cells
        )
        operation = Operation.READ if event.is_load else None
        first[position] = _Settled(event, known.stored.batch, known.stored.batch or 0, operation)
    return [first[position] for position in sorted(first)], copies


def _differences(before: Row | None, after: Row | None, columns: Sequence[str]) -> Changes:
    if after is None:
        return {}
    old = {} if before is None else before.cells
    pairs = {name: (old.get(name, UNSET), after.cells.get(name, UNSET)) for name in columns}
    return {
        name: (was, is_)
        for name, (was, is_) in pairs.items()
        if is_ is not UNSET and (was is UNSET or canonical(was) != canonical(is_))
    }


def _refused(refused: Refused) -> Step:
    return Step(
        position=refused.position,
        operation=refused.operation,
        verdict=Verdict.QUARANTINED,
        batch=refused.batch,
        time=refused.time,
        refused=refused,
    )


def _without_unsent(value: Cell) -> Cell:
    if not isinstance(value, Mapping):
        return value
    return {name: _without_unsent(part) for name, part in value.items() if part is not UNSET}


def _not_sent(path: str, value: Cell) -> Iterator[str]:
    """Name a cell that was not sent, or the fields within one, by their path."""
    if value is UNSET:
        yield path
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _not_sent(f"{path}.{name}", part)
