"""Working out batches of whole rows, which what stands of their keys decides: in one pass and without an order."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

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
from lakeward.adapters.spark.frames.event_frame import LOAD
from lakeward.adapters.spark.merge.resolution import (
    IS_LIVE,
    IS_NEWS,
    counts,
    events_of,
    sequence_literal,
    standing,
    winners,
)
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.merge.change_log import HOLDING
from lakeward.core.merge.facts import PARTIAL
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def may_be_judged(kept: Keeping, plan: MergePlan, arrived: Arrived) -> bool:
    """Return whether what stands decides a batch of whole rows, though parts of rows may be remembered.

    Each of its events is newer than all that the table has seen, and leaves a row or none, whatever came before.
    Where the table remembers key changes they make chains of keys, of which no row tells alone.
    """
    dimension, facts = plan.dimension, plan.facts
    may_meet = plan.recalls or plan.replaces or plan.releases or plan.holds or plan.copies or plan.truncates.all
    has_more = dimension.keeps_ended or plan.recomputed or plan.evolution.lacks or facts.has_loads
    if is_ordered(plan) or PARTIAL & facts.needs or may_meet or has_more:
        return False
    if arrived.late or any(reason in HOLDING for reason in facts.rejects):
        return False
    return not (kept.change_log.batches.turned or kept.change_log.has_moves(plan.batch - 1))


def by_judging(kept: Keeping, plan: MergePlan, arrived: Arrived, rows: Rows) -> MergeResult:
    """Judge the events of each key by the row that stands of it.

    That is enough where a batch lacks a column as well, as long as each of its updates finds a row to keep that of.
    """
    passing, waiting = part(kept, plan, arrived, events_of(arrived.frame))
    waiting, waited = not_waiting_yet(kept, plan, waiting)
    gone = kept.change_log.deletes(plan.batch - 1) if plan.recalls else None
    found = None if rows.table is None else rows.found(passing, gone)
    is_all = waiting is None and not plan.releases and not plan.in_part
    judged = judge(plan, passing, found, remembers_all=is_all)
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
            bases=_bases(plan, rows, judged) if plan.in_part and not is_ordered(plan) else None,
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


def _bases(plan: MergePlan, rows: Rows, judged: Judged) -> DataFrame | None:
    """Return the rows that stand of keys of which nothing is remembered; None where there are none.

    What lies above the mark is remembered: of a row that does, the event that it came with, but for a full load.
    """
    epoch, sequence = standing(names.EPOCH), standing(names.SEQUENCE)
    above = f"{epoch} = {plan.epoch} AND {sequence} != {LOAD}"
    if plan.mark is not None:
        above += f" AND {sequence} > {sequence_literal(plan, plan.mark.sequence)}"
    keys = judged.frame.where(f"{IS_LIVE} AND NOT ({above})").select(*map(quoted, plan.dimension.key))
    return None if keys.isEmpty() else rows.of(keys)


def _in_order(kept: Keeping, plan: MergePlan, arrived: Arrived, rows: Rows, judged: Judged) -> MergeResult:
    """Fold a batch that lacks a column and updates a key that is not there: a part of a row makes none."""
    judged.close()
    return by_folding(kept, replace(plan, folds=True), arrived, rows)
