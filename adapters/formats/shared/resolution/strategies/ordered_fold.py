"""Resolve batches by folding their events in position order, over the change log or the stored rows."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.steps.applicable_events import (
    ApplicableEvents,
    find_applicable_events,
)
from lakeward.adapters.formats.shared.resolution.steps.arrivals import Arrivals
from lakeward.adapters.formats.shared.resolution.steps.counts import counts_of
from lakeward.adapters.formats.shared.resolution.steps.held_keys import held_keys, keys_of_waiting_changes
from lakeward.adapters.formats.shared.resolution.steps.hold_filter import leave_out_waiting
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.event_frame import IS_LOAD
from lakeward.adapters.spark.merge.fold.chain_results import Chains
from lakeward.adapters.spark.merge.resolution import ID, INCOMPLETE, as_rejects
from lakeward.adapters.spark.shaping.recomputed_columns import recompute
from lakeward.core.dimension import Ordered
from lakeward.core.events import Position
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def resolve_in_order(side_tables: SideTables, plan: MergePlan, arrivals: Arrivals, rows: Rows) -> MergeResult:
    """Fold the events in order. Key changes that no rule decides hold their keys."""
    applicable = find_applicable_events(side_tables, plan, arrivals, rows)
    chains = applicable.chains
    tally, incomplete = chains.counts()
    with_incomplete = _with_incomplete(plan, applicable, incomplete)
    waiting, waiting_again = leave_out_waiting(side_tables, plan, applicable.waiting)
    numbering = chains.numbering()
    upserts = recompute(chains.rows(numbering), plan.recomputed)
    removed, drops_below = _removed(plan, chains, rows)
    detail = MergeDetail(
        upserts=upserts,
        removed=removed,
        changes=_with_truncates(_changes(plan, applicable.passing, chains), arrivals.truncates),
        bases=chains.bases() if plan.folds_remembered and not _is_ordered(plan) else None,
        waiting=waiting,
        released=applicable.released(plan),
        drops_below=drops_below,
        rejects=with_incomplete.rejects(plan),
        table=rows.table,
    )
    rejects = with_incomplete.rejects_by_reason(plan)
    repeated = waiting_again + arrivals.copies.rows
    tally = replace(tally, duplicates=tally.duplicates + repeated, quarantined=sum(rejects.values()))
    return MergeResult(
        counts=_counts(plan, tally, applicable, detail, incomplete),
        written=upserts.count(),
        removed=removed.count(),
        current=chains.opened(),
        numbered=numbering.given,
        held=len(_held(side_tables, plan, applicable)),
        rejects=rejects,
        detail=detail,
        close=detail.close,
    )


def _with_incomplete(plan: MergePlan, applicable: ApplicableEvents, incomplete: int) -> Arrivals:
    """Return the arrivals; on an `ordered` table, events that found no row to complete are rejects."""
    arrivals = applicable.arrivals
    if not (incomplete and _is_ordered(plan)):
        return arrivals
    ids = applicable.chains.verdicts().where("verdict = 'incomplete'").selectExpr(f"id AS {ID}")
    return replace(
        arrivals,
        frame=as_rejects(arrivals.frame, plan, ids, Reason.INCOMPLETE_ROW, INCOMPLETE),
        refused={**arrivals.refused, Reason.INCOMPLETE_ROW: incomplete},
    )


def _removed(plan: MergePlan, chains: Chains, rows: Rows) -> tuple[DataFrame, Position | None]:
    """Return the rows that go, and the position of a truncate if all rows below it go."""
    removed = chains.removed()
    if plan.dimension.keeps_ended:
        return removed, None
    return rows.with_truncated(removed), plan.truncates.removes_below


def _changes(plan: MergePlan, passing: DataFrame, chains: Chains) -> DataFrame:
    """Return the events for the change log. Rows of a full load are left out where the table has them."""
    if _is_ordered(plan):
        return _deletes(passing, chains)
    if not plan.folds_remembered:
        return passing.where(f"NOT {IS_LOAD}")
    return passing if chains.settled is None else passing.join(chains.settled, ID, "left_anti")


def _deletes(passing: DataFrame, chains: Chains) -> DataFrame:
    """Return the deletes that are still in force after the batch: an `ordered` table remembers only these."""
    in_force = chains.verdicts().where("verdict = 'applied' AND operation = 'delete'").selectExpr(f"id AS {ID}")
    return passing.join(in_force, ID, "left_semi")


def _with_truncates(changes: DataFrame, truncates: DataFrame | None) -> DataFrame:
    return changes if truncates is None else changes.unionByName(truncates, allowMissingColumns=True)


def _counts(
    plan: MergePlan, tally: Counts, applicable: ApplicableEvents, detail: MergeDetail, incomplete: int
) -> Counts:
    """Complete the counts. An event that found no row to complete waits for one, where one may still come."""
    counts = counts_of(plan, tally, detail.waiting)
    if plan.releases:
        refused = sum(applicable.arrivals.refused.values())
        return replace(counts, released=counts.released + incomplete + refused)
    waiting = counts.waiting if _is_ordered(plan) else counts.waiting + incomplete
    released = 0 if detail.released is None else detail.released.count()
    return replace(counts, released=released, waiting=waiting)


def _held(side_tables: SideTables, plan: MergePlan, applicable: ApplicableEvents) -> set[str]:
    """Return the texts of the keys that are held afterwards, by quarantined rows and by waiting key changes."""
    arrivals = applicable.arrivals
    keys = held_keys(side_tables, plan, arrivals.rows, has_refused=arrivals.has_refused)
    return keys | keys_of_waiting_changes(side_tables, plan, applicable)


def _is_ordered(plan: MergePlan) -> bool:
    return isinstance(plan.dimension.lateness, Ordered)
