"""The events of one key that were applied or overtaken: which, by what, and what came beside them.

For `core.operations.explain`, of busy keys, too: nothing here grows with the square of the events.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakeward.core.events import UNSET, ChangeEvent, Key, Operation, Position, same
from lakeward.core.merge.counts import Verdict
from lakeward.core.operations.key_state import Known


@dataclass(frozen=True, slots=True)
class Settled:
    """An event that was applied or overtaken; its operation is not known where only the row tells of it."""

    event: ChangeEvent
    batch: int | None
    settled: int
    operation: Operation | None


def settled_of(known: Known) -> tuple[list[Settled], list[Settled]]:
    """Return the events that were settled, by position, and the copies that came of some later."""
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
    """Return the events that left nothing of a key, with the newest of what was there or came with them."""
    found: dict[Position, tuple[Verdict, Position]] = {}
    earlier: list[tuple[int, Position]] = []  # going down, each event that came before all above it
    newest: dict[int, Position] = {}
    whole, sent = math.inf, dict[str, int]()  # the first batches that had a newer event: a whole one, a cell
    for one in reversed(settled):
        position = one.event.position
        stood = bisect_right(earlier, -one.settled, key=lambda before: -before[0])
        beside = newest.setdefault(one.settled, position)
        if whole <= one.settled or _is_overwritten(one, sent, columns, key):
            if stood < len(earlier):
                found[position] = (Verdict.STALE, earlier[stood][1])
            elif beside != position:
                found[position] = (Verdict.SUPERSEDED, beside)
        if not earlier or one.settled < earlier[-1][0]:
            earlier.append((one.settled, position))
        if _is_partial(one.event, columns):
            sent |= {name: min(one.settled, sent.get(name, one.settled)) for name in _sent(one.event, columns)}
        else:
            whole = min(whole, one.settled)
    return found


def _is_overwritten(one: Settled, sent: Mapping[str, int], columns: Sequence[str], key: Key) -> bool:
    """Whether each cell of an event has a newer one as of its batch."""
    if one.event.operation in (Operation.DELETE, Operation.TRUNCATE) or one.event.key != key:
        return False
    return all(sent.get(name, math.inf) <= one.settled for name in _sent(one.event, columns))


def _is_partial(event: ChangeEvent, columns: Sequence[str]) -> bool:
    """Whether what an event leaves is made of the row that it meets."""
    return event.operation is Operation.UPDATE and event.old_key is None and event.lacks(columns)


def _sent(event: ChangeEvent, columns: Sequence[str]) -> list[str]:
    return [name for name in columns if event.cells.get(name, UNSET) is not UNSET]


def ties(settled: Sequence[Settled]) -> Mapping[Position, tuple[Position, bool]]:
    """Return the events that arrival alone puts behind another, which, and whether they are alike."""
    found: dict[Position, tuple[Position, bool]] = {}
    for before, one in pairwise(settled):
        first, event = before.event, one.event
        if not event.position.has_order or not event.keys:
            continue
        if first.position.mark == event.position.mark and first.keys == event.keys:
            is_alike = first.operation is event.operation and same(first.cells, event.cells)
            found[event.position] = (first.position, is_alike)
    return found
