"""Find the events of a delivery that came before: by their position, by their fact, or by the stored row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent, Operation, Position, same_cells
from lakeward.core.merge.change_log import Reject
from lakeward.core.merge.delivery import Delivery
from lakeward.core.merge.settling.table_before import TableBefore
from lakeward.core.merge.ties import may_come_from, row_at


def without_copies(before: TableBefore, delivery: Delivery) -> tuple[list[ChangeEvent], list[Reject], int]:
    """Return the events and the rejects that come for the first time, and the number of copies."""
    events: list[ChangeEvent] = []
    rejects: list[Reject] = []
    positions: set[Position] = set()
    copies = 0
    facts = known_facts(before)
    for event in delivery.events:
        same_fact = facts[fact(before.dimension, event)]
        if event.position in positions or is_known(before, event, same_fact, by_hand=delivery.by_hand):
            copies += 1
            continue
        positions.add(event.position)
        same_fact.append(event)
        events.append(event)
    for reject in delivery.rejects:
        if reject.position in positions or before.memory.has_object(reject.position):
            copies += 1
            continue
        positions.add(reject.position)
        rejects.append(reject)
    return events, rejects, copies


def fact(dimension: Dimension, event: ChangeEvent) -> Hashable:
    """Return the identity of a fact.

    Where sequences are unique per key, two deliveries with an equal one are copies.
    """
    if dimension.unique_sequences and not event.is_load:
        return (event.position.source_order, event.keys, event.operation)
    return event.position


def known_facts(before: TableBefore) -> defaultdict[Hashable, list[ChangeEvent]]:
    """Return the remembered events above the low watermark, by their fact.

    Below it copies are not found by their fact.
    """
    memory, facts = before.memory, defaultdict[Hashable, list[ChangeEvent]](list)
    closed = [event for event in memory.closed.values() if event is not None]
    for event in [*(change.event for change in memory.changes.values()), *closed]:
        if memory.low_watermark is None or event.position.source_order > memory.low_watermark:
            facts[fact(before.dimension, event)].append(event)
    return facts


def is_known(before: TableBefore, event: ChangeEvent, same_fact: Iterable[ChangeEvent], *, by_hand: bool) -> bool:
    """Return True if an event was delivered before. `same_fact` are the known events of its fact.

    The object does not count in an `ordered` table, because it may be delivered again within the window, nor in a
    delivery that is `by_hand`, which has no object. An `ordered` table remembers of a delete only the key.
    """
    position, memory = event.position, before.memory
    if not (before.is_ordered or by_hand) and memory.has_object(position):
        return True
    if position in memory.holds or position in memory.closed or equals_stored_row(before, event):
        return True
    is_delete = before.is_ordered and event.operation is Operation.DELETE
    return any(is_delete or same_cells(event.cells, other.cells) for other in same_fact)


def equals_stored_row(before: TableBefore, event: ChangeEvent) -> bool:
    """Whether an `ordered` table, which remembers deletes alone, has exactly the row that a complete event sends.

    Columns that the file of the event lacks are not compared.
    """
    if not (before.is_ordered and before.dimension.unique_sequences) or event.old_key is not None or event.is_load:
        return False
    row = row_at(before.rows, event)
    return row is not None and may_come_from(row, event, before.first_value_columns)
