"""Ties: facts of one key with an equal place in the source's order and different contents.

A source without a sequence has none, because arrival is its order; nor have the rows of a full load. A fact is
compared by all its keys: changes of one transaction that move rows over each other's keys are no ties. Two deletes
of one key are equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakeward.core.dimension import Dimension, Ties
from lakeward.core.errors import SourceError
from lakeward.core.events import ChangeEvent, Key, Operation, Position, Sequences, is_sent, same_cells
from lakeward.core.merge.fold import Row


@dataclass(frozen=True, slots=True)
class Tie:
    """An event that ties with a known one, and the position of that one."""

    event: ChangeEvent
    other: Position


def ties_with(
    events: Iterable[ChangeEvent],
    remembered: Iterable[ChangeEvent],
    rows: Mapping[Key, Row],
    first_values: Collection[str] = (),
) -> list[Tie]:
    """Return the events that tie with a known event, or with an earlier one of the same delivery.

    `rows` are those of a table that does not remember the events that made them; an event with the source order of
    such a row is compared with the row alone. Columns in `first_values` have their first values.
    """
    by_place: dict[Hashable, list[ChangeEvent]] = defaultdict(list)
    for event in filter(has_order, remembered):
        by_place[place_of(event)].append(event)
    ties = []
    for event in sorted(filter(has_order, events), key=lambda event: event.position):
        others = [other.position for other in by_place[place_of(event)] if not are_alike(other, event)]
        row = row_at(rows, event)
        if row is not None and not may_come_from(row, event, first_values):
            others.append(row.position)
        if others:
            ties.append(Tie(event, min(others)))
        elif row is None:
            by_place[place_of(event)].append(event)
    return ties


def has_order(event: ChangeEvent) -> bool:
    """Whether an event has a key and a place in the source's order."""
    return bool(event.keys) and event.position.has_order


def place_of(event: ChangeEvent) -> Hashable:
    """Return what events must have in common to tie."""
    return event.position.source_order, event.keys


def are_alike(event: ChangeEvent, other: ChangeEvent) -> bool:
    """Whether two events of one place have equal contents. Of a delete only the key counts."""
    is_delete = event.operation is Operation.DELETE
    return event.operation is other.operation and (is_delete or same_cells(event.cells, other.cells))


def row_at(rows: Mapping[Key, Row], event: ChangeEvent) -> Row | None:
    """Return the stored row with the source order of an event, or None."""
    row = rows.get(event.key)
    return None if row is None or row.deleted or row.position.source_order != event.position.source_order else row


def may_come_from(row: Row, event: ChangeEvent, first_values: Collection[str]) -> bool:
    """Whether an event may have made a row. A delete makes none.

    Columns that the event lacks are not compared, nor those of `first_values`, unless they were not sent: an event
    with `UNSET` cells did not make the row alone.
    """
    if event.operation is Operation.DELETE:
        return False
    cells = {name: cell for name, cell in event.cells.items() if name not in first_values or not is_sent(cell)}
    return same_cells({name: cell for name, cell in row.cells.items() if name in cells}, cells)


def tie_detail(other: str) -> str:
    """Return the text that describes a tie with another event, which is named with its row."""
    return f"the source has one place for it and for {other}, which says something else"


def refuse_tie(dimension: Dimension, event: str, other: str) -> SourceError:
    """Return the error of a table that stops at a tie; both events are named with their rows."""
    return SourceError(
        f"{dimension.name}: two changes of one key have one place in the order of the source",
        found=f'{other} and {event}, which do not say the same; `ties = "fail"` is set',
        todo='Nothing of this batch was applied; other tables go on. Let the later row win (`ties = "arrival"`), '
        'or let a person decide (`ties = "quarantine"`); or have the source write an order that tells them apart '
        "(docs/explanation/semantics.md), and replace the file.",
    )


def cautions(dimension: Dimension) -> Sequence[str]:
    """Return a warning for a table that does not accept ties where they are normal.

    Changes of one transaction share its commit time.
    """
    becomes = {Ties.QUARANTINE: "holds its key", Ties.FAIL: "stops the table"}.get(dimension.ties)
    if becomes is None or not dimension.key or dimension.sequences is not Sequences.TIMES:
        return ()
    policy = f'with `ties = "{dimension.ties.value}"` a row that one changes twice {becomes}'
    return (f"Where commit times are the order of changes, all of a transaction share one: {policy}.",)
