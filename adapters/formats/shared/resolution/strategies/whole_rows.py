"""Resolve batches of whole rows against the stored rows of their keys, in one pass."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.steps.arrivals import Arrivals
from lakeward.adapters.formats.shared.resolution.steps.counts import counts_of
from lakeward.adapters.formats.shared.resolution.steps.held_keys import held_keys
from lakeward.adapters.formats.shared.resolution.steps.hold_filter import leave_out_waiting, split_by_holds
from lakeward.adapters.formats.shared.resolution.steps.verdicts import (
    RowVerdicts,
    changes_of,
    is_ordered,
    judge_events,
)
from lakeward.adapters.formats.shared.resolution.strategies.ordered_fold import resolve_in_order
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.execution.cached_frames import freed_on_failure
from lakeward.adapters.spark.frames.event_frame import LOAD
from lakeward.adapters.spark.merge.resolution import (
    IS_LIVE,
    IS_NEWS,
    counts,
    events_of,
    sequence_literal,
    stored_column,
    winners,
)
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.merge.change_log import HOLDING
from lakeward.core.merge.facts import PARTIAL
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def whole_rows_suffice(side_tables: SideTables, plan: MergePlan, *, has_late: bool) -> bool:
    """Return True if stored rows decide a batch of whole rows, although the table may remember partial rows.

    Each event of such a batch is newer than every event that the table has applied, and leaves a row or none,
    whatever came before. If the table remembers key changes, they join keys to chains, which no single row decides.
    """
    dimension, facts = plan.dimension, plan.facts
    needs_memory = plan.recalls or plan.replaces or plan.releases or plan.holds or plan.copies or plan.truncates.all
    needs_cells = dimension.keeps_ended or plan.recomputed or plan.evolution.lacks_columns or facts.has_loads
    if is_ordered(plan) or PARTIAL & facts.needs or needs_memory or needs_cells:
        return False
    if has_late or any(reason in HOLDING for reason in facts.rejects):
        return False
    change_log = side_tables.change_log
    return not (change_log.batches.ordered_until or change_log.has_key_changes(plan.batch - 1))


def resolve_whole_rows(side_tables: SideTables, plan: MergePlan, arrivals: Arrivals, rows: Rows) -> MergeResult:
    """Judge the events of each key by its stored row.

    A batch that lacks a column is resolved here too, if each of its updates finds a row to keep that column of.
    """
    passing, waiting = split_by_holds(side_tables, plan, arrivals, events_of(arrivals.frame))
    waiting, waiting_again = leave_out_waiting(side_tables, plan, waiting)
    remembered_deletes = side_tables.change_log.deletes(plan.batch - 1) if plan.recalls else None
    stored = None if rows.table is None else rows.find_stored(passing, remembered_deletes)
    remembers_all = waiting is None and not plan.releases and not plan.folds_remembered
    row_verdicts = judge_events(plan, passing, stored, remembers_all=remembers_all)
    with freed_on_failure(row_verdicts.close):
        tally, written, removed = counts(row_verdicts.sums, row_verdicts.frame, passing, plan)
        if plan.evolution.lacks_columns and tally.update_on_missing:
            return _in_order(side_tables, plan, arrivals, rows, row_verdicts)
        all_written = written == tally.stale + tally.duplicates + tally.superseded + tally.applied
        upserts = passing if all_written else winners(passing, row_verdicts.frame, deletes=False)
        has_deletes = is_ordered(plan) and tally.applied > written
        detail = replace(
            _detail(plan, rows, row_verdicts, passing, upserts),
            deletes=winners(passing, row_verdicts.frame, deletes=True) if has_deletes else None,
            waiting=waiting,
            rejects=arrivals.rejects(plan),
        )
        rejects = arrivals.rejects_by_reason(plan)
        repeated = waiting_again + arrivals.copies.rows
        tally = replace(tally, duplicates=tally.duplicates + repeated, quarantined=sum(rejects.values()))
        return MergeResult(
            counts=counts_of(plan, tally, waiting),
            written=written,
            removed=removed,
            held=len(held_keys(side_tables, plan, arrivals.frame)),
            rejects=rejects,
            detail=detail,
            close=detail.close,
        )


def _detail(
    plan: MergePlan, rows: Rows, row_verdicts: RowVerdicts, passing: DataFrame, upserts: DataFrame
) -> MergeDetail:
    """Return the frames that the verdicts make of the events that do not wait."""
    return MergeDetail(
        upserts=rows.with_stored_values(upserts, row_verdicts.frame),
        removed=row_verdicts.frame.where(f"{IS_NEWS} AND {IS_LIVE}"),
        changes=None if is_ordered(plan) else changes_of(passing),
        bases=_base_rows(plan, rows, row_verdicts) if plan.folds_remembered and not is_ordered(plan) else None,
        released=passing if plan.releases else None,
        entries=row_verdicts.entries,
        places=row_verdicts.places,
        table=rows.table,
        cached=row_verdicts.cached,
    )


def _base_rows(plan: MergePlan, rows: Rows, row_verdicts: RowVerdicts) -> DataFrame | None:
    """Return the stored rows of the keys of which nothing is remembered, or None if there are none.

    A row that an event above the low watermark wrote has that event in the change log, unless a full load wrote it.
    """
    epoch, sequence = stored_column(names.EPOCH), stored_column(names.SEQUENCE)
    above = f"{epoch} = {plan.epoch} AND {sequence} != {LOAD}"
    if plan.low_watermark is not None:
        above += f" AND {sequence} > {sequence_literal(plan, plan.low_watermark.sequence)}"
    keys = row_verdicts.frame.where(f"{IS_LIVE} AND NOT ({above})").select(*map(quoted, plan.dimension.key))
    return None if keys.isEmpty() else rows.of(keys)


def _in_order(
    side_tables: SideTables, plan: MergePlan, arrivals: Arrivals, rows: Rows, row_verdicts: RowVerdicts
) -> MergeResult:
    """Fold a batch that lacks a column and updates a key without a row: a partial event makes no row."""
    row_verdicts.close()
    return resolve_in_order(side_tables, replace(plan, folds=True), arrivals, rows)
