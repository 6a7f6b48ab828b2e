"""Partial events that wait for their row, found in the change log without Spark.

For keys without key changes, the newest complete event before a partial one says whether there is a row. That is
computed by columns, however many events there are. The few keys joined by key changes are folded in plain Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.formats.shared.change_log.entries import (
    BASE,
    BATCH,
    CHANGE,
    DELETE,
    KIND,
    OLD_RECORD,
    RECORD,
)
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.rows.system_columns import position_of
from lakeward.adapters.spark.history.version_rows import ENDS
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import DELETED, Dimension, Ordered
from lakeward.core.events import UNSET, ChangeEvent, Key, Operation, Position
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.fold import Row, apply
from lakeward.core.ports import Entry
from lakeward.core.progress import Progress

_PLACE: Final = (names.SEQUENCE, names.OBJECT, names.ROW)
_COLUMNS: Final = (
    *(KIND, names.EPOCH, *_PLACE, names.BATCH, names.OPERATION, names.TIME),
    *(RECORD, OLD_RECORD, names.UNSET, names.TRANSACTION),
)
_IS_PART, _LEAVES, _NEWEST = "is_part", "leaves", "found_"
"""Columns added to events: whether one is partial, whether it leaves a row; and the prefix for the newest event."""


def incomplete_of(change_log: ChangeLogTable, progress: Progress) -> Sequence[Entry]:
    """Return the events that wait for their row as of the table's batch, oldest first."""
    if not change_log.has_parts or isinstance(change_log.dimension.lateness, Ordered):
        return []
    change_log.batches.objects(progress)
    return _waiting(change_log, progress, f"{names.BATCH} <= {progress.batch} and {change_log.counts}")


def unsettled_of(change_log: ChangeLogTable, progress: Progress) -> Sequence[Entry]:
    """Return the events that waited for their row when the table became `ordered`, and were not reported yet."""
    change_log.batches.objects(progress)
    if not (change_log.batches.ordered_until and change_log.has_parts):
        return []
    if not change_log.table.rows(change_log.outdated_entries, (KIND,)).num_rows:
        return []
    return _waiting(change_log, progress, f"{names.BATCH} <= {change_log.batches.ordered_until}")


def _waiting(change_log: ChangeLogTable, progress: Progress, among: str) -> Sequence[Entry]:
    """Return the partial events among some entries that find no row in these entries."""
    condition = f"{KIND} in ('{CHANGE}', '{DELETE}', '{BASE}') and {names.EPOCH} = {progress.epoch} and {among}"
    rows = change_log.table.rows(condition, (*_COLUMNS, *_end_columns(change_log.dimension)))
    rows = _after_truncate(max(change_log.batches.truncates, default=None), _with_flags(_live_rows(rows)))
    key_changes = rows.filter(pc.is_valid(rows[OLD_RECORD]))
    changed_keys = [*key_changes[RECORD].to_pylist(), *key_changes[OLD_RECORD].to_pylist()]
    is_joined = pc.is_in(rows[RECORD], value_set=pa.array(changed_keys, rows.schema.field(RECORD).type))
    waiting = _without_row(rows.filter(pc.invert(is_joined))).to_pylist()
    mirror = replace(change_log.dimension, history=None)
    waiting += _fold_in_order(mirror, rows.filter(is_joined).to_pylist())
    return _entries(change_log, progress, waiting) if waiting else []


def _end_columns(dimension: Dimension) -> Sequence[str]:
    """Return the columns in which base rows say that they had ended."""
    return [DELETED] if dimension.is_soft else [] if dimension.history is None else [ENDS]


def _live_rows(rows: pa.Table) -> pa.Table:
    """Leave out base rows that had ended or were deleted: they complete nothing."""
    for name in {ENDS, DELETED} & {*rows.column_names}:
        ended = pc.fill_null(rows[name], False) if name == DELETED else pc.is_valid(rows[name])
        rows = rows.filter(pc.invert(pc.and_kleene(pc.equal(rows[KIND], BASE), ended))).drop_columns([name])
    return rows


def _with_flags(rows: pa.Table) -> pa.Table:
    """Add whether each event is partial, and whether it leaves a row."""
    lacks = pc.fill_null(pc.greater(pc.list_value_length(rows[names.UNSET]), 0), False)
    is_update = pc.fill_null(pc.equal(rows[names.OPERATION], Operation.UPDATE.value), False)
    is_base = pc.equal(rows[KIND], BASE)
    is_part = pc.and_kleene(pc.and_kleene(lacks, is_update), pc.invert(is_base))
    leaves = pc.or_kleene(
        pc.invert(pc.fill_null(pc.equal(rows[names.OPERATION], Operation.DELETE.value), False)), is_base
    )
    return rows.append_column(_IS_PART, is_part).append_column(_LEAVES, leaves)


def _after_truncate(newest: Position | None, rows: pa.Table) -> pa.Table:
    """Leave out events at or below the newest truncate."""
    if newest is None:
        return rows
    place = dict(zip(names.POSITION, newest, strict=True))
    return rows.filter(_is_above({n: rows[n] for n in _PLACE}, {n: _scalar(rows[n], place[n]) for n in _PLACE}))


def _scalar(column: pa.ChunkedArray, value: int) -> Any:
    return pa.scalar(Decimal(value) if pa.types.is_decimal(column.type) else value, column.type)


def _without_row(rows: pa.Table) -> pa.Table:
    """Return the partial events of keys without key changes that no row precedes."""
    parts = rows.filter(rows[_IS_PART])
    complete_events = rows.filter(pc.invert(rows[_IS_PART])).select([RECORD, *_PLACE, _LEAVES])
    if not parts.num_rows:
        return parts
    ordered = complete_events.sort_by([(name, "ascending") for name in (RECORD, *_PLACE)])
    # Rows are taken by index: Arrow's aggregate `last` does not take decimals.
    numbered = ordered.select([RECORD]).append_column("index", pa.array(range(ordered.num_rows), pa.int64()))
    last = numbered.group_by(RECORD, use_threads=False).aggregate([("index", "last")])["index_last"]
    newest = ordered.take(last)
    newest = newest.rename_columns([n if n == RECORD else _NEWEST + n for n in newest.column_names])
    places = parts.select([RECORD, *_PLACE, names.BATCH]).append_column("index", pa.array(range(parts.num_rows)))
    with_newest = places.join(newest, RECORD, join_type="left outer")
    is_above = _is_above({n: with_newest[n] for n in _PLACE}, {n: with_newest[_NEWEST + n] for n in _PLACE})
    is_newer = pc.or_kleene(
        pc.is_null(with_newest[_NEWEST + _LEAVES]),
        pc.and_kleene(pc.invert(with_newest[_NEWEST + _LEAVES]), is_above),
    )
    return parts.take(with_newest.filter(is_newer)["index"].sort())


def _is_above(places: Mapping[str, Any], others: Mapping[str, Any]) -> Any:
    """Return which positions lie above others."""
    is_above = None
    for name in reversed(_PLACE):
        greater, equal = pc.greater(places[name], others[name]), pc.equal(places[name], others[name])
        is_above = greater if is_above is None else pc.or_kleene(greater, pc.and_kleene(equal, is_above))
    return is_above


def _fold_in_order(dimension: Dimension, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the partial events of keys joined by key changes that found no row."""
    bases: dict[Key, Row] = {}
    for row in sorted((row for row in rows if row[KIND] == BASE), key=lambda row: row[names.BATCH]):
        bases[row[RECORD],] = Row(dict.fromkeys(dimension.schema.names), position_of(row))
    events = {position_of(row): (_event(dimension, row), row) for row in rows if row[KIND] != BASE}
    folded = apply(dimension, bases, [event for event, _ in events.values()])
    return [row for event, row in events.values() if folded.is_waiting(event)]


def _event(dimension: Dimension, row: Mapping[str, Any]) -> ChangeEvent:
    """Return an event without values: only which cells were sent counts."""
    lacking = row[names.UNSET] or ()
    return ChangeEvent(
        operation=Operation(row[names.OPERATION]),
        position=position_of(row),
        key=(row[RECORD],),
        cells={name: UNSET if name in lacking else None for name in dimension.schema.names},
        old_key=None if row[OLD_RECORD] is None else (row[OLD_RECORD],),
        transaction=row[names.TRANSACTION],
    )


def _entries(change_log: ChangeLogTable, progress: Progress, rows: Sequence[Mapping[str, Any]]) -> Sequence[Entry]:
    records = change_log.table.rows(
        f"{KIND} = '{BATCH}' and {names.BATCH} <= {progress.batch}", (names.BATCH, RECORD)
    )
    contents = {row[names.BATCH]: json.loads(row[RECORD]) for row in records.to_pylist()}
    objects = {order: name for content in contents.values() for name, order, *_ in content["objects"]}
    entries = [
        Entry(
            key=row[RECORD],
            reason=Reason.INCOMPLETE_ROW.value,
            detail=f"not sent: {', '.join(row[names.UNSET] or ())}",
            object=objects.get(row[names.OBJECT], str(row[names.OBJECT])),
            row=row[names.ROW],
            operation=row[names.OPERATION],
            epoch=row[names.EPOCH],
            sequence=int(row[names.SEQUENCE]),
            order=row[names.OBJECT],
            batch=row[names.BATCH],
            since=contents[row[names.BATCH]]["at"],
            text="",
            time=row[names.TIME],
            other_key=row[OLD_RECORD],
            is_waiting=True,
        )
        for row in rows
    ]
    return sorted(entries, key=lambda entry: (entry.batch, entry.position))
