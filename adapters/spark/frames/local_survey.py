"""Surveys of the event frame of a small batch, without Spark.

Each function gives the same result as the function of the same name in `adapters.spark.frames.event_frame` or
`adapters.spark.checks.refused_files`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.spark.checks.log_steps import before_steps
from lakeward.adapters.spark.frames.event_frame import (
    AHEAD,
    INITIAL,
    LOG,
    NAME_COLUMNS,
    NEED_COLUMNS,
    NO_PLACE,
    SKIPPED,
    Group,
    groups_of,
    is_truncate,
    may_step_back,
)
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.types import is_bounded
from lakeward.core.checks.log_restart import LogRestart, lift_place
from lakeward.core.checks.log_steps import LogChange, LogName, LogReached, LogSteps, find_steps
from lakeward.core.dimension import Dimension
from lakeward.core.events import LOAD_SEQUENCE, NO_SEQUENCE, READ_SEQUENCE, UNORDERED, Operation, Position
from lakeward.core.plan import tolerance_of


def survey(frame: LocalFrame, dimension: Dimension, *flags: str) -> Sequence[Group]:
    """Return the groups from which `event_frame.facts` is computed."""
    rows = frame.rows
    need_columns = {need: name for need, name in NEED_COLUMNS.items() if name in frame.columns}
    group_columns = [
        names.OBJECT,
        names.OPERATION,
        names.REASON,
        *flags,
        *(n for n in NAME_COLUMNS if n in frame.columns),
    ]
    columns = {name: rows.column(name) for name in (*group_columns, names.TIME, names.SEQUENCE, names.ROW)}
    columns |= {name: rows.column(name).is_valid() for name in need_columns.values()}
    keys = _bounded_keys(rows, dimension)
    columns |= {f"key_{index}": values for index, values in keys.items()}
    aggregates: list[tuple[str, str] | tuple[list[str], str]] = [([], "count_all")]
    aggregates += [(name, of) for name in (names.TIME, names.SEQUENCE, names.ROW) for of in ("min", "max")]
    aggregates += [(name, "any") for name in need_columns.values()]
    aggregates += [(f"key_{index}", of) for index in keys for of in ("min", "max")]
    groups = pa.table(columns).group_by(group_columns, use_threads=False).aggregate(aggregates)
    groups = groups.rename_columns([_survey_name(name, need_columns.values()) for name in groups.column_names])
    group_rows = groups.to_pylist()
    truncates = _truncates(rows) if any(map(is_truncate, group_rows)) else {}
    bounded = [index in keys for index in range(len(dimension.key))]
    return groups_of(group_rows, flags, need_columns, bounded, truncates)


def _survey_name(name: str, need_columns: Collection[str]) -> str:
    """Return the name that `event_frame.survey` uses for an aggregate of Arrow.

    >>> _survey_name("key_0_min", ()), _survey_name("_lakeward_row_max", ())
    ('key_least_0', 'most_lakeward_row')
    """
    names_in_survey = {"count_all": "rows", f"{names.TIME}_max": "time", f"{names.TIME}_min": "earliest"}
    names_in_survey |= {f"{part}_any": part for part in need_columns}
    if name in names_in_survey:
        return names_in_survey[name]
    of, _, end = name.rpartition("_")
    bound = {"min": "least", "max": "most"}.get(end)
    if bound is None:
        return name
    return f"key_{bound}_{of.removeprefix('key_')}" if of.startswith("key_") else f"{bound}{of}"


def _bounded_keys(rows: pa.Table, dimension: Dimension) -> Mapping[int, pa.ChunkedArray]:
    """Return the key columns that have bounds, by index in the key, with the values of `types.bound_of`."""
    keys = {}
    for index, name in enumerate(dimension.key):
        key = dimension.schema.find(name)
        if key is None or not is_bounded(key.type):
            continue
        values = rows.column(name)
        if pa.types.is_date(values.type):
            values = values.cast(pa.int32())
        keys[index] = values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values
    return keys


def _truncates(rows: pa.Table) -> Mapping[int, tuple[tuple[int, int], ...]]:
    """Return sequence and row of the truncates of each object."""
    truncates: dict[int, tuple[tuple[int, int], ...]] = defaultdict(tuple)
    is_truncate_row = pc.equal(rows.column(names.OPERATION), Operation.TRUNCATE.value)
    is_event = rows.column(names.REASON).is_null()
    for place in _places(rows.filter(pc.and_(is_truncate_row, is_event))):
        truncates[place.object] += ((place.sequence, place.row),)
    return truncates


class _Place(NamedTuple):
    """The position of a row without its epoch."""

    object: int
    row: int
    sequence: int


def _places(rows: pa.Table) -> Iterator[_Place]:
    columns = (rows.column(name).to_pylist() for name in (names.OBJECT, names.ROW, names.SEQUENCE))
    return (_Place(item, row, int(sequence)) for item, row, sequence in zip(*columns, strict=True))


def lift_places(frame: LocalFrame, restarts: Sequence[LogRestart]) -> LocalFrame:
    """Add to the place of each row the offset of the newest restart of the source log at or before it."""
    if not restarts:
        return frame
    index = frame.columns.index(names.SEQUENCE)
    type_ = frame.rows.schema.field(index).type
    lifted = [lift_place(Position(0, p.sequence, p.object, p.row), restarts) for p in _places(frame.rows)]
    number_type = Decimal if pa.types.is_decimal(type_) else int
    sequences = pa.array([number_type(position.sequence) for position in lifted], type_)
    return frame.with_rows(frame.rows.set_column(index, names.SEQUENCE, sequences))


def with_ahead(frame: LocalFrame, limit: int) -> LocalFrame:
    """Flag the rows whose source time is later than `limit`, in microseconds since 1970."""
    is_later = pc.greater(frame.rows.column(names.TIME), limit)
    return frame.with_rows(frame.rows.append_column(AHEAD, is_later))


def steps_back(frame: LocalFrame, groups: Sequence[Group], dimension: Dimension) -> Mapping[int, int]:
    """Return for each object the first row whose sequence lies further behind an earlier row than allowed."""
    tolerance, objects = tolerance_of(dimension), may_step_back(groups, dimension)
    first: dict[int, int] = {}
    if tolerance is None or not objects:
        return first
    for item, places in _by_object(_places(_of_objects(frame.rows, objects))):
        greatest = None
        for place in (place for place in places if place.sequence != LOAD_SEQUENCE):
            if greatest is not None and greatest - place.sequence > tolerance:
                first[item] = place.row
                break
            greatest = place.sequence if greatest is None else max(greatest, place.sequence)
    return first


def log_steps(frame: LocalFrame, groups: Sequence[Group], reached: LogReached) -> Mapping[int, LogSteps]:
    """Compare the changes of each object row by row with the source log, from where the table has `reached`."""
    before = before_steps(groups, reached)
    places = frame.rows.select([names.OBJECT, names.ROW, names.SEQUENCE, names.OPERATION])
    before = {item: of_item for item, of_item in before.items() if not _only_rises(places, item, of_item)}
    if not before:
        return {}
    rows = _of_objects(frame.rows, before)
    columns = [_cells(rows, name) for name in (names.REASON, names.OPERATION, names.TIME, LOG)]
    flags = [_cells(rows, name) for name in (AHEAD, NO_PLACE, INITIAL)]
    changes: dict[int, list[LogChange]] = defaultdict(list)
    for place, reason, operation, time, log, *flagged in zip(_places(rows), *columns, *flags, strict=True):
        is_change = operation is not None if reason is None else place.sequence != NO_SEQUENCE
        if is_change and place.sequence not in (LOAD_SEQUENCE, READ_SEQUENCE):
            is_ahead, no_place, is_initial = flagged
            change = LogChange(
                place.row,
                place.sequence,
                None if is_ahead else time,
                LogName.of(log),
                is_read=operation == Operation.READ.value and place.sequence != NO_SEQUENCE,
                has_place=not no_place and place.sequence not in UNORDERED,
                is_initial=bool(is_initial),
                is_truncate=operation == Operation.TRUNCATE.value,
            )
            changes[place.object].append(change)
    steps = {item: find_steps(of_item, before[item], reached.of(item)) for item, of_item in changes.items()}
    return {item: of_item for item, of_item in steps.items() if of_item != LogSteps()}


def _only_rises(rows: pa.Table, item: int, before: LogReached) -> bool:
    """Return whether no row of an object lies below another one before it in the log, so that none steps back.

    It is False for rows of snapshots and for rows without a place in the log, which are compared one by one.
    """
    rows = _of_objects(rows, [item])
    sequences, numbers = (rows.column(name).combine_chunks() for name in (names.SEQUENCE, names.ROW))
    is_change = pc.not_equal(rows.column(names.OPERATION), Operation.READ.value)
    has_place = pc.invert(pc.is_in(sequences, pa.array(sorted(UNORDERED)).cast(sequences.type)))
    if not rows.num_rows or not pc.all(pc.and_(pc.fill_null(is_change, False), has_place)).as_py():
        return False
    highest = [before.highest, None if before.snapshot is None else before.snapshot.place]
    reached_place = max((place for place in highest if place is not None), default=None)
    is_above = reached_place is None or int(sequences[0].as_py()) >= reached_place
    falls = (pc.any(pc.less(values[1:], values[:-1])).as_py() for values in (sequences, numbers))
    return is_above and not any(falls)


def _cells(rows: pa.Table, name: str) -> list[Any]:
    """Return the cells of a column; None for each row if there is no such column."""
    return rows.column(name).to_pylist() if name in rows.column_names else [None] * len(rows)


def _of_objects(rows: pa.Table, objects: Iterable[int]) -> pa.Table:
    return rows.filter(pc.is_in(rows.column(names.OBJECT), pa.array(list(objects), pa.int64())))


def _by_object(places: Iterable[_Place]) -> Iterator[tuple[int, Iterator[_Place]]]:
    """Return the places of each object, in row order."""
    return groupby(sorted(places), itemgetter(0))


def first_rejects(frame: LocalFrame, objects: Iterable[int]) -> Mapping[int, tuple[int, str]]:
    """Return the row number of the first reject of each object, and its explanation."""
    rows = _of_objects(frame.rows, objects)
    rows = rows.filter(pc.not_equal(rows.column(names.REASON), SKIPPED))
    columns = (rows.column(name).to_pylist() for name in (names.OBJECT, names.ROW, names.DETAIL))
    rejects: dict[int, tuple[int, str]] = {}
    for item, row, detail in sorted(zip(*columns, strict=True), key=itemgetter(0, 1), reverse=True):
        rejects[item] = (row, detail or "")
    return rejects
