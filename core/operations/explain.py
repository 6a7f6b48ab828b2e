"""Explain the row of one key: what each known event did to it, and why.

Steps are in the order in which the table took the events in: batch by batch, and by position within a batch. This
is for a person who asks about a key, not for the processing of batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeAlias

from lakeward.core.dimension import Dimension
from lakeward.core.events import UNSET, Cell, ChangeEvent, Key, Operation, Position, canonical
from lakeward.core.merge.counts import Verdict
from lakeward.core.merge.effects import REMOVED, Cells, Effect, Effects, effect_of
from lakeward.core.merge.fold import Fold, Row, columns_of
from lakeward.core.operations.key_state import KeyState, QuarantinedRow, Remembered
from lakeward.core.operations.settled_events import Settled, find_overtaken, settled_of, ties

Changes: TypeAlias = Mapping[str, tuple[Cell, Cell]]
"""Cells by column, before and after; `UNSET` where there was none or it is not known."""

_BEFORE_ALL: Final = Position(-1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one event did to the key.

    `operation` is None where only the stored row shows the event. `batch` is the batch that brought it, `settled`
    the batch that applied it or found it stale or superseded; None where that is not known or has not happened.
    `by` is the event that overtook it, that it is a duplicate of, or that it waits for; in a history, where no
    event is overtaken, it is a newer event that was there before it. `tie` is the event before it at the same
    position of the source's order, with other contents; `alike` is such an event with equal contents. `unset` are
    columns that were not sent. `first_values` are columns that changed, and whose first value the table keeps
    showing (kind 0).
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
    first_values: tuple[str, ...] = ()
    quarantined: QuarantinedRow | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps in order. `is_whole` is False where the stored row does not follow from them."""

    steps: Sequence[Step]
    is_whole: bool


def explain(dimension: Dimension, key_state: KeyState) -> Explanation:
    """Explain what each known event of a key did; in a history, compared with the row as it was at that time."""
    return _Explanation(dimension, key_state).explained()


class _Explanation:
    """Works out the steps of one key."""

    def __init__(self, dimension: Dimension, key_state: KeyState) -> None:
        self.dimension = replace(dimension, history=None)
        self.keeps_versions = dimension.history is not None
        versions = columns_of(dimension)
        self.first = () if versions is None else versions.first_values
        self.columns = dimension.schema.names
        self.key_state = key_state
        self.settled, self.copies = settled_of(key_state)
        self.changed, self.row, self.incomplete = self.changes()
        self.overtaken_by = find_overtaken(self.settled, self.columns, key_state.key)
        self.tied, self.barriers = ties(self.settled), _barriers(key_state)

    def explained(self) -> Explanation:
        """Return all steps in order."""
        steps = [(item.settled, self.step(item)) for item in self.settled]
        steps += [(item.settled, self.copy(item)) for item in self.copies]
        steps += [(item.batch, self.wait(item)) for item in self.key_state.remembered if item.settled is None]
        steps += [(refused.batch, _quarantined_step(refused)) for refused in self.key_state.quarantined]
        last_position = None if self.row is None or self.row.position == _BEFORE_ALL else self.row.position
        stored = None if self.key_state.stored is None else self.key_state.stored.row.position
        ordered = [step for _, step in sorted(steps, key=lambda item: (item[0], item[1].position))]
        return Explanation(ordered, last_position == stored)

    # What each event changed.

    def changes(self) -> tuple[Mapping[Position, Changes], Row | None, Collection[Position]]:
        """Return what each event changed when it came, the last row, and the positions of incomplete events.

        In a history it is what each event changed of the row before it in position order, whenever it came.
        """
        events = [item.event for item in self.settled]
        order = list(range(len(events)))
        if not self.keeps_versions:
            order.sort(key=lambda index: self.settled[index].settled)
        moves = any(event.old_key is not None for event in events)
        rows = self.folded(events, order) if moves else self.composed(events, order)
        changes = {
            events[index].position: _differences(before, after, self.columns)
            for index, (before, after) in zip(order, pairwise(rows), strict=True)
        }
        fold = self.fold(events)
        return changes, fold.live(self.key_state.key), {e.position for e in events if fold.result.is_waiting(e)}

    def composed(self, events: Sequence[ChangeEvent], order: Sequence[int]) -> Iterator[Cells | None]:
        """Yield the row before any event came, and after each event that came."""
        base = self.unknown if self.key_state.base is None else self.key_state.base.row
        is_row = base is not None and not base.deleted
        effects = Effects(
            Effect(base.cells, replaces=True) if base is not None and is_row else REMOVED, len(events)
        )
        yield effects.row
        for index in order:
            if base is None or base.position < events[index].position:
                effects.put(index, effect_of(events[index], self.columns))
            yield effects.row

    def folded(self, events: Sequence[ChangeEvent], order: Sequence[int]) -> Iterator[Cells | None]:
        """Yield the same rows where keys change.

        The effect of a late event then depends on other keys and transactions.
        """
        fold, applied, newest = self.fold(()), list[ChangeEvent](), _BEFORE_ALL
        yield _cells(fold.live(self.key_state.key))
        for index in order:
            applied.append(events[index])
            if events[index].position > newest:
                newest = events[index].position
                self.take(fold, events[index])
            else:
                fold = self.fold(applied)
            yield _cells(fold.live(self.key_state.key))

    def fold(self, events: Iterable[ChangeEvent]) -> Fold:
        """Fold events over the row before them."""
        base = self.key_state.base
        start = self.unknown if base is None else base.row
        fold = Fold(self.dimension, {} if start is None else {self.key_state.key: start})
        for event in sorted(events, key=lambda event: event.position):
            self.take(fold, event)
        return fold

    def take(self, fold: Fold, event: ChangeEvent) -> None:
        """Fold one more event. The row of the other key of a key change is not known."""
        for key in event.keys:
            if key != self.key_state.key and fold.live(key) is None:
                fold.rows[key] = self.unknown
        fold.take(event)

    @property
    def unknown(self) -> Row:
        """A row whose cells are not known."""
        return Row(dict.fromkeys(self.columns, UNSET), _BEFORE_ALL)

    # The steps.

    def step(self, item: Settled) -> Step:
        """Return the step of an event that was applied or overtaken."""
        position = item.event.position
        verdict, by = self.overtaken_by.get(position, (Verdict.APPLIED, None))
        if self.keeps_versions:
            verdict, by = Verdict.APPLIED, by if verdict is Verdict.STALE else None
        changes: Changes = {**self.changed[position], **self.moved_cells(item.event)}
        if position in self.incomplete:
            verdict, by, changes = Verdict.WAITING, None, self.sent_cells(item.event)
        other, is_alike = self.tied.get(position, (None, False))
        return replace(
            self.of(item.event, verdict, item.batch, by),
            operation=item.operation,
            settled=item.settled or None,
            tie=None if is_alike else other,
            alike=other if is_alike else None,
            changes=changes,
            first_values=tuple(name for name in self.first if changes.get(name, (UNSET,))[0] is not UNSET),
        )

    def copy(self, item: Settled) -> Step:
        """Return the step of an event that was delivered again."""
        duplicate = self.of(item.event, Verdict.DUPLICATE, item.batch, item.event.position)
        return replace(duplicate, operation=item.operation, settled=item.settled, unset=())

    def wait(self, item: Remembered) -> Step:
        """Return the step of an event that waits for a held key before it, or for its load."""
        event = item.event
        below = bisect_left(self.barriers, event.position)
        by = self.barriers[below - 1] if below else None
        return replace(self.of(event, Verdict.WAITING, item.batch, by), changes=self.sent_cells(event))

    def sent_cells(self, event: ChangeEvent) -> Changes:
        """Return the cells of an event that has found no row to change yet."""
        cells = {name: _without_unsent(event.cells.get(name, UNSET)) for name in self.columns}
        return {name: (UNSET, value) for name, value in cells.items() if value is not UNSET}

    def moved_cells(self, event: ChangeEvent) -> Changes:
        """Return the cells that a row took along from the key it left.

        They are known as long as the stored row is that of the event.
        """
        stored = self.key_state.stored
        if stored is None or stored.row.position != event.position or event.old_key in (None, self.key_state.key):
            return {}
        moved = [name for name in self.columns if event.cells.get(name, UNSET) is UNSET]
        return {name: (UNSET, stored.row.cells[name]) for name in moved if name in stored.row.cells}

    def of(self, event: ChangeEvent, verdict: Verdict, batch: int | None, by: Position | None) -> Step:
        """Return a step with what the event itself says."""
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
        """Return the paths of cells that the event did not send."""
        if event.operation in (Operation.DELETE, Operation.TRUNCATE):
            return ()
        return tuple(path for name in self.columns for path in _not_sent(name, event.cells.get(name, UNSET)))


def _barriers(key_state: KeyState) -> list[Position]:
    """Return the positions at which the key is held, sorted; a key change that waits holds its keys, too."""
    held = [refused.position for refused in key_state.quarantined if refused.is_holding]
    moves = [item.event for item in key_state.remembered if item.settled is None and item.event.old_key is not None]
    return sorted([*held, *(event.position for event in moves)])


def _cells(row: Row | None) -> Cells | None:
    """Return the cells of a row, or None."""
    return None if row is None else row.cells


def _differences(before: Cells | None, after: Cells | None, columns: Sequence[str]) -> Changes:
    """Return the cells that changed between two rows."""
    if after is None:
        return {}
    pairs = {name: ((before or {}).get(name, UNSET), after.get(name, UNSET)) for name in columns}
    return {
        name: (old, new)
        for name, (old, new) in pairs.items()
        if new is not UNSET and (old is UNSET or canonical(old) != canonical(new))
    }


def _quarantined_step(refused: QuarantinedRow) -> Step:
    """Return the step of a row in quarantine."""
    return Step(
        position=refused.position,
        operation=refused.operation,
        verdict=Verdict.QUARANTINED,
        batch=refused.batch,
        time=refused.time,
        quarantined=refused,
    )


def _without_unsent(value: Cell) -> Cell:
    """Return a value without the fields that were not sent."""
    if not isinstance(value, Mapping):
        return value
    return {name: _without_unsent(part) for name, part in value.items() if part is not UNSET}


def _not_sent(path: str, value: Cell) -> Iterator[str]:
    """Yield the path of a cell that was not sent, or of such fields within it."""
    if value is UNSET:
        yield path
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _not_sent(f"{path}.{name}", part)
