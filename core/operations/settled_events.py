"""The events of one key that were applied or overtaken: what overtook them, and ties between them.

The cost grows with the number of events, not with its square: `core.operations.explain` is asked about busy keys,
too.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakeward.core.events import UNSET, ChangeEvent, Key, Operation, Position, same_cells
from lakeward.core.merge.counts import Verdict
from lakeward.core.operations.key_state import KeyState


@dataclass(frozen=True, slots=True)
class Settled:
    """An event that was applied or overtaken; its operation is None where only the stored row shows the event."""

    event: ChangeEvent
    batch: int | None
    settled: int
    operation: Operation | None


def settled_of(key_state: KeyState) -> tuple[list[Settled], list[Settled]]:
    """Return the settled events by position, and those that were delivered again."""
    by_position: dict[Position, Settled] = {}
    copies: list[Settled] = []
    for remembered in sorted(key_state.remembered, key=lambda remembered: remembered.batch):
        if remembered.settled is not None:
            item = Settled(remembered.event, remembered.batch, remembered.settled, remembered.event.operation)
            if by_position.setdefault(remembered.event.position, item) is not item:
                copies.append(item)
    if key_state.stored is not None and key_state.stored.row.position not in by_position:
        position = key_state.stored.row.position
        event = ChangeEvent(
            operation=Operation.INSERT, position=position, key=key_state.key, cells=key_state.stored.row.cells
        )
        operation = Operation.READ if event.is_load else None
        by_position[position] = Settled(event, key_state.stored.batch, key_state.stored.batch or 0, operation)
    return [by_position[position] for position in sorted(by_position)], copies


def find_overtaken(
    settled: Sequence[Settled], columns: Sequence[str], key: Key
) -> Mapping[Position, tuple[Verdict, Position]]:
    """Return the events that left nothing of a key: stale or superseded, with the event that overtook each.

    Events are visited from the highest position down. `earlier` has each event that came before all events above
    it, `newest` the newest event of each batch. `whole_batch` is the first batch with a newer complete event, and
    `cell_batches` has, by column, the first batch with a newer cell.
    """
    results: dict[Position, tuple[Verdict, Position]] = {}
    earlier: list[tuple[int, Position]] = []
    newest: dict[int, Position] = {}
    whole_batch: float = math.inf
    cell_batches: dict[str, int] = {}
    for item in reversed(settled):
        position = item.event.position
        index = bisect_right(earlier, -item.settled, key=lambda entry: -entry[0])
        newest_of_batch = newest.setdefault(item.settled, position)
        if whole_batch <= item.settled or _is_overwritten(item, cell_batches, columns, key):
            if index < len(earlier):
                results[position] = (Verdict.STALE, earlier[index][1])
            elif newest_of_batch != position:
                results[position] = (Verdict.SUPERSEDED, newest_of_batch)
        if not earlier or item.settled < earlier[-1][0]:
            earlier.append((item.settled, position))
        if _is_partial(item.event, columns):
            cell_batches |= {
                name: min(item.settled, cell_batches.get(name, item.settled))
                for name in _sent_columns(item.event, columns)
            }
        else:
            whole_batch = min(whole_batch, item.settled)
    return results


def _is_overwritten(item: Settled, cell_batches: Mapping[str, int], columns: Sequence[str], key: Key) -> bool:
    """Return True if each cell of an event has a newer value as of its batch."""
    if item.event.operation in (Operation.DELETE, Operation.TRUNCATE) or item.event.key != key:
        return False
    return all(cell_batches.get(name, math.inf) <= item.settled for name in _sent_columns(item.event, columns))


def _is_partial(event: ChangeEvent, columns: Sequence[str]) -> bool:
    """Return True if the result of an event depends on the row before it."""
    return event.operation is Operation.UPDATE and event.old_key is None and event.lacks(columns)


def _sent_columns(event: ChangeEvent, columns: Sequence[str]) -> list[str]:
    """Return the columns that an event sent."""
    return [name for name in columns if event.cells.get(name, UNSET) is not UNSET]


def ties(settled: Sequence[Settled]) -> Mapping[Position, tuple[Position, bool]]:
    """Return the events that only arrival puts behind another one.

    Each is given with the position of that one, and whether both have equal contents.
    """
    result: dict[Position, tuple[Position, bool]] = {}
    for previous, item in pairwise(settled):
        other, event = previous.event, item.event
        if not event.position.has_order or not event.keys:
            continue
        if other.position.source_order == event.position.source_order and other.keys == event.keys:
            is_alike = other.operation is event.operation and same_cells(other.cells, event.cells)
            result[event.position] = (other.position, is_alike)
    return result
