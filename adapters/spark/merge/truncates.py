"""Truncates of a batch and the rows that they overrule: `core/merge/truncates.py` for frames."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.spark.frames.event_frame import IS_TRUNCATE
from lakeward.adapters.spark.merge.resolution import sequence_literal
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.events import Operation, Position
from lakeward.core.merge.change_log import Hold, Reason
from lakeward.core.plan import MergePlan


def without_truncates(frame: DataFrame, plan: MergePlan) -> tuple[DataFrame, DataFrame | None]:
    """Return the frame without the truncates above the low watermark, and the truncates to remember."""
    if not plan.facts.truncates:
        return frame, None
    in_time = (
        ""
        if plan.low_watermark is None
        else f" AND {names.SEQUENCE} > {sequence_literal(plan, plan.low_watermark.sequence)}"
    )
    is_truncate = f"({IS_TRUNCATE}{in_time})"
    rest = frame.where(f"NOT coalesce({is_truncate}, false)")
    places = ", ".join(literal(plan, truncate) for truncate in plan.truncates.arrived)
    return rest, frame.where(f"{is_truncate} AND {place_of(str(plan.epoch))} IN ({places})") if places else None


def in_force(plan: MergePlan) -> list[Hold]:
    """Return the holds that no truncate of the batch overrules."""
    return [hold for hold in plan.holds if not plan.truncates.overrules(hold.position, hold.reason)]


def not_overruled(plan: MergePlan, rows: DataFrame) -> DataFrame:
    """Return the rows that hold a key or wait and that no truncate overrules: `Truncates.overrule` as SQL."""
    if not plan.truncates.all:
        return rows
    is_above = f"{place_of(str(plan.epoch))} > {literal(plan, plan.truncates.all[-1])}"
    has_no_place = f"{names.REASON} <=> '{Reason.SEQUENCE.value}'"
    return rows.where(f"{has_no_place} OR {is_above}" if names.REASON in rows.columns else is_above)


def place_of(epoch: str) -> str:
    """Return SQL for the position of a row."""
    return f"named_struct('e', {epoch}, 's', {names.SEQUENCE}, 'o', {names.OBJECT}, 'r', {names.ROW})"


def literal(plan: MergePlan, place: Position) -> str:
    """Return a position as an SQL literal that can be compared with the position of a row."""
    sequence = sequence_literal(plan, place.sequence)
    return f"named_struct('e', {place.epoch}, 's', {sequence}, 'o', {place.object}L, 'r', {place.row}L)"


def truncation(
    spark: SparkSession, dimension: Dimension, place: Position, time: int | None, *, in_part: bool
) -> DataFrame:
    """Return a frame of one truncate. `time` is its source time in microseconds, or None.

    With `in_part` it also has the columns of sources that may send rows in part.
    """
    types = {column.name: ddl(column.type) for column in dimension.schema}
    key = ", ".join(f"{quoted(name)}: {types[name]}" for name in dimension.key)
    parts = {names.UNSET: "array<string>", names.OLD: f"struct<{key}>", names.TRANSACTION: "string"}
    nulls = dict.fromkeys((names.REASON, names.DETAIL, names.TEXT), "string") | (parts if in_part else {})
    return spark.range(1).selectExpr(
        *[f"CAST(NULL AS {type_}) AS {quoted(name)}" for name, type_ in types.items()],
        f"'{Operation.TRUNCATE.value}' AS {names.OPERATION}",
        f"CAST('{place.sequence}' AS {names.sequence_type(dimension.sequences)}) AS {names.SEQUENCE}",
        f"{place.object}L AS {names.OBJECT}",
        f"{place.row}L AS {names.ROW}",
        f"1L AS {names.ARRIVAL}",
        f"CAST({'NULL' if time is None else time} AS bigint) AS {names.TIME}",
        *[f"CAST(NULL AS {type_}) AS {name}" for name, type_ in nulls.items()],
    )
