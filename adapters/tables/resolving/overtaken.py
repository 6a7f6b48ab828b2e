"""Changes that are newer by their time than what came before, and lower in the log, than some of their key."""

from __future__ import annotations

from collections.abc import Mapping
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
from lakeward.core.log_steps import LEAST_GAP
from lakeward.core.plan import MergePlan

_PLACE, _TIME, _IS_DOUBTED, _NEWEST, _STANDS = (
    f"{names.PREFIX}{name}" for name in ("place", "believed_time", "is_doubted", "newest_before", "stands")
)
_OF_OBJECT, _BEFORE_OBJECT = f"{names.PREFIX}highest_of_object", f"{names.PREFIX}highest_before_object"
"""The highest place that came of the object of an event before it, and of its partition before the object."""

_HIGHEST, _LATEST = f"{names.PREFIX}highest_of_key", f"{names.PREFIX}latest_of_key"
"""The highest place and the latest time that came of the key of an event before it, in the batch."""

_MAY_BE: Final = (
    f"{_IS_DOUBTED} AND {names.OPERATION} != 'read' AND {_TIME} - greatest({_NEWEST}, {_LATEST}) >= {LEAST_GAP} "
    f"AND {names.SEQUENCE} < greatest({_BEFORE_OBJECT}, {_OF_OBJECT})"
)


def first_overtaken(kept: Keeping, plan: MergePlan, arrived: Arrived, rows: Rows) -> Mapping[int, int]:
    """Return the row of the first such change of each object that the plan doubts.

    It is `lakeward.core.settling.overtaken.first_overtaken` as SQL. Few batches have such objects, so what stands
    of their keys is looked up once more.
    """
    if not plan.doubted:
        return {}
    key = [*map(quoted, plan.dimension.key)]
    newer = _came(arrived.frame, plan).where(_MAY_BE)
    is_below = f"{_PLACE} < {_HIGHEST}"
    if (known := _known(kept, plan, rows)) is not None:
        wanted = F.broadcast(newer.selectExpr(*key).distinct())
        stands = known.join(wanted, list(plan.dimension.key), "left_semi").groupBy(*key)
        newer = newer.join(stands.agg(F.expr(f"max({_PLACE}) AS {_STANDS}")), list(plan.dimension.key), "left")
        is_below += f" OR {_PLACE} < {_STANDS}"
    if plan.truncates.newest is not None:
        is_below += f" OR {_PLACE} < {literal(plan, plan.truncates.newest)}"
    first = newer.where(is_below).groupBy(F.expr(f"{_PLACE}.o AS object")).agg(F.expr(f"min({_PLACE}.r) AS row"))
    return {found["object"]: found["row"] for found in first.collect()}


def _came(frame: DataFrame, plan: MergePlan) -> DataFrame:
    """Return the changes and snapshot rows of a batch by key, with what came of it before each of them."""
    types = {names.OBJECT: "bigint", _NEWEST: "bigint", _BEFORE_OBJECT: "decimal(38,0)"}
    doubts = [(order, *doubt) for order, doubt in plan.doubted.items()]
    doubted = inline(frame.sparkSession, types, doubts).selectExpr("*", f"true AS {_IS_DOUBTED}")
    beside = (names.OPERATION, names.TIME)
    came = keys_of_both(
        frame.where(f"{IS_EVENT} AND {names.OPERATION} != 'truncate'"), plan.dimension.key, beside
    ).join(F.broadcast(doubted), names.OBJECT, "left")
    believed = f"{names.TIME} <= {plan.facts.believed}" if plan.facts.believed is not None else "true"
    key = ", ".join(map(quoted, plan.dimension.key))
    before = f"OVER (PARTITION BY {key} ORDER BY {names.OBJECT}, {names.ROW} {ROWS_BEFORE})"
    placed = came.selectExpr(
        *("*", f"{place_of(str(plan.epoch))} AS {_PLACE}"),
        f"CASE WHEN {believed} THEN {names.TIME} END AS {_TIME}",
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
