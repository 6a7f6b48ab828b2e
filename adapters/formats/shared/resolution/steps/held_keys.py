"""The keys that are held once a batch is settled."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.steps.applicable_events import Decided
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.frames.event_frame import IS_HOLDING
from lakeward.adapters.spark.merge.truncates import in_force, not_overruled
from lakeward.adapters.spark.sql import names
from lakeward.core.merge.change_log import HOLDING
from lakeward.core.plan import MergePlan


def held_keys(kept: Keeping, plan: MergePlan, rows: DataFrame, *, has_refused: bool = False) -> set[str]:
    """Return the keys that what is in quarantine holds after a batch of these rows, as texts.

    `has_refused` says that some of them turned out to be rejects as they were folded.
    """
    held = {str(key[0]) for hold in in_force(plan) for key in hold.keys}
    if has_refused or any(reason in HOLDING for reason in plan.facts.rejects):
        held |= kept.quarantine.keys_of(not_overruled(plan, rows).where(IS_HOLDING))
    return held


def moved_keys(kept: Keeping, plan: MergePlan, decided: Decided) -> set[str]:
    """Return the keys that key changes hold which wait after the batch, as texts."""
    if decided.waiting is None or names.OLD not in decided.waiting.columns:
        return set()
    moves = f"{names.OLD} IS NOT NULL"
    held = kept.quarantine.keys_of(decided.waiting.where(moves))
    if plan.releases or plan.replaces:
        return held
    released = decided.released(plan)
    freed = [] if released is None else released.where(moves).select(names.OBJECT, names.ROW).collect()
    return held | kept.change_log.waiters(plan.batch - 1).moved({tuple(row) for row in freed})
