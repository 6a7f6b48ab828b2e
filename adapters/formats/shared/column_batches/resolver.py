"""Resolve a batch of whole rows in Arrow columns."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakeward.adapters.formats.shared.column_batches.batch import ColumnBatch, why_not_resolved
from lakeward.adapters.formats.shared.column_batches.entries import base_entries, entries_of_events
from lakeward.adapters.formats.shared.column_batches.verdicts import KeyVerdicts
from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.steps.counts import counts_of
from lakeward.adapters.formats.shared.rows.system_columns import fill_positions, row_columns
from lakeward.adapters.formats.shared.rows.table_rows import Rows, TableSnapshot
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Ordered
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult

COLUMNS: Final = "Arrow columns"
"""The value of `MergeResult.way` for a batch that was resolved in Arrow columns."""


def resolve_columns(
    side_tables: SideTables, plan: MergePlan, frame: LocalFrame, table: TableSnapshot | None
) -> MergeResult:
    """Resolve a batch in columns; raises SparkNeeded if Spark must do it. The result is that of the core."""
    reason = why_not_resolved(side_tables, plan)
    if reason is not None:
        raise SparkNeeded(reason)
    try:
        return _resolved(side_tables, plan, frame, table)
    except (OverflowError, ValueError) as error:  # errors of Arrow are subclasses
        raise SparkNeeded(f"Arrow or Python cannot hold a value: {error}") from error


def _resolved(
    side_tables: SideTables, plan: MergePlan, frame: LocalFrame, table: TableSnapshot | None
) -> MergeResult:
    batch = ColumnBatch.of(frame.rows)
    batch.refuse_odd_keys(plan.dimension)
    batch.refuse_ties(plan.dimension.key)
    rows = Rows(plan, table, side_tables.spark)
    verdicts = KeyVerdicts.of(plan, batch, rows)
    upserts, counts = _written(plan, verdicts), verdicts.counts
    detail = MergeDetail(
        upserts=LocalFrame(upserts, side_tables.spark),
        removed=LocalFrame(verdicts.places, side_tables.spark) if verdicts.stored_rows.num_rows else None,
        entries=_entries(plan, verdicts, rows),
        places=verdicts.places if verdicts.stored_rows.num_rows else None,
        table=table,
    )
    return MergeResult(
        counts=counts_of(plan, counts, None),
        written=upserts.num_rows,
        removed=verdicts.stored_rows.num_rows,
        detail=detail,
        way=COLUMNS,
    )


def _written(plan: MergePlan, verdicts: KeyVerdicts) -> pa.Table:
    """Return the rows to write, with the system columns."""
    newest, system = verdicts.newest, row_columns(plan.dimension)
    column_names = (*(column.name for column in plan.stored.schema), *system)
    return newest.select([name for name in column_names if name in newest.column_names])


def _entries(plan: MergePlan, verdicts: KeyVerdicts, rows: Rows) -> pa.Table:
    """Return the change log entries of a batch. An `ordered` table remembers only the newest deletes."""
    if isinstance(plan.dimension.lateness, Ordered):
        return entries_of_events(plan, verdicts.deletes)
    entries = entries_of_events(plan, verdicts.batch.events)
    keys = verdicts.base_keys() if plan.folds_remembered and verdicts.stored_rows.num_rows else None
    if keys is None or not keys.num_rows or rows.table is None:
        return entries
    bases = rows.table.find(keys, [*plan.dimension.schema.names, *names.POSITION])
    if bases is None:
        raise SparkNeeded("only Spark can read the stored rows of its keys")
    return pa.concat_tables([entries, base_entries(plan, fill_positions(bases))], promote_options="permissive")
