"""Check for truncates that have no order relative to rows of other partitions of a topic.

Where messages have no position in the log of their source, arrival orders them: the partition, then the offset. A
truncate is in one partition and removes the rows of all. A truncate of the batch would keep the rows of higher
partitions. A remembered one would drop later rows of lower partitions, and keep those of higher ones, whatever it
removed at the source (docs/explanation/semantics.md).
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
    """Raise SourceError for a truncate without a log position in a topic of several partitions.

    A truncate of the batch always stops the table; a remembered one does where rows of another partition come.
    """
    new_truncates, remembered = sorted(facts.truncates), remembered_truncates(records)
    if not new_truncates and not remembered:
        return
    ends = _ends(selection, [*applied, *(item.object for item in facts.objects)])
    if len(ends) < 2:
        return
    for position in new_truncates:
        if not _has_log_place(position, selection.restarts):
            name = next(item.object.name for item in facts.objects if item.object.order == position.object)
            raise _refusal(table, f"row {position.row} of {name} is a truncate", ends)
    for position in remembered:
        end = next((end for end in ends if end > position.object), None)
        others = [item.object.name for item in facts.objects if selection.partition_end(item.object.name) != end]
        if others and not _has_log_place(position, selection.restarts):
            raise _refusal(table, f"{others[0]} comes after a truncate of another partition", ends)


def is_ordered(
    truncate: Position, selection: ObjectSelection, applied: Iterable[SourceObject], restarts: Sequence[LogRestart]
) -> bool:
    """Return True if a truncate lies before or behind each row of these objects, in every partition."""
    return len(_ends(selection, applied)) < 2 or _has_log_place(truncate, restarts)


def _ends(selection: ObjectSelection, objects: Iterable[SourceObject]) -> Sequence[int]:
    """Return the orders behind the partitions of these objects, sorted."""
    ends = {selection.partition_end(item.name) for item in objects}
    return sorted(end for end in ends if end is not None)


def _has_log_place(truncate: Position, restarts: Sequence[LogRestart]) -> bool:
    """Return True if a truncate has a position in the log of the source."""
    return truncate.sequence != lift_place(truncate._replace(sequence=NO_SEQUENCE), restarts).sequence


def _refusal(table: str, event: str, ends: Sequence[int]) -> SourceError:
    """Return the error for a truncate without an order."""
    return SourceError(
        f"{table}: nothing tells which rows a truncate removes",
        found=f"{event}; arrival alone orders the messages, and the topic has at least {len(ends)} partitions",
        todo="Nothing of this batch was applied; other tables go on. Let places in the log of the source order "
        "them (docs/reference/plain-files.md#messages-without-a-place), give the topic one partition, or keep "
        "truncates out at the connector (`skipped.operations`). Then load the table anew, from messages behind "
        "this one.",
    )
