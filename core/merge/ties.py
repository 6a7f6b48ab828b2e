"""Ties: facts of one key that the source puts at one place, and that do not say the same.

A source without a sequence has none, for arrival is its order; nor have the rows of a full load. The keys of a
fact are its own: changes of one transaction that move rows over each other's keys are no ties. Two deletes say
the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakeward.core.dimension import Dimension, Ties
from lakeward.core.errors import SourceError
from lakeward.core.events import ChangeEvent, Key, Operation, Position, Sequences, is_sent, same
from lakeward.core.merge.fold import Row


@dataclass(frozen=True, slots=True)
class Tie:
    """An event that ties with another, which came before it and stands at that place."""

    event: ChangeEvent
    other: Position


def ties_with(
    came: Iterable[ChangeEvent],
    known: Iterable[ChangeEvent],
    rows: Mapping[Key, Row],
    kept: Collection[str] = (),
) -> list[Tie]:
    """Return the events that tie with one that is known, or that came with them and lies before.

    `rows` are those of a table that does not remember the events which made them: what came at the place of one
    is held against it alone. Their `kept` columns have their first values.
    """
    stand: dict[Hashable, list[ChangeEvent]] = defaultdict(list)
    for event in filter(has_order, known):
        stand[place_of(event)].append(event)
    found = []
    for event in sorted(filter(has_order, came), key=lambda event: event.position):
        others = [other.position for other in stand[place_of(event)] if not are_alike(other, event)]
        row = row_at(rows, event)
        if row is not None and not may_come_from(row, event, kept):
            others.append(row.position)
        if others:
            found.append(Tie(event, min(others)))
        elif row is None:
            stand[place_of(event)].append(event)
    return found


def has_order(event: ChangeEvent) -> bool:
    """Whether the source says of an event of a key where it lies."""
    return bool(event.keys) and event.position.has_order


def place_of(event: ChangeEvent) -> Hashable:
    """Return what events must have in common to tie."""
    return event.position.mark, event.keys


def are_alike(one: ChangeEvent, other: ChangeEvent) -> bool:
    """Whether two events of one place say the same: of a delete the key is all that counts."""
    is_delete = one.operation is Operation.DELETE
    return one.operation is other.operation and (is_delete or same(one.cells, other.cells))


def row_at(rows: Mapping[Key, Row], event: ChangeEvent) -> Row | None:
    """Return the row that stands at the place of an event, or None."""
    row = rows.get(event.key)
    return None if row is None or row.deleted or row.position.mark != event.position.mark else row


def may_come_from(row: Row, event: ChangeEvent, kept: Collection[str]) -> bool:
    """Whether a row may be what an event made of it: of a delete there is none.

    Columns that it lacks say nothing of the row, and `kept` ones do not tell what was sent of them last; with cells
    that were not sent it made none.
    """
    if event.operation is Operation.DELETE:
        return False
    sent = {name: cell for name, cell in event.cells.items() if name not in kept or not is_sent(cell)}
    return same({name: cell for name, cell in row.cells.items() if name in sent}, sent)


def tie_detail(other: str) -> str:
    """Return in words what is wrong with an event that ties with another, which is named with its row."""
    return f"the source has one place for it and for {other}, which says something else"


def refuse_tie(dimension: Dimension, one: str, other: str) -> SourceError:
    """Say that a table stops at a tie; both events are named with their rows."""
    return SourceError(
        f"{dimension.name}: two changes of one key have one place in the order of the source",
        found=f'{other} and {one}, which do not say the same; `ties = "fail"` is set',
        todo='Nothing of this batch was applied; other tables go on. Let the later row win (`ties = "arrival"`), '
        'or let a person decide (`ties = "quarantine"`); or have the source write an order that tells them apart '
        "(docs/explanation/semantics.md), and replace the file.",
    )


def cautions(dimension: Dimension) -> Sequence[str]:
    """Say of a table that does not take ties where they are normal: changes of one transaction share its time."""
    becomes = {Ties.QUARANTINE: "holds its key", Ties.FAIL: "stops the table"}.get(dimension.ties)
    if becomes is None or not dimension.key or dimension.sequences is not Sequences.TIMES:
        return ()
    policy = f'with `ties = "{dimension.ties.value}"` a row that one changes twice {becomes}'
    return (f"Where commit times are the order of changes, all of a transaction share one: {policy}.",)
