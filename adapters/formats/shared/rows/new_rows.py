"""The rows that a plan writes, new or rewritten, with the columns of the table."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.spark.frames.local_frame import LocalFrame, in_spark
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted, rename_columns
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult

_ROWS_A_FILE: Final = 1_000_000
"""Rows for each writing task: a small batch makes one file, not one for each core."""


def rows_to_write(plan: MergePlan, resolved: MergeResult) -> DataFrame:
    """Return the rows to add, with all columns that the plan gives the table, and the system columns."""
    detail: MergeDetail = resolved.detail
    return as_stored(plan, in_spark(detail.upserts)).coalesce(1 + resolved.written // _ROWS_A_FILE)


def as_stored(plan: MergePlan, rows: DataFrame) -> DataFrame:
    """Return rows with all columns that the plan gives the table, and the system columns."""
    names_present = set(rows.columns)
    epoch = names.EPOCH if plan.dimension.history is not None else str(plan.epoch)
    reached = () if plan.dimension.history is None else (names.REACHED,)
    return rows.selectExpr(
        *[
            f"CAST({quoted(c.name) if c.name in names_present else 'NULL'} AS {ddl(c.type)}) AS {quoted(c.name)}"
            for c in plan.stored.schema
        ],
        f"{epoch} AS {names.EPOCH}",
        *(names.SEQUENCE, names.OBJECT, names.ROW),
        f"{plan.batch}L AS {names.BATCH}",
        *reached,
    )


def remaining_rows(plan: MergePlan, stored: DataFrame, removed: DataFrame | None) -> DataFrame:
    """Return stored rows as they are rewritten: with the columns after the plan, without the removed ones.

    `removed` are the identity columns of the rows to remove, with their names after the plan.
    """
    rows = fitted(rename_columns(stored, plan.renames), plan.stored.schema)
    return rows if removed is None else rows.join(removed, removed.columns, "left_anti")


def stored_rows(plan: MergePlan, detail: MergeDetail) -> pa.Table | None:
    """Return the rows of `rows_to_write` in Arrow, if they are in this process, else None.

    Columns that are missing from them are NULL.
    """
    if not isinstance(detail.upserts, LocalFrame):
        return None
    rows = detail.upserts.rows
    numbers = {names.BATCH: plan.batch}
    if plan.dimension.history is None:
        numbers[names.EPOCH] = plan.epoch
    rows = rows.drop_columns([name for name in numbers if name in rows.column_names])
    for name, number in numbers.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows))
    return rows
