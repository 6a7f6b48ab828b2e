"""Working out batches of whole rows, which what stands of their keys decides: in one pass and without an order."""

from __future__ import annotations

from dataclasses import replace

from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.resolution.steps.arrivals import Arrived
from lakeward.adapters.formats.shared.resolution.steps.counts import counts_of
from lakeward.adapters.formats.shared.resolution.steps.held_keys import held_keys
from lakeward.adapters.formats.shared.resolution.steps.hold_filter import not_waiting_yet, part
from lakeward.adapters.formats.shared.resolution.steps.verdicts import Judged, changes_of, is_ordered, judge
from lakeward.adapters.formats.shared.resolution.strategies.ordered_fold import by_folding
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.execution.cached_frames import freed_on_failure
from lakeward.adapters.spark.merge.resolution import IS_LIVE, IS_NEWS, counts, events_of, winners
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def by_judging(kept: Keeping, plan: MergePlan, arrived: Arrived, rows: Rows) -> MergeResult:
    """Judge the events of each key by the row that stands of it.

    That is enough where a batch lacks a column as well, as long as each of its updates finds a row to keep that of.
    """
    passing, waiting = part(kept, plan, arrived, events_of(arrived.frame))
    waiting, waited = not_waiting_yet(kept, plan, waiting)
    gone = kept.change_log.deletes(plan.batch - 1) if plan.recalls else None
    found = None if rows.table is None else rows.found(passing, gone)
    judged = judge(plan, passing, found, remembers_all=waiting is None and not plan.releases)
    with freed_on_failure(judged.close):
        tally, written, removed = counts(judged.sums, judged.frame, passing, plan)
        if plan.evolution.lacks and tally.update_on_missing:
            return _in_order(kept, plan, arrived, rows, judged)
        all_stand = written == tally.stale + tally.duplicates + tally.superseded + tally.applied
        upserts = passing if all_stand else winners(passing, judged.frame, deletes=False)
        has_deletes = is_ordered(plan) and tally.applied > written
        outcome = Outcome(
            upserts=rows.kept(upserts, judged.frame),
            removed=judged.frame.where(f"{IS_NEWS} AND {IS_LIVE}"),
            changes=None if is_ordered(plan) else changes_of(passing),
            deletes=winners(passing, judged.frame, deletes=True) if has_deletes else None,
            waiting=waiting,
            released=passing if plan.releases else None,
            entries=judged.entries,
            places=judged.places,
            rejects=arrived.rejects(plan),
            table=rows.table,
            cached=judged.cached,
        )
        rejects = arrived.rejects_by_reason(plan)
        again = waited + arrived.known.rows
        tally = replace(tally, duplicates=tally.duplicates + again, quarantined=sum(rejects.values()))
        return MergeResult(
            counts=counts_of(plan, tally, waiting),
            written=written,
            removed=removed,
            held=len(held_keys(kept, plan, arrived.frame)),
            rejects=rejects,
            detail=outcome,
            close=outcome.close,
        )


def _in_order(kept: Keeping, plan: MergePlan, arrived: Arrived, rows: Rows, judged: Judged) -> MergeResult:
    """Fold a batch that lacks a column and updates a key that is not there: a part of a row makes none."""
    judged.close()
    return by_folding(kept, replace(plan, folds=True), arrived, rows)
