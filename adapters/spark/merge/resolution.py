"""Work out what a batch does to the rows of a table: DataFrame to DataFrame, no I/O.

Each event is joined to the stored row of its key. Then the events of a key are folded into one verdict, by hash and
without a sort. Only keys with further events after a delete in the batch are read in order, to count inserts of
existing rows and updates of missing ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.frames.event_frame import IS_EVENT, IS_HOLDING, IS_LOAD, IS_REJECT, has_order
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import canonical
from lakeward.adapters.spark.sql.inline_rows import as_json
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.dimension import DELETED, Dimension, Ordered
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.schema import Type

SMALL: Final = 250_000
"""Up to this many events, the stored rows of their keys are joined by broadcast instead of by a sort."""

ID: Final = "_lakeward_id"
"""Column: the ID of an event in its batch. It encodes the arrival and the operation in one number."""

IS_NEWS: Final = "_lakeward_is_news"
IS_LIVE: Final = "_lakeward_is_live"
"""Columns of a key: whether an event is newer than the stored state, and whether the stored state is a row."""

FILE: Final = "_lakeward_standing_file"
POS: Final = "_lakeward_standing_pos"
"""Columns: the data file of a row, named as the format names it, and the place of the row in it, from 0. They are
NULL where the plan does not need them.
"""

IS_NOT_DELETED: Final = f"NOT coalesce({DELETED}, false)"
"""SQL: whether a row of a table with soft deletes is not deleted."""

INSERTS, WHOLES, DELETES = "_lakeward_inserts", "_lakeward_wholes", "_lakeward_deletes"
_EVENTS, _NEWER, _SAME, _TIES = (f"{names.PREFIX}{count}" for count in ("events", "newer", "same", "ties"))
"""Columns of a key. Counts of the events that are newer than the stored state: inserts; whole rows (inserts and
rows of a full load); deletes. Then: all events; the newer ones; events equal to the stored state; ties.
"""

_IS_NEWER, _CONTENT, _LEAST, _MOST = (f"{names.PREFIX}{name}" for name in ("is_newer", "content", "least", "most"))
"""Columns of an event: whether it is newer than the stored state; its content. Of several events: the least and the
greatest content.
"""

WRITTEN, REMOVED, MIXED = "written", "removed", "mixed"
"""Counts: rows that a batch writes, rows that it removes, keys that have events after a delete."""

_FIRST: Final = "_lakeward_first"
"""Column of a key: its first event that is newer than the stored state."""

_IS_WRONG, _REASON, _DETAIL = "_lakeward_is_wrong", "_lakeward_new_reason", "_lakeward_new_detail"
_BARRIER: Final = "_lakeward_barrier"

NO_KEY: Final = "the table has no key to find the row by"
INCOMPLETE: Final = "it sends a part of a row, and there is no row of that key"
_UNKNOWN_TEXT: Final = "string(NULL)"
BELOW_WATERMARK: Final = "at or below the low watermark: by `lateness`, nothing may come there any more"

_KINDS: Final = {"read": 0, "insert": 1, "update": 2, "delete": 3}
_IS_READ, _IS_INSERT, _IS_UPDATE, _IS_DELETE = (f"& 3 = {code}" for code in _KINDS.values())
_PLACE: Final = (names.SEQUENCE, names.OBJECT, names.ROW)

_WITH_SOURCE_TEXT: Final = (Reason.HISTORY, Reason.TIE, Reason.UNDATED, Reason.NO_KEY)
"""Reasons for which a row in quarantine keeps its source text, if that is known."""


def stored_column(name: str) -> str:
    """Return the name that a column of the stored row has when it is joined to an event.

    >>> stored_column("_lakeward_row")
    '_lakeward_standing_row'
    """
    return f"_lakeward_standing_{name.removeprefix(names.PREFIX)}"


_STORED: Final = tuple(stored_column(name) for name in names.POSITION)


def null_place(dimension: Dimension, locators: Sequence[str] = ()) -> list[str]:
    """Return SQL for the position columns of a key without a stored row, all NULL, and for its `locators`."""
    types = {stored_column(names.SEQUENCE): names.sequence_type(dimension.sequences)}
    return [f"CAST(NULL AS {types.get(name, 'bigint')}) AS {name}" for name in (*_STORED, *locators)]


def _key(plan: MergePlan) -> list[str]:
    return [quoted(name) for name in plan.dimension.key]


def events_of(frame: DataFrame) -> DataFrame:
    """Return the rows that can be applied, each with its ID."""
    kinds = " ".join(f"WHEN '{name}' THEN {code}" for name, code in _KINDS.items())
    identifier = f"shiftleft({names.ARRIVAL}, 2) + CASE {names.OPERATION} {kinds} END"
    return frame.where(IS_EVENT).selectExpr("*", f"{identifier} AS {ID}")


class CopyCounts(NamedTuple):
    """Counts of the rows of objects that were delivered before: events, and rejects by reason."""

    events: int = 0
    rejects: Mapping[Reason, int] = MappingProxyType({})

    @property
    def rows(self) -> int:
        """The number of events and rejects."""
        return self.events + sum(self.rejects.values())


def without_copies(frame: DataFrame, plan: MergePlan) -> tuple[DataFrame, CopyCounts]:
    """Return the frame without the rows of objects that were delivered before, and the counts of these rows.

    In an `ordered` table with a key only rejects are left out. Repeated events are recognized by the stored rows
    and the change log.
    """
    if not plan.copies:
        return frame, CopyCounts()
    is_copy = f"{names.OBJECT} IN ({', '.join(map(str, sorted(plan.copies)))})"
    if isinstance(plan.dimension.lateness, Ordered) and plan.dimension.key:
        is_copy = f"({is_copy} AND coalesce({IS_REJECT}, false))"
    counts_by_reason = frame.where(is_copy).groupBy(names.REASON).count().collect()
    rows = {row[names.REASON]: row["count"] for row in counts_by_reason}
    rejects = {reason: rows[reason.value] for reason in Reason if reason.value in rows}
    return frame.where(f"NOT {is_copy}"), CopyCounts(rows.get(None, 0), rejects)


def late_as_rejects(frame: DataFrame, plan: MergePlan) -> tuple[DataFrame, Mapping[Reason | None, int]]:
    """Reject the events at or below the low watermark.

    Return the frame, and the number of these rows by the reason they had before (None: no reason). A reject at or
    below the low watermark no longer holds its key: later events of the key may be applied already.
    """
    if plan.low_watermark is None or not plan.has_late:
        return frame, {}
    message = f"its place in the order lies {BELOW_WATERMARK}"
    is_below = f"{names.SEQUENCE} <= {sequence_literal(plan, plan.low_watermark.sequence)}"
    has_place = f"NOT ({names.REASON} = '{Reason.SEQUENCE.value}' AND {IS_LOAD})"
    is_late, holds = f"({IS_EVENT} AND {is_below})", f"coalesce({IS_HOLDING} AND {has_place} AND {is_below}, false)"
    counts_by_reason = frame.where(f"{is_late} OR {holds}").groupBy(names.REASON).count().collect()
    changed = {
        names.REASON: text(Reason.TOO_LATE.value),
        names.DETAIL: f"concat_ws('; ', {names.DETAIL}, {text(message)})",
    }
    frame = frame.withColumns(
        {n: F.expr(f"CASE WHEN {holds} THEN {sql} ELSE {n} END") for n, sql in changed.items()}
    )
    late = reject_rows(frame, plan.dimension, is_late, Reason.TOO_LATE, message)
    return late, {None if row[0] is None else Reason(row[0]): row["count"] for row in counts_by_reason}


def sequence_literal(plan: MergePlan, sequence: int) -> str:
    """Return a sequence as an SQL literal of the type that the table uses."""
    return f"CAST('{sequence}' AS {names.sequence_type(plan.dimension.sequences)})"


def as_incomplete(events: DataFrame, dimension: Dimension) -> DataFrame:
    """Return remembered partial events as rejects, because no row to complete has arrived."""
    rejects = events.selectExpr(
        "*", *[f"string(NULL) AS {name}" for name in (names.REASON, names.DETAIL, names.TEXT)]
    )
    return reject_rows(rejects, dimension, "true", Reason.INCOMPLETE_ROW, INCOMPLETE)


def as_rejects(
    frame: DataFrame,
    plan: MergePlan,
    ids: DataFrame,
    reason: Reason,
    message: str,
    source_text: str = _UNKNOWN_TEXT,
) -> DataFrame:
    """Turn the events with these IDs into rejects.

    `source_text` is SQL for the source text of each, NULL if unknown.
    """
    wrong = F.broadcast(ids.selectExpr(f"shiftright({ID}, 2) AS {names.ARRIVAL}", f"true AS {_IS_WRONG}"))
    with_reasons = frame.join(wrong, names.ARRIVAL, "left")
    with_reasons = _reject_rows(
        with_reasons, plan.dimension, _IS_WRONG, f"'{reason.value}'", text(message), source_text
    )
    return with_reasons.drop(_IS_WRONG)


def reject_each(frame: DataFrame, plan: MergePlan, refused: DataFrame) -> DataFrame:
    """Turn events into rejects. `refused` has their IDs, each with a `reason` and a `message`."""
    reasons = refused.selectExpr(
        f"shiftright({ID}, 2) AS {names.ARRIVAL}", f"reason AS {_REASON}", f"message AS {_DETAIL}"
    )
    with_reasons = frame.join(F.broadcast(reasons), names.ARRIVAL, "left")
    repairable = ", ".join(f"'{reason.value}'" for reason in _WITH_SOURCE_TEXT)
    source_text = f"CASE WHEN {_REASON} IN ({repairable}) THEN {names.TEXT} END"
    with_reasons = _reject_rows(
        with_reasons, plan.dimension, f"{_REASON} IS NOT NULL", _REASON, _DETAIL, source_text
    )
    return with_reasons.drop(_REASON, _DETAIL)


def reject_rows(frame: DataFrame, dimension: Dimension, is_wrong: str, reason: Reason, message: str) -> DataFrame:
    """Turn the rows for which `is_wrong` (SQL) holds into rejects with a reason and a message."""
    return _reject_rows(frame, dimension, is_wrong, f"'{reason.value}'", text(message))


def reject_explained(frame: DataFrame, dimension: Dimension, reason: Reason, message: str) -> DataFrame:
    """Turn rows into rejects for a reason. `message` is SQL, NULL for a row that is right."""
    return _reject_rows(frame, dimension, f"{message} IS NOT NULL", f"'{reason.value}'", message, names.TEXT)


def _reject_rows(
    frame: DataFrame,
    dimension: Dimension,
    is_wrong: str,
    reason: str,
    message: str,
    source_text: str = _UNKNOWN_TEXT,
) -> DataFrame:
    """Turn rows into rejects. `source_text` is SQL for the source text of each.

    Where that is NULL, the text is the row as JSON, with its before image if rows are matched by image.
    """
    time = f"timestamp_micros({names.TIME}) AS {names.TIME}"
    image = [names.IMAGE] if names.IMAGE in frame.columns else []
    row = as_json([names.OPERATION, time, *map(quoted, dimension.schema.names), *image])
    return frame.withColumns(
        {
            names.REASON: F.expr(f"CASE WHEN {is_wrong} THEN {reason} ELSE {names.REASON} END"),
            names.DETAIL: F.expr(f"CASE WHEN {is_wrong} THEN {message} ELSE {names.DETAIL} END"),
            names.TEXT: F.expr(f"CASE WHEN {is_wrong} THEN coalesce({source_text}, {row}) ELSE {names.TEXT} END"),
        }
    )


def as_no_key(frame: DataFrame, dimension: Dimension, is_wrong: str, message: str) -> DataFrame:
    """Turn the events for which `is_wrong` (SQL) holds into rejects: the table has no key to find their rows by."""
    no_key = f"'{Reason.NO_KEY.value}'"
    return _reject_rows(frame, dimension, f"({IS_EVENT} AND {is_wrong})", no_key, text(message), names.TEXT)


def holding_rejects(frame: DataFrame, plan: MergePlan) -> DataFrame:
    """Return key and position of the rejects that hold their key. A key change holds both of its keys."""
    return keys_of_both(frame.where(IS_HOLDING), plan.dimension.key)


def keys_of_both(frame: DataFrame, key: Sequence[str], more_columns: Sequence[str] = ()) -> DataFrame:
    """Return key, position and further columns (`more_columns`) of each row.

    A key change also gives a row for its old key.
    """
    columns = (*_PLACE, *more_columns)
    rows = frame.selectExpr(*map(quoted, key), *columns)
    if names.OLD not in frame.columns:
        return rows
    old = [f"{names.OLD}.{name} AS {name}" for name in map(quoted, key)]
    return rows.unionByName(frame.where(f"{names.OLD} IS NOT NULL").selectExpr(*old, *columns))


def split_at_barriers(events: DataFrame, barriers: DataFrame, plan: MergePlan) -> tuple[DataFrame, DataFrame]:
    """Split the events into those that pass and those that wait behind a hold of their key."""
    place = f"struct({', '.join(_PLACE)})"
    lowest = barriers.groupBy(*_key(plan)).agg(F.expr(f"min({place}) AS {_BARRIER}"))
    with_barriers = events.join(F.broadcast(lowest), list(plan.dimension.key), "left")
    is_waiting = f"{_BARRIER} IS NOT NULL AND {place} > {_BARRIER}"
    return with_barriers.where(f"NOT ({is_waiting})").drop(_BARRIER), with_barriers.where(is_waiting).drop(_BARRIER)


def verdicts(events: DataFrame, stored: DataFrame | None, plan: MergePlan, locators: Sequence[str]) -> DataFrame:
    """Return one row for each key: the winning event, and how many events had each outcome.

    `stored` has the stored state of the keys of the batch: the position (columns named by `stored_column`),
    `IS_LIVE`, and where the row lies (`locators`). It is None if the table does not exist.
    """
    stored_columns = (*_STORED, IS_LIVE, *locators)
    compares = plan.recalls and stored is not None
    # Without a comparison each event is newer than the stored row of its key, which is joined last, once a key.
    key = [*_key(plan), *(stored_columns if compares else ())]
    by_sequence = _by_sequence(_with_stored_state(events, stored if compares else None, plan), key, compares)
    tied = f"CASE WHEN {_LEAST} != {_MOST} AND {has_order()} THEN {_NEWER} - 1 ELSE 0 END"
    if plan.dimension.unique_sequences and compares:
        meets_stored = f"{_STORED[0]} = {plan.epoch} AND {_STORED[1]} = {names.SEQUENCE}"
        tied = f"CASE WHEN {meets_stored} AND {has_order()} THEN {_NEWER} ELSE {tied} END"
    sums = [F.expr(f"sum({name}) AS {name}") for name in (_EVENTS, _NEWER, _SAME, INSERTS, WHOLES, DELETES)]
    by_key = by_sequence.groupBy(*key).agg(
        F.expr(f"max_by({ID}, {names.SEQUENCE}) AS {ID}"),
        F.expr(f"min_by({_FIRST}, CASE WHEN {_FIRST} IS NOT NULL THEN {names.SEQUENCE} END) AS {_FIRST}"),
        F.expr(f"sum({tied}) AS {_TIES}"),
        *sums,
    )
    if stored is None:
        by_key = by_key.selectExpr("*", *null_place(plan.dimension, locators), f"boolean(NULL) AS {IS_LIVE}")
    elif not compares:
        by_key = by_key.join(stored, list(plan.dimension.key), "left")
    counted = [f"bigint({sql}) AS {_count_column(name)}" for name, sql in _counts().items()]
    return by_key.selectExpr(
        *_key(plan), *stored_columns, ID, WHOLES, DELETES, f"{_NEWER} > 0 AS {IS_NEWS}", *counted
    )


def _by_sequence(events: DataFrame, key: Sequence[str], compares: bool) -> DataFrame:
    """Return one row for each key and sequence: its first and last event, and how many events are of each kind.

    With `compares` the events have the stored position of their key.
    """
    is_same = " AND ".join(f"{name} <=> {stored_column(name)}" for name in _PLACE) if compares else "false"
    return events.groupBy(*key, names.SEQUENCE).agg(
        F.expr(f"count(*) AS {_EVENTS}"),
        F.expr(f"max({ID}) AS {ID}"),
        F.expr(f"min(CASE WHEN {_IS_NEWER} THEN {ID} END) AS {_FIRST}"),
        F.expr(f"count_if({_IS_NEWER}) AS {_NEWER}"),
        F.expr(f"count_if({is_same}) AS {_SAME}"),
        F.expr(f"count_if({_IS_NEWER} AND {ID} {_IS_INSERT}) AS {INSERTS}"),
        F.expr(f"count_if({_IS_NEWER} AND ({ID} {_IS_INSERT} OR {ID} {_IS_READ})) AS {WHOLES}"),
        F.expr(f"count_if({_IS_NEWER} AND {ID} {_IS_DELETE}) AS {DELETES}"),
        F.expr(f"min(CASE WHEN {_IS_NEWER} THEN {_CONTENT} END) AS {_LEAST}"),
        F.expr(f"max(CASE WHEN {_IS_NEWER} THEN {_CONTENT} END) AS {_MOST}"),
    )


def _counts() -> Mapping[str, str]:
    """Return SQL by count name for what the events of one key add to each count.

    Keys with events after a delete are counted by `_count_in_order`.
    """
    is_news, live = f"{_NEWER} > 0", f"coalesce({IS_LIVE}, false)"
    is_mixed = f"{is_news} AND {DELETES} > int({ID} {_IS_DELETE})"
    one_way = f"{is_news} AND NOT ({is_mixed})"
    existing = f"{INSERTS} - int({_FIRST} {_IS_INSERT} AND NOT {live})"
    return {
        "stale": f"{_EVENTS} - {_NEWER} - {_SAME}",
        "duplicates": _SAME,
        "superseded": f"greatest({_NEWER} - 1, 0)",
        "applied": is_news,
        "ties": _TIES,
        "insert_on_existing": f"CASE WHEN {one_way} THEN {existing} ELSE 0 END",
        "update_on_missing": f"{one_way} AND NOT {live} AND {_FIRST} {_IS_UPDATE}",
        WRITTEN: f"{is_news} AND NOT {ID} {_IS_DELETE}",
        REMOVED: f"{is_news} AND {live}",
        MIXED: is_mixed,
    }


def _count_column(name: str) -> str:
    """Return the name of the column in which `verdicts` has a count."""
    return f"_lakeward_count_{name}"


def _with_stored_state(events: DataFrame, stored: DataFrame | None, plan: MergePlan) -> DataFrame:
    """Join each event with the stored state of its key, and add whether the event is newer.

    Without `stored`, each event is newer.
    """
    narrow = events.selectExpr(*_key(plan), *_PLACE, ID, f"xxhash64({hashed(plan)}) AS {_CONTENT}")
    if stored is None:
        return narrow.selectExpr("*", f"true AS {_IS_NEWER}")
    joinable = F.broadcast(stored) if plan.facts.read <= SMALL else stored
    events_with_state = narrow.join(joinable, list(plan.dimension.key), "left")
    return events_with_state.selectExpr("*", f"{_is_newer(plan)} AS {_IS_NEWER}")


def hashed(plan: MergePlan, left_out: Collection[str] = ()) -> str:
    """Return SQL for the arguments of a hash of an event's content.

    Each column also gives whether it is NULL, since a hash skips NULLs.
    """
    columns = [column for column in plan.dimension.schema if column.name not in left_out]
    values = [_hashable(quoted(column.name), column.type) for column in columns]
    nulls = [f"{quoted(column.name)} IS NULL" for column in columns]
    return ", ".join([names.OPERATION, *values, *nulls])


def _hashable(value: str, type_: Type) -> str:
    """Return SQL for a value that can be hashed.

    A nested value becomes text: that shows NULLs inside it, and maps cannot be hashed.
    """
    return as_json([canonical(value, type_)]) if type_.is_nested else value


def _is_newer(plan: MergePlan) -> str:
    """Return SQL for whether an event is newer than the stored state of its key, or there is none."""
    event_place = f"named_struct('e', {plan.epoch}, 's', {_PLACE[0]}, 'o', {_PLACE[1]}, 'r', {_PLACE[2]})"
    stored_place = ", ".join(f"'{part}', {name}" for part, name in zip("esor", _STORED, strict=True))
    return f"({_STORED[0]} IS NULL OR {event_place} > named_struct({stored_place}))"


def sums_of(verdict_rows: DataFrame) -> Mapping[str, int]:
    """Return the sum of each count over a frame of verdicts."""
    row = verdict_rows.agg(*[F.expr(f"sum({_count_column(name)}) AS {name}") for name in _counts()]).collect()[0]
    return {name: value or 0 for name, value in row.asDict().items()}


def sums_in(verdict_rows: pa.Table) -> Mapping[str, int]:
    """Return the sum of each count over verdicts in Arrow columns."""
    return {name: pc.sum(verdict_rows[_count_column(name)]).as_py() or 0 for name in _counts()}


def counts(
    sums: Mapping[str, int], verdict_rows: DataFrame, events: DataFrame, plan: MergePlan
) -> tuple[Counts, int, int]:
    """Return the counts of the events that pass, and how many rows are written and removed.

    Each count is computed independently, so that the pipeline can check that they add up.
    """
    totals = dict(sums)
    written, removed, mixed = (totals.pop(name) for name in (WRITTEN, REMOVED, MIXED))
    if mixed:
        more = _count_in_order(verdict_rows.where(f"{_count_column(MIXED)} > 0"), events, plan)
        totals = {name: value + more.get(name, 0) for name, value in totals.items()}
    return Counts(**totals), written, removed


def _count_in_order(mixed: DataFrame, events: DataFrame, plan: MergePlan) -> dict[str, int]:
    """Count inserts of existing rows and updates of missing ones, for keys with events after a delete."""
    key_texts = mixed.selectExpr(*_key(plan), *_STORED, IS_LIVE)
    order = f"PARTITION BY {', '.join(_key(plan))} ORDER BY {names.SEQUENCE}, {ID}"
    before = f"lag({ID}) OVER ({order})"
    was_there = f"CASE WHEN {before} IS NULL THEN coalesce({IS_LIVE}, false) ELSE NOT {before} {_IS_DELETE} END"
    row = (
        events.join(F.broadcast(key_texts), list(plan.dimension.key))
        .where(_is_newer(plan))
        .selectExpr(ID, f"{was_there} AS was_there")
        .agg(
            F.expr(f"count_if({ID} {_IS_INSERT} AND was_there) AS insert_on_existing"),
            F.expr(f"count_if({ID} {_IS_UPDATE} AND NOT was_there) AS update_on_missing"),
        )
        .collect()[0]
    )
    more: dict[str, int] = row.asDict()
    return more


def winners(events: DataFrame, verdict_rows: DataFrame, *, deletes: bool) -> DataFrame:
    """Return the winning events: those that leave a row, or with `deletes` those that leave none."""
    wanted = f"{IS_NEWS} AND {'' if deletes else 'NOT '}{ID} {_IS_DELETE}"
    return events.join(verdict_rows.where(wanted).select(ID), ID, "left_semi")


def reject_without_key(frame: DataFrame, dimension: Dimension) -> DataFrame:
    """Turn updates, deletes and truncates into rejects: a table without a key only appends."""
    refused = f"{names.OPERATION} IN ('update', 'delete', 'truncate')"
    return as_no_key(frame, dimension, refused, NO_KEY)
