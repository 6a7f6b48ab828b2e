"""Find the events of a batch that can be applied.

The batch is folded, events that the fold refuses become rejects, and it is folded again, until none is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.resolution.steps.arrivals import Arrivals
from lakeward.adapters.formats.shared.resolution.steps.hold_filter import find_lifted_events, split_by_holds
from lakeward.adapters.formats.shared.resolution.steps.table_before import TableBeforeReader
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.event_frame import IS_REJECT
from lakeward.adapters.spark.merge.fold.batch_fold import fold
from lakeward.adapters.spark.merge.fold.chain_results import RELEASED_ID, Chains
from lakeward.adapters.spark.merge.fold.fold_items import with_absent
from lakeward.adapters.spark.merge.resolution import ID, events_of, reject_each
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.quarantine import repair


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicableEvents:
    """The events of a batch that pass, those that wait, and the chains of the events that pass.

    - `arrivals`: the rows of the batch. Events that the fold refused are rejects in them: no rule decides which row
      they mean, or another writer has changed the versions of their keys.
    - `passing`: the events that were folded.
    - `waiting`: the events of the batch behind a held key, or None.
    - `chains`: the fold of `passing`.
    """

    arrivals: Arrivals
    passing: DataFrame
    waiting: DataFrame | None
    chains: Chains

    def released(self, plan: MergePlan) -> DataFrame | None:
        """Return the events that no longer wait: those that pass, and those that hold their key themselves now."""
        frame = self.arrivals.frame if plan.releases else self.arrivals.lifted
        if frame is None:
            return None
        rejected = frame.where(f"{names.REASON} IN ('{Reason.KEY_SHIFT.value}', '{Reason.HISTORY.value}')")
        passing = self.passing if plan.releases else self.passing.where(f"{ID} >= {RELEASED_ID}")
        return passing.unionByName(rejected, allowMissingColumns=True)


def find_applicable_events(
    side_tables: SideTables, plan: MergePlan, arrivals: Arrivals, rows: Rows
) -> ApplicableEvents:
    """Fold the events that pass. Where some turn out to be rejects, fold again without them."""
    arrivals = replace(arrivals, lifted=find_lifted_events(side_tables, plan))
    table_before = TableBeforeReader(side_tables.change_log, plan, rows).before(arrivals.frame, arrivals.truncates)
    while True:
        passing, waiting = split_by_holds(side_tables, plan, arrivals, _events(plan, arrivals))
        chains = fold(plan, passing, table_before)
        refused = chains.refused()
        if refused is None:
            break
        _check_repairs(side_tables, plan, arrivals.frame, refused)
        arrivals = arrivals.with_refused(plan, refused)
    if arrivals.lifted is not None and waiting is not None:
        waiting = waiting.where(f"{ID} < {RELEASED_ID}")
    return ApplicableEvents(arrivals=arrivals, passing=passing, waiting=waiting, chains=chains)


def _events(plan: MergePlan, arrivals: Arrivals) -> DataFrame:
    """Return the events to fold, with the waiting events that a truncate may release."""
    events = events_of(arrivals.frame)
    events = with_absent(events, plan) if plan.folds_remembered else events
    if arrivals.lifted is None:
        return events
    return events.unionByName(events_of(arrivals.lifted), allowMissingColumns=True)


def _check_repairs(side_tables: SideTables, plan: MergePlan, frame: DataFrame, refused: DataFrame) -> None:
    """Raise RepairError if an event that an operator repaired cannot be applied."""
    if not plan.repaired:
        return
    types = {names.OBJECT: "bigint", names.ROW: "bigint"}
    repaired = inline(side_tables.spark(), types, [(place.object, place.row) for place in plan.repaired])
    rejects = reject_each(frame, plan, refused).where(IS_REJECT)
    reject = rejects.join(F.broadcast(repaired), [names.OBJECT, names.ROW], "left_semi").head()
    if reject is None:
        return
    order, row = reject[names.OBJECT], reject[names.ROW]
    name = side_tables.change_log.batches.object_names.get(order, order)
    if reject[names.REASON] == Reason.HISTORY.value:
        raise repair.breaks_history(plan.dimension, name, row, reject[names.DETAIL])
    raise repair.undecided(plan.dimension, name, row)
