"""What of a delivery is there already: copies, known by their place, by their fact, or by the row that stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent, Operation, Position, same
from lakeward.core.merge.change_log import Reject
from lakeward.core.merge.delivery import Delivery
from lakeward.core.merge.settling.table_before import TableBefore
from lakeward.core.merge.ties import may_come_from, row_at


def without_copies(before: TableBefore, delivery: Delivery) -> tuple[list[ChangeEvent], list[Reject], int]:
    """Return the events and the rejects that come for the first time, and how many were copies."""
    events: list[ChangeEvent] = []
    rejects: list[Reject] = []
    places: set[Position] = set()
    copies = 0
    facts = known_facts(before)
    for event in delivery.events:
        same_fact = facts[fact(before.dimension, event)]
        if event.position in places or is_known(before, event, same_fact, by_hand=delivery.by_hand):
            copies += 1
            continue
        places.add(event.position)
        same_fact.append(event)
        events.append(event)
    for reject in delivery.rejects:
        if reject.position in places or before.memory.has_object(reject.position):
            copies += 1
            continue
        places.add(reject.position)
        rejects.append(reject)
    return events, rejects, copies


def fact(dimension: Dimension, event: ChangeEvent) -> Hashable:
    """Return what makes two deliveries the same fact, where the sequence is unique per key."""
    if dimension.unique_sequences and not event.is_load:
        return (event.position.mark, event.keys, event.operation)
    return event.position


def known_facts(before: TableBefore) -> defaultdict[Hashable, list[ChangeEvent]]:
    """Return the events above the mark by their fact: at or below it a copy is not known by that."""
    memory, facts = before.memory, defaultdict[Hashable, list[ChangeEvent]](list)
    closed = [event for event in memory.closed.values() if event is not None]
    for event in [*(change.event for change in memory.changes.values()), *closed]:
        if memory.mark is None or event.position.mark > memory.mark:
            facts[fact(before.dimension, event)].append(event)
    return facts


def is_known(before: TableBefore, event: ChangeEvent, same_fact: Iterable[ChangeEvent], *, by_hand: bool) -> bool:
    """Whether an event was delivered before, or stands; `same_fact` are those known of its fact.

    An `ordered` table does not go by the object, for a delivery that comes again has a window; nor does what is
    `by_hand`, which is of none. Of a delete the former remembers the key alone.
    """
    position, memory = event.position, before.memory
    if not (before.is_ordered or by_hand) and memory.has_object(position):
        return True
    if position in memory.holds or position in memory.closed or equals_stored_row(before, event):
        return True
    is_delete = before.is_ordered and event.operation is Operation.DELETE
    return any(is_delete or same(event.cells, other.cells) for other in same_fact)


def equals_stored_row(before: TableBefore, event: ChangeEvent) -> bool:
    """Whether an `ordered` table, which remembers deletes alone, has the very row that a whole event sends.

    What its file has no column for says nothing of it.
    """
    if not (before.is_ordered and before.dimension.unique_sequences) or event.old_key is not None or event.is_load:
        return False
    row = row_at(before.rows, event)
    return row is not None and may_come_from(row, event, before.kept)
