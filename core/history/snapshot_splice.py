"""Snapshots that arrive after newer ones: where one belongs in a history, and the result of inserting it.

Such a snapshot is applied as a whole, in a batch of the present epoch. No newer version is undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from lakeward.core.dimension import Dimension
from lakeward.core.errors import SourceError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, ChangeEvent, Key, Position
from lakeward.core.history.instants import instant_of_time
from lakeward.core.history.older_snapshots import SnapshotRow, SnapshotSpan, insert_snapshot
from lakeward.core.history.version_checks import violation
from lakeward.core.merge.change_log import HOLDING, ChangeLogContents, Reason, Record
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.delivery import Delivery, DeliveryResult, record_of
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.merge.fold import Row, columns_of, row_of
from lakeward.core.progress import Progress
from lakeward.core.text.numbers import format_count


def span_of(
    dimension: Dimension, facts: BatchFacts, progress: Progress, records: Sequence[Record]
) -> SnapshotSpan | None:
    """Return the span of a snapshot that arrives after newer ones, or None of any other batch.

    `records` are those of all batches of the table. Raises SourceError where the span is unknown.
    """
    history, objects = dimension.history, [item.object for item in facts.objects]
    if dimension.snapshots is None or history is None or not progress.batch or not objects:
        return None
    if facts.loaded != progress.epoch:
        return None
    applied = [record for record in records if record.objects]
    place = max(item.order for item in objects)
    following = min((r for r in applied if min(r.objects) > place), key=lambda r: min(r.objects), default=None)
    if facts.time is None:
        raise _cannot(dimension, objects[0].name, "its time is unknown: has it no row?")
    if following is None or following.time is None:
        raise _cannot(dimension, objects[0].name, "the time of the snapshot behind it is unknown")
    if any(record.truncates for record in records):
        raise _cannot(dimension, objects[0].name, "rows were taken out of the table by `lakeward truncate`")
    is_first = all(max(record.objects) >= min(item.order for item in objects) for record in applied)
    begins = instant_of_time(facts.time, history)
    if is_first and history.first_load is not None:
        begins = history.first_load
    epoch = min(record.least.epoch for record in applied if min(record.objects) > place)
    orders = {item.order for item in objects}.union(*(record.objects for record in applied))
    # The first file of a folder may come later: a folder that is applied again must not lie below its first time.
    newest = max(order for order in orders if order < min(following.objects))
    position = Position(epoch, LOAD_SEQUENCE, newest, 0)
    return SnapshotSpan(begins, instant_of_time(following.time, history), position)


def refuse_incomplete_snapshot(dimension: Dimension, facts: BatchFacts) -> None:
    """Raise SourceError where rows of an older snapshot would hold their keys.

    It is applied as a whole or not at all.
    """
    held = sum(rows for reason, rows in facts.rejects.items() if reason in HOLDING)
    unreadable = facts.rejects.get(Reason.UNREADABLE, 0)
    if held or unreadable:
        why = f"{held + unreadable:,} of its {format_count(facts.read, 'row')} cannot be applied"
        raise _cannot(dimension, facts.objects[0].object.name, why)


def refuse_broken(dimension: Dimension, facts: BatchFacts, keys: int, example: str) -> NoReturn:
    """Raise SourceError: versions of so many keys would break a rule, because others altered them."""
    found = f"versions of {format_count(keys, 'key')} were altered by others: {example}"
    raise _cannot(dimension, facts.objects[0].object.name, found)


def _cannot(dimension: Dimension, name: str, found: str) -> SourceError:
    return SourceError(
        f"{dimension.name}: {name} is older than what the table shows, and cannot be put in its place",
        found=found,
        todo="Nothing of it was applied. Write it anew, move it away, or skip older snapshots: "
        '`older_snapshots = "skip"`.',
    )


def splice(
    dimension: Dimension,
    rows: Mapping[Key, Row],
    memory: ChangeLogContents,
    delivery: Delivery,
    span: SnapshotSpan,
    facts: BatchFacts,
) -> DeliveryResult:
    """Return the result of inserting a snapshot between others. Of several rows of one key the last counts."""
    columns = columns_of(dimension)
    if columns is None:
        raise ValueError(f"{dimension.name} keeps no versions")
    load = {event.key: event for event in sorted(delivery.events, key=lambda event: event.position)}
    after: dict[Key, Row | None] = {}
    violations = []
    for key in {**rows, **load}:
        before = rows[key].versions if key in rows else ()
        versions = insert_snapshot(columns, before, _row(dimension, load.get(key)), span)
        if versions != before:
            after[key] = row_of(versions) if versions else None
        if (broken := violation(columns, versions)) is not None and dimension.history is not None:
            violations.append(broken.describe(dimension.history.validity_columns))
    if violations:
        refuse_broken(dimension, facts, len(violations), min(violations))
    rejects, events = [*delivery.rejects], len(delivery.events)
    return DeliveryResult(
        rows=after,
        changes=[],
        bases=[],
        holds=[],
        closed={},
        rejects=rejects,
        record=record_of(delivery),
        counts=Counts(read=events + len(rejects), quarantined=len(rejects), applied=events),
        epoch=memory.epoch,
        loaded=memory.loaded,
        replaces=False,
    )


def _row(dimension: Dimension, event: ChangeEvent | None) -> SnapshotRow | None:
    """Return the row that a snapshot has of a key, or None. Cells that were not sent are NULL."""
    if event is None:
        return None
    cells = {name: event.cells.get(name, UNSET) for name in dimension.schema.names}
    return SnapshotRow(
        {name: None if value is UNSET else value for name, value in cells.items()}, event.position.row
    )
