"""Columns that rules make of the row that stands: DataFrame to DataFrame.

What they must come to is said by `lakeward.core.shaping.cells.remade`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from lakeward.adapters.spark.shaping.column_rules import values
from lakeward.adapters.spark.sql.names import PREFIX, quoted
from lakeward.core.shaping.recomputed_columns import Again, RecomputedColumns

_ROW: Final = f"{PREFIX}row_that_stands"


def remade(rows: DataFrame, recomputed: RecomputedColumns) -> DataFrame:
    """Return rows with the columns that are made of several others made again."""
    if not recomputed:
        return rows
    rest = [quoted(name) for name in rows.columns if name not in recomputed.columns]
    frame = rows.selectExpr(*rest)
    for again in recomputed.steps:
        frame = _carried_out(frame, again)
    return frame.selectExpr(
        *rest, *[f"{quoted(place)} AS {quoted(name)}" for name, place in recomputed.columns.items()]
    )


def _carried_out(frame: DataFrame, again: Again) -> DataFrame:
    """Add what a rule makes; while it is made, columns are called as they were when the rule read them."""
    reads = [f"{quoted(place)} AS {quoted(name)}" for name, place in again.reads.items()]
    named = frame.selectExpr(f"struct(*) AS {_ROW}", *reads)
    made = zip(values(again.step, ()), again.makes, strict=True)
    return named.selectExpr(f"{_ROW}.*", *[f"{value} AS {quoted(place)}" for value, place in made])
