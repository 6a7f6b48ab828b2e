"""Working out batches whose events are folded in order over what is remembered, or over what stands."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.resolution.steps.applicable_events import Decided, decide
from lakeward.adapters.formats.shared.resolution.steps.arrivals import Arrived
from lakeward.adapters.formats.shared.resolution.steps.counts import counts_of
from lakeward.adapters.formats.shared.resolution.steps.held_keys import held_keys, moved_keys
from lakeward.adapters.formats.shared.resolution.steps.hold_filter import not_waiting_yet
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.frames.event_frame import IS_LOAD
from lakeward.adapters.spark.merge.fold.chain_results import Chains
from lakeward.adapters.spark.merge.resolution import ID, INCOMPLETE, as_rejects
from lakeward.adapters.spark.shaping.recomputed_columns import remade
from lakeward.core.dimension import Ordered
from lakeward.core.events import Position
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def by_folding(kept: Keeping, plan: MergePlan, arrived: Arrived, rows: Rows) -> MergeResult:
    """Fold the events in order; hold key changes that no rule decides."""
    decided = decide(kept, plan, arrived, rows)
    chains = decided.chains
    tally, incomplete = chains.counts()
    refused = _with_incomplete(plan, decided, incomplete)
    waiting, waited = not_waiting_yet(kept, plan, decided.waiting)
    numbering = chains.numbering()
    upserts = remade(chains.rows(numbering), plan.recomputed)
    removed, drops_below = _removed(plan, chains, rows)
    outcome = Outcome(
        upserts=upserts,
        removed=removed,
        changes=_with(_changes(plan, decided.passing, chains), arrived.truncates),
        bases=chains.bases() if plan.in_part and not _is_ordered(plan) else None,
        waiting=waiting,
        released=decided.released(plan),
        drops_below=drops_below,
        rejects=refused.rejects(plan),
        table=rows.table,
    )
    rejects = refused.rejects_by_reason(plan)
    again = waited + arrived.known.rows
    tally = replace(tally, duplicates=tally.duplicates + again, quarantined=sum(rejects.values()))
    return MergeResult(
        counts=_counts(plan, tally, decided, outcome, incomplete),
        written=upserts.count(),
        removed=removed.count(),
        current=chains.opened(),
        numbered=numbering.given,
        held=len(_held(kept, plan, decided)),
        rejects=rejects,
        detail=outcome,
        close=outcome.close,
    )


def _with_incomplete(plan: MergePlan, decided: Decided, incomplete: int) -> Arrived:
    """Return what arrived, with what found no row to complete as rejects where none can come any more."""
    arrived = decided.arrived
    if not (incomplete and _is_ordered(plan)):
        return arrived
    ids = decided.chains.verdicts().where("verdict = 'incomplete'").selectExpr(f"id AS {ID}")
    return replace(
        arrived,
        frame=as_rejects(arrived.frame, plan, ids, Reason.INCOMPLETE_ROW, INCOMPLETE),
        refused={**arrived.refused, Reason.INCOMPLETE_ROW: incomplete},
    )


def _removed(plan: MergePlan, chains: Chains, rows: Rows) -> tuple[DataFrame, Position | None]:
    """Return the rows that go, and the place of a truncate of which it is all below, unless what ends is kept."""
    removed = chains.removed()
    if plan.dimension.keeps_ended:
        return removed, None
    return rows.with_truncated(removed), plan.truncates.removes_below


def _changes(plan: MergePlan, passing: DataFrame, chains: Chains) -> DataFrame:
    """Return what is to be remembered of the events that pass; rows of a full load are in the table."""
    if _is_ordered(plan):
        return _deletes(passing, chains)
    if not plan.in_part:
        return passing.where(f"NOT {IS_LOAD}")
    return passing if chains.settled is None else passing.join(chains.settled, ID, "left_anti")


def _deletes(passing: DataFrame, chains: Chains) -> DataFrame:
    """Return the deletes that stand in the end: all that an `ordered` table remembers."""
    stand = chains.verdicts().where("verdict = 'applied' AND operation = 'delete'").selectExpr(f"id AS {ID}")
    return passing.join(stand, ID, "left_semi")


def _with(changes: DataFrame, truncates: DataFrame | None) -> DataFrame:
    return changes if truncates is None else changes.unionByName(truncates, allowMissingColumns=True)


def _counts(plan: MergePlan, tally: Counts, decided: Decided, outcome: Outcome, incomplete: int) -> Counts:
    """Complete the counts; what found no row to complete waits for one, where one may come."""
    counts = counts_of(plan, tally, outcome.waiting)
    if plan.releases:
        refused = sum(decided.arrived.refused.values())
        return replace(counts, released=counts.released + incomplete + refused)
    waiting = counts.waiting if _is_ordered(plan) else counts.waiting + incomplete
    released = 0 if outcome.released is None else outcome.released.count()
    return replace(counts, released=released, waiting=waiting)


def _held(kept: Keeping, plan: MergePlan, decided: Decided) -> set[str]:
    """Return the keys that are held afterwards: by what is in quarantine, and by key changes that wait."""
    arrived = decided.arrived
    held = held_keys(kept, plan, arrived.rows, has_refused=arrived.has_refused)
    return held | moved_keys(kept, plan, decided)


def _is_ordered(plan: MergePlan) -> bool:
    return isinstance(plan.dimension.lateness, Ordered)
