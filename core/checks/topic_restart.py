"""Detection of a topic that is made anew, where only the order of its messages says which change is newer.

A topic that was deleted, or moved to another broker, counts its offsets from 0 again. The files that a sink writes
of it lie, by their names, before those of the old one, and newer changes would be stale. Where messages tell a
place in the log of the source, that orders them (`core.checks.log_restart`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from lakeward.core.checks.log_steps import LEAST_GAP
from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import UNORDERED
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.text.numbers import format_count

TOPIC_ALARM: Final = "SEQUENCE-003"
"""The alarm of a topic that is made anew."""


class _Found(NamedTuple):
    """A file that is newer by its times than what comes behind it by its name, in words."""

    name: str
    behind: str


def refuse_topic_restart(
    table: TableName,
    objects: Sequence[ObjectFacts],
    selection: ObjectSelection,
    time: int | None,
    acked: Collection[str],
) -> None:
    """Raise AlarmRaised where files of a partition come in another order by their offsets than by their times.

    `time` is the greatest source time that the table has, in microseconds since 1970, and `acked` are the names of
    files that an operator let pass, and with them their partitions. Offsets alone order the changes of these files.
    One shows a topic that is made anew if all of its changes are newer, by a second or more, than all that the next
    file has, and it was written after that one; or if it comes late, and its changes are newer than all that the
    table has. Messages that are delivered again have older times behind newer ones as well, but their files are
    written later.
    """
    passed = {selection.partition_end(name) for name in acked}
    found = [
        one for one in _newer_below(objects, selection, time) if selection.partition_end(one.name) not in passed
    ]
    if not found:
        return
    first, *others = found
    more = f"; so does {format_count(len(others), 'other file')}" if others else ""
    raise AlarmRaised(
        "SEQUENCE-003",
        f"{table}: the offsets of a topic start over",
        found=f"by its name {first.name} comes before {first.behind}, by its times behind it{more}",
        todo="Nothing of this batch was applied; other tables go on. Was the topic made anew, or moved to another "
        "broker? Give the files of the new one another partition in their names (docs/reference/alarms.md), and "
        f"they come behind the old ones. `lakeward ack {table} {TOPIC_ALARM}` takes those of this partition in the "
        "order of their names, whatever their times.",
        about=[one.name for one in found],
    )


def _newer_below(objects: Sequence[ObjectFacts], selection: ObjectSelection, time: int | None) -> Iterator[_Found]:
    partitions: defaultdict[int, list[ObjectFacts]] = defaultdict(list)
    for item in sorted(objects, key=lambda item: item.object.order):
        end = selection.partition_end(item.object.name)
        if end is not None and item.earliest is not None and _has_no_place(item):
            partitions[end].append(item)
    for items in partitions.values():
        for item in items:
            if item.object.name in selection.late and _is_newer(item, time):
                yield _Found(item.object.name, "a file that was applied")
        for item, behind in pairwise(items):
            if _is_newer(item, behind.latest) and item.object.modified > behind.object.modified:
                yield _Found(item.object.name, behind.object.name)


def _has_no_place(item: ObjectFacts) -> bool:
    """Whether nothing but arrival orders the changes of a file."""
    bounds = (item.least, item.greatest)
    return all(bound is not None and bound.sequence in UNORDERED for bound in bounds)


def _is_newer(item: ObjectFacts, time: int | None) -> bool:
    return item.earliest is not None and time is not None and item.earliest - time >= LEAST_GAP
