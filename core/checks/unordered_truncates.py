"""Truncates that nothing puts into an order with rows of other partitions of a topic.

Where messages tell no place in the log of their source, their arrival orders them: the partition, then the
offset. A truncate is of one partition, and for the rows of all. So one that comes with a batch would spare the rows
of higher partitions, and one that is remembered would drop what a lower one brings later, and spare what a higher
one does, whatever it removed at the source (docs/explanation/semantics.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakeward.core.checks.log_restart import LogRestart, lift_place
from lakeward.core.errors import SourceError
from lakeward.core.events import NO_SEQUENCE, Position
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.change_log import Record
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.merge.truncates import remembered_truncates


def refuse_unordered_truncate(
    table: str,
    facts: BatchFacts,
    selection: ObjectSelection,
    applied: Iterable[SourceObject],
    records: Iterable[Record],
) -> None:
    """Raise SourceError for a truncate without a place, of a batch or before it, in a topic of several partitions.

    One that is remembered stops the table where rows of another partition come.
    """
    came, remembered = sorted(facts.truncates), remembered_truncates(records)
    if not came and not remembered:
        return
    ends = _ends(selection, [*applied, *(one.object for one in facts.objects)])
    if len(ends) < 2:
        return
    for place in came:
        if not _tells_place(place, selection.restarts):
            name = next(one.object.name for one in facts.objects if one.object.order == place.object)
            raise _refusal(table, f"row {place.row} of {name} is a truncate", ends)
    for place in remembered:
        end = next((end for end in ends if end > place.object), None)
        others = [one.object.name for one in facts.objects if selection.partition_end(one.object.name) != end]
        if others and not _tells_place(place, selection.restarts):
            raise _refusal(table, f"{others[0]} comes after a truncate of another partition", ends)


def is_ordered(
    truncate: Position, selection: ObjectSelection, applied: Iterable[SourceObject], restarts: Sequence[LogRestart]
) -> bool:
    """Whether the place of a truncate is before or behind each row of these objects, whatever its partition."""
    return len(_ends(selection, applied)) < 2 or _tells_place(truncate, restarts)


def _ends(selection: ObjectSelection, objects: Iterable[SourceObject]) -> Sequence[int]:
    """Return the orders behind the partitions that objects are of."""
    found = {selection.partition_end(item.name) for item in objects}
    return sorted(end for end in found if end is not None)


def _tells_place(truncate: Position, restarts: Sequence[LogRestart]) -> bool:
    return truncate.sequence != lift_place(truncate._replace(sequence=NO_SEQUENCE), restarts).sequence


def _refusal(table: str, what: str, ends: Sequence[int]) -> SourceError:
    return SourceError(
        f"{table}: nothing tells which rows a truncate removes",
        found=f"{what}; arrival alone orders the messages, and the topic has at least {len(ends)} partitions",
        todo="Nothing of this batch was applied; other tables go on. Let places in the log of the source order "
        "them (docs/reference/plain-files.md#messages-without-a-place), give the topic one partition, or keep "
        "truncates out at the connector (`skipped.operations`). Then load the table anew, from messages behind "
        "this one.",
    )
