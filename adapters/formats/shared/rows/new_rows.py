"""The rows that a plan adds, as the table has them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.spark.frames.local_frame import LocalFrame, in_spark
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult

_ROWS_A_FILE: Final = 1_000_000
"""One writing task for so many rows: small batches make one file, not one for each core."""


def written(plan: MergePlan, resolved: MergeResult) -> DataFrame:
    """Return the rows to be added, with all columns that the plan gives the table, and those of lakeward."""
    outcome: Outcome = resolved.detail
    return as_stored(plan, in_spark(outcome.upserts)).coalesce(1 + resolved.written // _ROWS_A_FILE)


def as_stored(plan: MergePlan, rows: DataFrame) -> DataFrame:
    """Return rows with all columns that the plan gives the table, and those of lakeward."""
    has = set(rows.columns)
    epoch = names.EPOCH if plan.dimension.history is not None else str(plan.epoch)
    reached = () if plan.dimension.history is None else (names.REACHED,)
    return rows.selectExpr(
        *[
            f"CAST({quoted(c.name) if c.name in has else 'NULL'} AS {ddl(c.type)}) AS {quoted(c.name)}"
            for c in plan.stored.schema
        ],
        f"{epoch} AS {names.EPOCH}",
        *(names.SEQUENCE, names.OBJECT, names.ROW),
        f"{plan.batch}L AS {names.BATCH}",
        *reached,
    )


def stored_rows(plan: MergePlan, outcome: Outcome) -> pa.Table | None:
    """Return the rows that `written` gives as rows of Arrow, where they are in this process; else None.

    What the plan gives the table, and they have not, is not among their columns: it is NULL.
    """
    if not isinstance(outcome.upserts, LocalFrame):
        return None
    rows = outcome.upserts.rows
    numbers = {names.BATCH: plan.batch}
    if plan.dimension.history is None:
        numbers[names.EPOCH] = plan.epoch
    rows = rows.drop_columns([name for name in numbers if name in rows.column_names])
    for name, number in numbers.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows))
    return rows
