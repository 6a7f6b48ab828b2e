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
from lakeward.core.operations.key_state import Known


@dataclass(frozen=True, slots=True)
class Settled:
    """An event that was applied or overtaken; its operation is None where only the stored row shows the event."""

    event: ChangeEvent
    batch: int | None
    settled: int
    operation: Operation | None


def settled_of(known: Known) -> tuple[list[Settled], list[Settled]]:
    """Return the settled events by position, and those that were delivered again."""
    first: dict[Position, Settled] = {}
    copies: list[Settled] = []
    for found in sorted(known.remembered, key=lambda found: found.batch):
        if found.settled is not None:
            one = Settled(found.event, found.batch, found.settled, found.event.operation)
            if first.setdefault(found.event.position, one) is not one:
                copies.append(one)
    if known.stored is not None and known.stored.row.position not in first:
        position = known.stored.row.position
        event = ChangeEvent(
            operation=Operation.INSERT, position=position, key=known.key, cells=known.stored.row.cells
        )
        operation = Operation.READ if event.is_load else None
        first[position] = Settled(event, known.stored.batch, known.stored.batch or 0, operation)
    return [first[position] for position in sorted(first)], copies


def overtaken(
    settled: Sequence[Settled], columns: Sequence[str], key: Key
) -> Mapping[Position, tuple[Verdict, Position]]:
    """Return the events that left nothing of a key: stale or superseded, with the event that overtook each."""
    results: dict[Position, tuple[Verdict, Position]] = {}
    earlier: list[
        tuple[int, Position]
    ] = []  # from the highest position down: each event that came before all above it
    newest: dict[int, Position] = {}
    whole, sent = (
        math.inf,
        dict[str, int](),
    )  # the first batch with a newer whole event; with a newer cell, by column
    for one in reversed(settled):
        position = one.event.position
        place = bisect_right(earlier, -one.settled, key=lambda before: -before[0])
        newest_of_batch = newest.setdefault(one.settled, position)
        if whole <= one.settled or _is_overwritten(one, sent, columns, key):
            if place < len(earlier):
                results[position] = (Verdict.STALE, earlier[place][1])
            elif newest_of_batch != position:
                results[position] = (Verdict.SUPERSEDED, newest_of_batch)
        if not earlier or one.settled < earlier[-1][0]:
            earlier.append((one.settled, position))
        if _is_partial(one.event, columns):
            sent |= {name: min(one.settled, sent.get(name, one.settled)) for name in _sent(one.event, columns)}
        else:
            whole = min(whole, one.settled)
    return results


def _is_overwritten(one: Settled, sent: Mapping[str, int], columns: Sequence[str], key: Key) -> bool:
    """Return True if each cell of an event has a newer value as of its batch."""
    if one.event.operation in (Operation.DELETE, Operation.TRUNCATE) or one.event.key != key:
        return False
    return all(sent.get(name, math.inf) <= one.settled for name in _sent(one.event, columns))


def _is_partial(event: ChangeEvent, columns: Sequence[str]) -> bool:
    """Return True if the result of an event depends on the row before it."""
    return event.operation is Operation.UPDATE and event.old_key is None and event.lacks(columns)


def _sent(event: ChangeEvent, columns: Sequence[str]) -> list[str]:
    """Return the columns that an event sent."""
    return [name for name in columns if event.cells.get(name, UNSET) is not UNSET]


def ties(settled: Sequence[Settled]) -> Mapping[Position, tuple[Position, bool]]:
    """Return the events that only arrival puts behind another one.

    Each is given with the position of that one, and whether both have equal contents.
    """
    result: dict[Position, tuple[Position, bool]] = {}
    for before, one in pairwise(settled):
        first, event = before.event, one.event
        if not event.position.has_order or not event.keys:
            continue
        if first.position.mark == event.position.mark and first.keys == event.keys:
            is_alike = first.operation is event.operation and same_cells(first.cells, event.cells)
            result[event.position] = (first.position, is_alike)
    return result
