"""Detect a topic that was made anew, where only the order of its messages says which change is newer.

A topic that was deleted, or moved to another broker, counts its offsets from 0 again. Files that a sink writes from
it sort by their names before those of the old topic, and newer changes would be stale. Where messages have a
position in the log of the source, that orders them (`core.checks.log_restart`).
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
"""The code of the alarm for a topic that was made anew."""


class _Regression(NamedTuple):
    """A file whose times are newer than those of `behind`, which follows it by name; both in words."""

    name: str
    behind: str


def refuse_topic_restart(
    table: TableName,
    objects: Sequence[ObjectFacts],
    selection: ObjectSelection,
    time: int | None,
    acked: Collection[str],
) -> None:
    """Raise SEQUENCE-003 where files of a partition have another order by their offsets than by their times.

    `time` is the greatest source time of the table, in microseconds since 1970. `acked` are the names of files that
    an operator acknowledged, which lets their partitions pass. Only files whose changes are ordered by offsets
    alone are checked.

    A file shows a topic that was made anew in two cases. All of its changes are newer, by a second or more, than
    those of the file behind it, and it was written after that file. Or it is late, and its changes are newer than
    all of the table. Messages that are delivered again also have older times behind newer ones, but their files are
    written later.
    """
    acknowledged_partitions = {selection.partition_end(name) for name in acked}
    regressions = [
        regression
        for regression in _find_regressions(objects, selection, time)
        if selection.partition_end(regression.name) not in acknowledged_partitions
    ]
    if not regressions:
        return
    first, *others = regressions
    more = f"; so does {format_count(len(others), 'other file')}" if others else ""
    raise AlarmRaised(
        "SEQUENCE-003",
        f"{table}: the offsets of a topic start over",
        found=f"by its name {first.name} comes before {first.behind}, by its times behind it{more}",
        todo="Nothing of this batch was applied; other tables go on. Was the topic made anew, or moved to another "
        "broker? Give the files of the new one another partition in their names (docs/reference/alarms.md), and "
        f"they come behind the old ones. `lakeward ack {table} {TOPIC_ALARM}` takes those of this partition in the "
        "order of their names, whatever their times.",
        about=[regression.name for regression in regressions],
    )


def _find_regressions(
    objects: Sequence[ObjectFacts], selection: ObjectSelection, time: int | None
) -> Iterator[_Regression]:
    """Yield the files that are newer by their times than what follows them by name."""
    partitions: defaultdict[int, list[ObjectFacts]] = defaultdict(list)
    for item in sorted(objects, key=lambda item: item.object.order):
        end = selection.partition_end(item.object.name)
        if end is not None and item.earliest is not None and _has_no_place(item):
            partitions[end].append(item)
    for items in partitions.values():
        for item in items:
            if item.object.name in selection.late and _is_newer(item, time):
                yield _Regression(item.object.name, "a file that was applied")
        for item, following in pairwise(items):
            if _is_newer(item, following.latest) and item.object.modified > following.object.modified:
                yield _Regression(item.object.name, following.object.name)


def _has_no_place(item: ObjectFacts) -> bool:
    """Return True if only arrival orders the changes of a file."""
    bounds = (item.least, item.greatest)
    return all(bound is not None and bound.sequence in UNORDERED for bound in bounds)


def _is_newer(item: ObjectFacts, time: int | None) -> bool:
    """Return True if all changes of a file are newer than `time` by `LEAST_GAP` or more."""
    return item.earliest is not None and time is not None and item.earliest - time >= LEAST_GAP
