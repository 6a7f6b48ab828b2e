"""The rows that a plan adds, as the table has them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from lakeward.adapters.spark import names
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.spark.types import ddl
from lakeward.adapters.tables.outcome import Outcome
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Resolved

_ROWS_A_FILE: Final = 1_000_000
"""One writing task for so many rows: small batches make one file, not one for each core."""


def written(plan: MergePlan, resolved: Resolved) -> DataFrame:
    """Return the rows to be added, with all columns that the plan gives the table, and those of lakeward."""
    outcome: Outcome = resolved.detail
    return as_stored(plan, outcome.upserts).coalesce(1 + resolved.written // _ROWS_A_FILE)


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
