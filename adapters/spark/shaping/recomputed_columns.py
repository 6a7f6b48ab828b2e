"""Compute rule columns of stored rows again: DataFrame to DataFrame.

`lakeward.core.shaping.cells.recompute` defines the result.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from lakeward.adapters.spark.shaping.column_rules import values
from lakeward.adapters.spark.sql.names import PREFIX, quoted
from lakeward.core.shaping.recomputed_columns import RecomputedColumns, RecomputeStep

_ROW: Final = f"{PREFIX}row_that_stands"


def recompute(rows: DataFrame, recomputed: RecomputedColumns) -> DataFrame:
    """Return rows in which the columns that rules make of several columns are computed again."""
    if not recomputed:
        return rows
    rest = [quoted(name) for name in rows.columns if name not in recomputed.columns]
    frame = rows.selectExpr(*rest)
    for step in recomputed.steps:
        frame = _apply_step(frame, step)
    return frame.selectExpr(
        *rest, *[f"{quoted(place)} AS {quoted(name)}" for name, place in recomputed.columns.items()]
    )


def _apply_step(frame: DataFrame, step: RecomputeStep) -> DataFrame:
    """Add the columns that a rule makes. The rule reads columns by the names that they had at its step."""
    reads = [f"{quoted(place)} AS {quoted(name)}" for name, place in step.reads.items()]
    named = frame.selectExpr(f"struct(*) AS {_ROW}", *reads)
    values_by_place = zip(values(step.step, ()), step.makes, strict=True)
    return named.selectExpr(f"{_ROW}.*", *[f"{value} AS {quoted(place)}" for value, place in values_by_place])
