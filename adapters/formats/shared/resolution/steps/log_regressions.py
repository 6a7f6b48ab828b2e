"""Changes that are newer by time than earlier ones of their keys, and lie below them in the log of the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.event_frame import IS_EVENT, IS_TRUNCATE, ROWS_BEFORE
from lakeward.adapters.spark.merge.resolution import keys_of_both, without_copies
from lakeward.adapters.spark.merge.truncates import literal, place_of
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.checks.log_steps import LEAST_GAP
from lakeward.core.events import Position
from lakeward.core.plan import MergePlan

_PLACE, _TIME, _STORED_PLACE, _TIME_OF_BATCH = (
    f"{names.PREFIX}{name}" for name in ("place", "believed_time", "stored_place", "time_of_batch")
)
_HIGHEST, _LATEST = f"{names.PREFIX}highest_of_key", f"{names.PREFIX}latest_of_key"
"""The highest place and the latest time of earlier events of the same key in the batch."""

_IS_CHANGE: Final = f"{names.OPERATION} != 'read' AND {_TIME} IS NOT NULL"


def find_regressions(side_tables: SideTables, plan: MergePlan, batch: DataFrame, rows: Rows) -> Mapping[int, int]:
    """Return by suspect object (its order) the number of the first row that is newer by time and lower in the log.

    Copies do not count. This is `lakeward.core.merge.settling.log_regressions.find_regressions` as SQL. The stored
    rows of the keys are read once more; most sources seldom have suspect objects.
    """
    if not plan.suspect_objects:
        return {}
    frame, _ = without_copies(batch, plan)
    times_of_objects = side_tables.change_log.batches.times
    newest = max(times_of_objects.values(), default=None)
    is_suspect = f"{names.OBJECT} IN ({', '.join(map(str, sorted(plan.suspect_objects)))})"
    changes = _changes_by_key(frame, plan).where(f"{is_suspect} AND {_IS_CHANGE}")
    conditions = [_is_below(_HIGHEST, _latest(_LATEST, newest)), *_below_truncates(plan, frame, times_of_objects)]
    if (stored := _stored_places(side_tables, plan, frame, rows)) is not None:
        key = [*map(quoted, plan.dimension.key)]
        wanted = F.broadcast(changes.selectExpr(*key).distinct())
        places = stored.join(wanted, list(plan.dimension.key), "left_semi").groupBy(*key)
        highest_stored = _with_time_of_batch(
            places.agg(F.expr(f"max({_PLACE}) AS {_STORED_PLACE}")), times_of_objects
        )
        changes = changes.join(highest_stored, list(plan.dimension.key), "left")
        conditions.append(_is_below(_STORED_PLACE, _TIME_OF_BATCH))
    regressions = changes.where(" OR ".join(conditions))
    first = regressions.groupBy(F.expr(f"{_PLACE}.o AS object")).agg(F.expr(f"min({_PLACE}.r) AS row"))
    return {row["object"]: row["row"] for row in first.collect()}


def _is_below(place: str, time: str) -> str:
    """Return SQL: the change lies below a place and is newer than a time by at least the least gap."""
    return f"({_PLACE} < {place} AND {_TIME} - ({time}) >= {LEAST_GAP})"


def _latest(time: str, newest: int | None) -> str:
    """Return SQL for the later of two times, in the batch and before it; NULL where the batch has none."""
    return time if newest is None else f"CASE WHEN {time} IS NOT NULL THEN greatest({time}, {newest}L) END"


def _below_truncates(plan: MergePlan, frame: DataFrame, times_of_objects: Mapping[int, int]) -> Iterator[str]:
    """Yield SQL conditions: the change lies below an older truncate, of this batch or remembered."""
    last, newest = plan.truncates.newest, max(times_of_objects.values(), default=None)
    if last is not None and last.object in times_of_objects:
        yield _is_below(literal(plan, last), f"{times_of_objects[last.object]}L")
    place = (names.SEQUENCE, names.OBJECT, names.ROW, f"{_believable_time(plan)} AS time")
    arrived = frame.where(IS_TRUNCATE).selectExpr(*place) if plan.facts.truncates else None
    for sequence, order, row, time in [] if arrived is None else arrived.collect():
        if time is not None:
            position = literal(plan, Position(plan.epoch, int(sequence), order, row))
            is_behind = f"({names.OBJECT}, {names.ROW}) > ({order}L, {row}L)"
            yield f"({is_behind} AND {_is_below(position, _latest(f'{time}L', newest))})"


def _believable_time(plan: MergePlan) -> str:
    """Return SQL for the time of an event, NULL where it lies too far ahead of the clock."""
    believed = plan.facts.believed
    return names.TIME if believed is None else f"CASE WHEN {names.TIME} <= {believed} THEN {names.TIME} END"


def _changes_by_key(frame: DataFrame, plan: MergePlan) -> DataFrame:
    """Return changes and snapshot rows of a batch by key, each with the highest place and latest time before it."""
    events = frame.where(f"{IS_EVENT} AND {names.OPERATION} != 'truncate'")
    by_key = keys_of_both(events, plan.dimension.key, (names.OPERATION, names.TIME))
    placed = by_key.selectExpr(
        "*", f"{place_of(str(plan.epoch))} AS {_PLACE}", f"{_believable_time(plan)} AS {_TIME}"
    )
    key = ", ".join(map(quoted, plan.dimension.key))
    before = f"OVER (PARTITION BY {key} ORDER BY {names.OBJECT}, {names.ROW} {ROWS_BEFORE})"
    return placed.selectExpr("*", f"max({_PLACE}) {before} AS {_HIGHEST}", f"max({_TIME}) {before} AS {_LATEST}")


def _with_time_of_batch(highest_stored: DataFrame, times_of_objects: Mapping[int, int]) -> DataFrame:
    """Add the newest time of the batch in which the stored row of each key arrived."""
    order = f"{names.PREFIX}order_of_batch"
    times = inline(
        highest_stored.sparkSession, {order: "bigint", _TIME_OF_BATCH: "bigint"}, [*times_of_objects.items()]
    )
    return highest_stored.join(F.broadcast(times), F.expr(f"{_STORED_PLACE}.o = {order}"), "left").drop(order)


def _stored_places(side_tables: SideTables, plan: MergePlan, frame: DataFrame, rows: Rows) -> DataFrame | None:
    """Return key and place of stored rows and remembered events, or None if there are none."""
    if not rows.are_there:
        return None
    key_range = () if names.OLD in frame.columns else plan.facts.key_range  # the range lacks the old keys
    stored = _with_place(rows.all(key_range).where(f"{names.EPOCH} = {plan.epoch}"), plan, names.EPOCH)
    remembered = None if plan.replaces else side_tables.change_log.events(plan.batch - 1)
    if remembered is None:
        return stored
    return stored.unionByName(_with_place(keys_of_both(remembered, plan.dimension.key), plan, str(plan.epoch)))


def _with_place(frame: DataFrame, plan: MergePlan, epoch: str) -> DataFrame:
    """Return the keys and the places of rows."""
    return frame.selectExpr(*map(quoted, plan.dimension.key), f"{place_of(epoch)} AS {_PLACE}")
