"""Which events of a batch pass, and which wait behind a hold of their key."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.resolution.steps.arrivals import Arrived
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.merge.fold.chain_results import RELEASED_ID
from lakeward.adapters.spark.merge.hold_filter import part_chains
from lakeward.adapters.spark.merge.resolution import holding_rejects, keys_of_both, part_at_barriers
from lakeward.adapters.spark.merge.truncates import in_force, not_overruled
from lakeward.adapters.spark.sql import names
from lakeward.core.errors import SchemaConflict
from lakeward.core.merge.change_log import HOLDING
from lakeward.core.plan import MergePlan


def part(kept: Keeping, plan: MergePlan, arrived: Arrived, events: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Part the events of a batch into those that pass and those that wait behind a hold, or a reject of it."""
    barriers = _barriers(kept, plan, arrived)
    if not barriers:
        return events, None
    if not plan.folds:
        return part_at_barriers(events, reduce(DataFrame.unionByName, barriers), plan)
    barriers += _moves_that_wait(kept, plan)
    return part_chains(plan, events, reduce(DataFrame.unionByName, barriers))


def _barriers(kept: Keeping, plan: MergePlan, arrived: Arrived) -> list[DataFrame]:
    """Return the keys that are held and the places from which on: by what is in quarantine, or comes into it."""
    holds = in_force(plan)
    barriers = [kept.quarantine.barriers(holds)] if holds else []
    if arrived.has_refused or any(reason in HOLDING for reason in plan.facts.rejects):
        barriers.append(holding_rejects(not_overruled(plan, arrived.rows), plan))
    return barriers


def _moves_that_wait(kept: Keeping, plan: MergePlan) -> list[DataFrame]:
    """Return the keys that are held by key changes that wait, unless these are among the events themselves."""
    waiting = kept.change_log.waiting(plan.batch - 1)
    is_among_events = plan.releases or plan.replaces or plan.truncates.arrived
    if waiting is None or is_among_events or names.OLD not in waiting.columns:
        return []
    moves = not_overruled(plan, waiting.where(f"{names.OLD} IS NOT NULL"))
    return [keys_of_both(moves, plan.dimension.key)]


def lifted(kept: Keeping, plan: MergePlan) -> DataFrame | None:
    """Return the events that wait, where a truncate may lift what holds them; they come after all others."""
    if not plan.truncates.arrived or kept.change_log.waiting(plan.batch - 1) is None:
        return None
    waited = kept.change_log.waiting_events(plan.batch - 1)
    return waited.withColumn(names.ARRIVAL, F.expr(f"{RELEASED_ID >> 2} + {names.ARRIVAL}")).localCheckpoint()


def not_waiting_yet(kept: Keeping, plan: MergePlan, waiting: DataFrame | None) -> tuple[DataFrame | None, int]:
    """Leave out what waits already, or still does behind another hold; return how many came again.

    Raises SchemaConflict where whole rows are to wait that lack a column: they are kept without saying so.
    """
    if waiting is None:
        return None, 0
    again = 0
    known = kept.change_log.waiting(plan.batch - 1) if plan.recalls and (plan.holds or plan.releases) else None
    if known is not None:
        new = waiting.join(F.broadcast(known), [names.OBJECT, names.ROW], "left_anti")
        again = 0 if plan.releases else waiting.count() - new.count()
        waiting = new
    if plan.evolution.lacks and not plan.in_part and not waiting.isEmpty():
        raise cannot_wait(plan)
    return waiting, again


def cannot_wait(plan: MergePlan) -> SchemaConflict:
    """Say of whole rows that lack a column that they cannot wait."""
    return SchemaConflict(
        f"{plan.dimension.name}: rows that lack a column of the table would wait behind a held key",
        found="missing: "
        + ", ".join([*plan.evolution.absent, *[".".join(names) for names in plan.evolution.lacking]]),
        todo="Nothing was applied, for it would not be known later that they lack it. Settle what is in "
        "quarantine (`lakeward quarantine list`), and run again.",
    )
