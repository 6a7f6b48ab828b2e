"""Which events of a batch can be applied: it is folded until none is left that turns out to be a reject."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.resolution.steps.arrivals import Arrived
from lakeward.adapters.formats.shared.resolution.steps.hold_filter import lifted, part
from lakeward.adapters.formats.shared.resolution.steps.table_before import Remembering
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.frames.event_frame import IS_REJECT
from lakeward.adapters.spark.merge.fold.batch_fold import fold
from lakeward.adapters.spark.merge.fold.chain_results import RELEASED_ID, Chains
from lakeward.adapters.spark.merge.fold.fold_items import with_absent
from lakeward.adapters.spark.merge.resolution import ID, as_told, events_of
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.quarantine import repair


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The events that pass and those of the batch that wait, and the chains of what passes.

    Of what `arrived`, events are rejects now that cannot be applied: no rule decides what they mean, or others have
    altered the versions of their keys.
    """

    arrived: Arrived
    passing: DataFrame
    waiting: DataFrame | None
    chains: Chains

    def released(self, plan: MergePlan) -> DataFrame | None:
        """Return the events that wait no more: those that pass, and those that are held themselves now."""
        source = self.arrived.frame if plan.releases else self.arrived.lifted
        if source is None:
            return None
        shifted = source.where(f"{names.REASON} IN ('{Reason.KEY_SHIFT.value}', '{Reason.HISTORY.value}')")
        passing = self.passing if plan.releases else self.passing.where(f"{ID} >= {RELEASED_ID}")
        return passing.unionByName(shifted, allowMissingColumns=True)


def decide(kept: Keeping, plan: MergePlan, arrived: Arrived, rows: Rows) -> Decided:
    """Fold what passes, and again without what turns out to be none that can be applied, until all of it can."""
    arrived = replace(arrived, lifted=lifted(kept, plan))
    before = Remembering(kept.change_log, plan, rows).before(arrived.frame, arrived.truncates)
    while True:
        passing, waiting = part(kept, plan, arrived, _events(plan, arrived))
        chains = fold(plan, passing, before)
        refused = chains.refused()
        if refused is None:
            break
        _refuse_mended(kept, plan, arrived.frame, refused)
        arrived = arrived.with_refused(plan, refused)
    if arrived.lifted is not None and waiting is not None:
        waiting = waiting.where(f"{ID} < {RELEASED_ID}")
    return Decided(arrived=arrived, passing=passing, waiting=waiting, chains=chains)


def _events(plan: MergePlan, arrived: Arrived) -> DataFrame:
    """Return the events to be folded, what a truncate may lift among them."""
    events = events_of(arrived.frame)
    events = with_absent(events, plan) if plan.in_part else events
    if arrived.lifted is None:
        return events
    return events.unionByName(events_of(arrived.lifted), allowMissingColumns=True)


def _refuse_mended(kept: Keeping, plan: MergePlan, frame: DataFrame, refused: DataFrame) -> None:
    """Raise MendError where a row that a person mended turns out to be none that can be applied."""
    if not plan.repaired:
        return
    types = {names.OBJECT: "bigint", names.ROW: "bigint"}
    repaired = inline(kept.spark(), types, [(place.object, place.row) for place in plan.repaired])
    told = as_told(frame, plan, refused).where(IS_REJECT)
    found = told.join(F.broadcast(repaired), [names.OBJECT, names.ROW], "left_semi").head()
    if found is None:
        return
    order, row = found[names.OBJECT], found[names.ROW]
    name = kept.change_log.batches.object_names.get(order, order)
    if found[names.REASON] == Reason.HISTORY.value:
        raise repair.breaks_history(plan.dimension, name, row, found[names.DETAIL])
    raise repair.undecided(plan.dimension, name, row)
