"""Changes that are newer by their time than what came of their keys, and lie below it in the log of the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark import names
from lakeward.adapters.spark.events import IS_EVENT, ROWS_BEFORE
from lakeward.adapters.spark.inline import inline
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.spark.resolve import keys_of_both
from lakeward.adapters.spark.truncates import literal, place_of
from lakeward.adapters.tables.keeping import Keeping
from lakeward.adapters.tables.resolving.sorting import Arrived
from lakeward.adapters.tables.rows import Rows
from lakeward.core.events import Position
from lakeward.core.log_steps import LEAST_GAP
from lakeward.core.plan import MergePlan

_PLACE, _TIME, _STANDS, _OF_BATCH = (
    f"{names.PREFIX}{name}" for name in ("place", "believed_time", "stands", "time_of_batch")
)
_HIGHEST, _LATEST = f"{names.PREFIX}highest_of_key", f"{names.PREFIX}latest_of_key"
"""The highest place and the latest time that came of the key of an event before it, in the batch."""

_IS_CHANGE: Final = f"{names.OPERATION} != 'read' AND {_TIME} IS NOT NULL"


def first_overtaken(kept: Keeping, plan: MergePlan, arrived: Arrived, rows: Rows) -> Mapping[int, int]:
    """Return the row of the first such change of each object that the plan doubts.

    It is `lakeward.core.settling.overtaken.first_overtaken` as SQL. Few batches have such objects, so what stands
    of their keys is looked up once more.
    """
    if not plan.doubted:
        return {}
    of_batches = kept.companion.batches.times
    of_objects = f"{names.OBJECT} IN ({', '.join(map(str, sorted(plan.doubted)))})"
    came = _came(arrived.frame, plan).where(f"{of_objects} AND {_IS_CHANGE}")
    is_below = [_is_below(_HIGHEST, _LATEST), *_below_truncates(plan, arrived.truncates, of_batches)]
    if (known := _known(kept, plan, rows)) is not None:
        key = [*map(quoted, plan.dimension.key)]
        wanted = F.broadcast(came.selectExpr(*key).distinct())
        newest = known.join(wanted, list(plan.dimension.key), "left_semi").groupBy(*key)
        stands = _with_time_of_batch(newest.agg(F.expr(f"max({_PLACE}) AS {_STANDS}")), of_batches)
        came = came.join(stands, list(plan.dimension.key), "left")
        is_below.append(_is_below(_STANDS, _OF_BATCH))
    found = came.where(" OR ".join(is_below))
    first = found.groupBy(F.expr(f"{_PLACE}.o AS object")).agg(F.expr(f"min({_PLACE}.r) AS row"))
    return {row["object"]: row["row"] for row in first.collect()}


def _is_below(place: str, time: str) -> str:
    """Whether a change lies below what is older, as SQL: below a place, and newer than a time."""
    return f"({_PLACE} < {place} AND {_TIME} - {time} >= {LEAST_GAP})"


def _below_truncates(plan: MergePlan, arrived: DataFrame | None, of_batches: Mapping[int, int]) -> Iterator[str]:
    """Yield whether a change lies below a truncate that is older: of the batch and before it, or remembered."""
    newest = plan.truncates.newest
    if newest is not None and (of_batch := of_batches.get(newest.object)) is not None:
        yield _is_below(literal(plan, newest), f"{of_batch}L")
    place = (names.SEQUENCE, names.OBJECT, names.ROW, f"{_believed(plan)} AS time")
    for sequence, order, row, time in [] if arrived is None else arrived.selectExpr(*place).collect():
        if time is not None:
            position = literal(plan, Position(plan.epoch, int(sequence), order, row))
            is_behind = f"({names.OBJECT}, {names.ROW}) > ({order}L, {row}L)"
            yield f"({is_behind} AND {_is_below(position, f'{time}L')})"


def _believed(plan: MergePlan) -> str:
    """Return the time of an event as SQL, NULL where it is not believed."""
    believed = plan.facts.believed
    return names.TIME if believed is None else f"CASE WHEN {names.TIME} <= {believed} THEN {names.TIME} END"


def _came(frame: DataFrame, plan: MergePlan) -> DataFrame:
    """Return the changes and snapshot rows of a batch by key, with what came of it before each of them."""
    events = frame.where(f"{IS_EVENT} AND {names.OPERATION} != 'truncate'")
    came = keys_of_both(events, plan.dimension.key, (names.OPERATION, names.TIME))
    placed = came.selectExpr("*", f"{place_of(str(plan.epoch))} AS {_PLACE}", f"{_believed(plan)} AS {_TIME}")
    key = ", ".join(map(quoted, plan.dimension.key))
    before = f"OVER (PARTITION BY {key} ORDER BY {names.OBJECT}, {names.ROW} {ROWS_BEFORE})"
    return placed.selectExpr("*", f"max({_PLACE}) {before} AS {_HIGHEST}", f"max({_TIME}) {before} AS {_LATEST}")


def _with_time_of_batch(stands: DataFrame, of_batches: Mapping[int, int]) -> DataFrame:
    """Add the newest time of the batch that what stands of a key came with."""
    order = f"{names.PREFIX}order_of_batch"
    times = inline(stands.sparkSession, {order: "bigint", _OF_BATCH: "bigint"}, [*of_batches.items()])
    return stands.join(F.broadcast(times), F.expr(f"{_STANDS}.o = {order}"), "left").drop(order)


def _known(kept: Keeping, plan: MergePlan, rows: Rows) -> DataFrame | None:
    """Return the places of rows and of events that are remembered, by key, or None where there are none."""
    if not rows.are_there:
        return None
    known = _with_place(rows.all().where(f"{names.EPOCH} = {plan.epoch}"), plan, names.EPOCH)
    remembered = None if plan.replaces else kept.companion.events(plan.batch - 1)
    if remembered is None:
        return known
    return known.unionByName(_with_place(keys_of_both(remembered, plan.dimension.key), plan, str(plan.epoch)))


def _with_place(frame: DataFrame, plan: MergePlan, epoch: str) -> DataFrame:
    """Return the keys of rows, and their places."""
    return frame.selectExpr(*map(quoted, plan.dimension.key), f"{place_of(epoch)} AS {_PLACE}")
