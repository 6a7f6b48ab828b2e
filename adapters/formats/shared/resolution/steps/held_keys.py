"""The keys that are held after a batch."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.steps.applicable_events import ApplicableEvents
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.event_frame import IS_HOLDING
from lakeward.adapters.spark.merge.truncates import in_force, not_overruled
from lakeward.adapters.spark.sql import names
from lakeward.core.merge.change_log import HOLDING
from lakeward.core.plan import MergePlan


def held_keys(side_tables: SideTables, plan: MergePlan, rows: DataFrame, *, has_refused: bool = False) -> set[str]:
    """Return the texts of the keys that quarantined rows hold after a batch with these rows.

    `has_refused` says that some of the rows became rejects while they were folded.
    """
    keys = {str(key[0]) for hold in in_force(plan) for key in hold.keys}
    if has_refused or any(reason in HOLDING for reason in plan.facts.rejects):
        keys |= side_tables.quarantine.keys_of(not_overruled(plan, rows).where(IS_HOLDING))
    return keys


def keys_of_waiting_changes(side_tables: SideTables, plan: MergePlan, applicable: ApplicableEvents) -> set[str]:
    """Return the texts of the keys that waiting key changes, new or old ones, hold after the batch."""
    if applicable.waiting is None or names.OLD not in applicable.waiting.columns:
        return set()
    is_key_change = f"{names.OLD} IS NOT NULL"
    keys = side_tables.quarantine.keys_of(applicable.waiting.where(is_key_change))
    if plan.releases or plan.replaces:
        return keys
    released = applicable.released(plan)
    released_places = (
        [] if released is None else released.where(is_key_change).select(names.OBJECT, names.ROW).collect()
    )
    return keys | side_tables.change_log.waiters(plan.batch - 1).moved({tuple(row) for row in released_places})
