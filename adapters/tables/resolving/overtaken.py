"""Changes that are newer by their time than what came before, and lower in the log, than some of their key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

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

_PLACE, _TIME, _IS_DOUBTED, _NEWEST, _STANDS = (
    f"{names.PREFIX}{name}" for name in ("place", "believed_time", "is_doubted", "newest_before", "stands")
)
_OF_OBJECT, _BEFORE_OBJECT = f"{names.PREFIX}highest_of_object", f"{names.PREFIX}highest_before_object"
"""The highest place that came of the object of an event before it, and of its partition before the object."""

_HIGHEST, _LATEST = f"{names.PREFIX}highest_of_key", f"{names.PREFIX}latest_of_key"
"""The highest place and the latest time that came of the key of an event before it, in the batch."""

_IS_NEWER: Final = f"{_TIME} - greatest({_NEWEST}, {_LATEST}) >= {LEAST_GAP}"


def first_overtaken(kept: Keeping, plan: MergePlan, arrived: Arrived, rows: Rows) -> Mapping[int, int]:
    """Return the row of the first such change of each object that the plan doubts.

    It is `lakeward.core.settling.overtaken.first_overtaken` as SQL. Few batches have such objects, so what stands
    of their keys is looked up once more.
    """
    if not plan.doubted:
        return {}
    key, truncates = [*map(quoted, plan.dimension.key)], _truncates(arrived.truncates, plan)
    is_lower = [f"{names.SEQUENCE} < greatest({_BEFORE_OBJECT}, {_OF_OBJECT})", *(t.steps_back for t in truncates)]
    is_change = f"{_IS_DOUBTED} AND {names.OPERATION} != 'read'"
    newer = _came(arrived.frame, plan).where(f"{is_change} AND {_IS_NEWER} AND ({' OR '.join(is_lower)})")
    is_below = [f"{_PLACE} < {_HIGHEST}", *(truncate.lies_above for truncate in truncates)]
    if (known := _known(kept, plan, rows)) is not None:
        wanted = F.broadcast(newer.selectExpr(*key).distinct())
        stands = known.join(wanted, list(plan.dimension.key), "left_semi").groupBy(*key)
        newer = newer.join(stands.agg(F.expr(f"max({_PLACE}) AS {_STANDS}")), list(plan.dimension.key), "left")
        is_below.append(f"{_PLACE} < {_STANDS}")
    if plan.truncates.newest is not None:
        is_below.append(f"{_PLACE} < {literal(plan, plan.truncates.newest)}")
    found = newer.where(" OR ".join(is_below))
    first = found.groupBy(F.expr(f"{_PLACE}.o AS object")).agg(F.expr(f"min({_PLACE}.r) AS row"))
    return {row["object"]: row["row"] for row in first.collect()}


class _Truncate(NamedTuple):
    """What a truncate of the batch says of a change behind it, as SQL.

    Whether the change steps back in their object, and whether it is newer and lies below the truncate.
    """

    steps_back: str
    lies_above: str


def _truncates(frame: DataFrame | None, plan: MergePlan) -> Sequence[_Truncate]:
    """Return the truncates that came with a batch."""
    place, found = (names.SEQUENCE, names.OBJECT, names.ROW), []
    time = f"CASE WHEN {_is_believed(plan)} THEN {names.TIME} END"
    for sequence, order, row, at in [] if frame is None else frame.selectExpr(*place, time).collect():
        is_in_object = f"({names.OBJECT} = {order}L AND {names.ROW} > {row}L AND {names.SEQUENCE} < {sequence})"
        position = literal(plan, Position(plan.epoch, int(sequence), order, row))
        is_behind = f"({names.OBJECT}, {names.ROW}) > ({order}L, {row}L)"
        is_newer = "false" if at is None else f"{_TIME} - {at}L >= {LEAST_GAP}"
        found.append(_Truncate(is_in_object, f"({is_behind} AND {_PLACE} < {position} AND {is_newer})"))
    return found


def _is_believed(plan: MergePlan) -> str:
    """Whether a time is believed, as SQL."""
    return "true" if plan.facts.believed is None else f"coalesce({names.TIME} <= {plan.facts.believed}, true)"


def _came(frame: DataFrame, plan: MergePlan) -> DataFrame:
    """Return the changes and snapshot rows of a batch by key, with what came of it before each of them."""
    types = {names.OBJECT: "bigint", _NEWEST: "bigint", _BEFORE_OBJECT: "decimal(38,0)"}
    doubts = [(order, *doubt) for order, doubt in plan.doubted.items()]
    doubted = inline(frame.sparkSession, types, doubts).selectExpr("*", f"true AS {_IS_DOUBTED}")
    beside = (names.OPERATION, names.TIME)
    came = keys_of_both(
        frame.where(f"{IS_EVENT} AND {names.OPERATION} != 'truncate'"), plan.dimension.key, beside
    ).join(F.broadcast(doubted), names.OBJECT, "left")
    key = ", ".join(map(quoted, plan.dimension.key))
    before = f"OVER (PARTITION BY {key} ORDER BY {names.OBJECT}, {names.ROW} {ROWS_BEFORE})"
    placed = came.selectExpr(
        *("*", f"{place_of(str(plan.epoch))} AS {_PLACE}"),
        f"CASE WHEN {_is_believed(plan)} THEN {names.TIME} END AS {_TIME}",
    )
    change = f"CASE WHEN {names.OPERATION} != 'read' THEN {names.SEQUENCE} END"
    of_object = f"max({change}) OVER (PARTITION BY {names.OBJECT} ORDER BY {names.ROW} {ROWS_BEFORE})"
    of_key = (f"max({_PLACE}) {before} AS {_HIGHEST}", f"max({_TIME}) {before} AS {_LATEST}")
    return placed.selectExpr("*", f"CAST({of_object} AS decimal(38,0)) AS {_OF_OBJECT}", *of_key)


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
