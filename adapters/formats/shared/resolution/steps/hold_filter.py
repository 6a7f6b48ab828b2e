"""Split the events of a batch into those that pass and those that wait behind a held key."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.resolution.steps.arrivals import Arrivals
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.merge.fold.chain_results import RELEASED_ID
from lakeward.adapters.spark.merge.hold_filter import split_chains
from lakeward.adapters.spark.merge.resolution import holding_rejects, keys_of_both, split_at_barriers
from lakeward.adapters.spark.merge.truncates import in_force, not_overruled
from lakeward.adapters.spark.sql import names
from lakeward.core.errors import SchemaConflict
from lakeward.core.merge.change_log import HOLDING
from lakeward.core.plan import MergePlan


def split_by_holds(
    side_tables: SideTables, plan: MergePlan, arrivals: Arrivals, events: DataFrame
) -> tuple[DataFrame, DataFrame | None]:
    """Split events into those that pass and those that wait behind a hold, or behind a reject of this batch."""
    barriers = _barriers(side_tables, plan, arrivals)
    if not barriers:
        return events, None
    if not plan.folds:
        return split_at_barriers(events, reduce(DataFrame.unionByName, barriers), plan)
    barriers += _waiting_key_changes(side_tables, plan)
    return split_chains(plan, events, reduce(DataFrame.unionByName, barriers))


def _barriers(side_tables: SideTables, plan: MergePlan, arrivals: Arrivals) -> list[DataFrame]:
    """Return the held keys and their positions: of quarantined rows, and of rejects of the batch."""
    holds = in_force(plan)
    barriers = [side_tables.quarantine.barriers(holds)] if holds else []
    if arrivals.has_refused or any(reason in HOLDING for reason in plan.facts.rejects):
        barriers.append(holding_rejects(not_overruled(plan, arrivals.rows), plan))
    return barriers


def _waiting_key_changes(side_tables: SideTables, plan: MergePlan) -> list[DataFrame]:
    """Return the keys held by waiting key changes, unless these changes are among the events themselves."""
    waiting = side_tables.change_log.waiting(plan.batch - 1)
    is_among_events = plan.releases or plan.replaces or plan.truncates.arrived
    if waiting is None or is_among_events or names.OLD not in waiting.columns:
        return []
    key_changes = not_overruled(plan, waiting.where(f"{names.OLD} IS NOT NULL"))
    return [keys_of_both(key_changes, plan.dimension.key)]


def find_lifted_events(side_tables: SideTables, plan: MergePlan) -> DataFrame | None:
    """Return the waiting events if a truncate may release them, with arrivals after all events of the batch."""
    if not plan.truncates.arrived or side_tables.change_log.waiting(plan.batch - 1) is None:
        return None
    waiting = side_tables.change_log.waiting_events(plan.batch - 1)
    return waiting.withColumn(names.ARRIVAL, F.expr(f"{RELEASED_ID >> 2} + {names.ARRIVAL}")).localCheckpoint()


def leave_out_waiting(
    side_tables: SideTables, plan: MergePlan, waiting: DataFrame | None
) -> tuple[DataFrame | None, int]:
    """Leave out events that wait already; return the others and how many were left out.

    Raises SchemaConflict if whole rows that lack a column would wait: the change log could not tell that they lack
    it.
    """
    if waiting is None:
        return None, 0
    repeated = 0
    may_wait = plan.recalls and (plan.holds or plan.releases)
    waiting_before = side_tables.change_log.waiting(plan.batch - 1) if may_wait else None
    if waiting_before is not None:
        new = waiting.join(F.broadcast(waiting_before), [names.OBJECT, names.ROW], "left_anti")
        repeated = 0 if plan.releases else waiting.count() - new.count()
        waiting = new
    if plan.evolution.lacks_columns and not plan.folds_remembered and not waiting.isEmpty():
        raise cannot_wait(plan)
    return waiting, repeated


def cannot_wait(plan: MergePlan) -> SchemaConflict:
    """Return the error for a batch whose whole rows lack a column and would wait."""
    return SchemaConflict(
        f"{plan.dimension.name}: rows that lack a column of the table would wait behind a held key",
        found="missing: "
        + ", ".join([*plan.evolution.absent, *[".".join(names) for names in plan.evolution.lacking]]),
        todo="Nothing was applied, for it would not be known later that they lack it. Settle what is in "
        "quarantine (`lakeward quarantine list`), and run again.",
    )
