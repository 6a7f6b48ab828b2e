"""Classify the rows of a batch before they are resolved: copy, too late, tied or new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.steps.counts import rejects_of
from lakeward.adapters.formats.shared.resolution.steps.ties import facts_of_stored_rows, without_held, without_ties
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.event_frame import IS_REJECT
from lakeward.adapters.spark.merge.duplicates import first_value_columns, without_facts, without_stored_facts
from lakeward.adapters.spark.merge.fold.chain_results import RELEASED_ID
from lakeward.adapters.spark.merge.resolution import ID, CopyCounts, late_as_rejects, reject_each, without_copies
from lakeward.adapters.spark.merge.truncates import without_truncates
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The new rows of a batch.

    - `frame`: its rows without copies and truncates. Late, tied and refused events are rejects in it.
    - `truncates`: its truncates, or None.
    - `copies`: the counts of the rows that were left out because they were delivered before.
    - `late`: the number of events that came too late, by the reason they had been refused for before (None: none).
    - `lifted`: waiting events of earlier batches that a truncate of this batch may release.
    - `refused`: the number of rows of the batch that became rejects while they were folded, by reason.
    - `has_refused`: whether any event became a reject while it was folded, of this batch or `lifted`.
    """

    frame: DataFrame
    truncates: DataFrame | None
    copies: CopyCounts
    late: Mapping[Reason | None, int]
    lifted: DataFrame | None = None
    refused: Mapping[Reason, int] = field(default_factory=dict)
    has_refused: bool = False

    @property
    def rows(self) -> DataFrame:
        """All rows, with the lifted ones at the end."""
        return self.frame if self.lifted is None else self.frame.unionByName(self.lifted, allowMissingColumns=True)

    def with_refused(self, plan: MergePlan, refused: DataFrame) -> Arrivals:
        """Return the arrivals with events turned into rejects. `refused` has the ID, reason and message of each."""
        counts_by_reason = refused.where(f"{ID} < {RELEASED_ID}").groupBy("reason").count().collect()
        more = {Reason(row["reason"]): row["count"] for row in counts_by_reason}
        return replace(
            self,
            frame=reject_each(self.frame, plan, refused).localCheckpoint(),
            lifted=None if self.lifted is None else reject_each(self.lifted, plan, refused).localCheckpoint(),
            refused=Counter(self.refused) + Counter(more),
            has_refused=True,
        )

    def rejects(self, plan: MergePlan) -> DataFrame | None:
        """Return the rows for the quarantine, or None if there are none."""
        has_any = plan.facts.rejects or self.late or self.has_refused or any(self.refused.values())
        return self.rows.where(IS_REJECT) if has_any else None

    def rejects_by_reason(self, plan: MergePlan) -> Mapping[Reason, int]:
        """Return the number of rows for the quarantine, by reason."""
        earlier_reasons = {reason: rows for reason, rows in self.late.items() if reason is not None}
        return rejects_of(
            plan, self.copies, {Reason.TOO_LATE: sum(self.late.values()), **self.refused}, earlier_reasons
        )


def sort_arrivals(
    side_tables: SideTables, plan: MergePlan, frame: DataFrame, rows: Rows
) -> tuple[MergePlan, Arrivals]:
    """Leave out copies and truncates, and turn late and tied events into rejects.

    Returns the plan with the facts changed by ties, and the arrivals.
    """
    frame, truncates = without_truncates(frame, plan)
    frame, copies = without_copies(frame, plan)
    frame, repeated_held = without_held(plan, frame, rows, side_tables.quarantine)
    frame, repeated = _without_known_facts(side_tables, plan, frame, rows)
    frame, late = late_as_rejects(frame, plan)
    copies = copies._replace(events=copies.events + repeated_held + repeated)
    plan, frame = without_ties(plan, frame, rows, side_tables.change_log)
    return plan, Arrivals(frame=frame, truncates=truncates, copies=copies, late=late)


def _without_known_facts(
    side_tables: SideTables, plan: MergePlan, frame: DataFrame, rows: Rows
) -> tuple[DataFrame, int]:
    """Leave out events of sources with unique sequences whose facts are known; return how many were left out."""
    if not plan.dimension.unique_sequences or plan.releases or plan.replaces:
        return frame, 0
    if not plan.recalls:
        return without_facts(frame, plan, [])
    facts = side_tables.change_log.facts(plan.batch - 1)
    row_facts = facts_of_stored_rows(plan, rows)
    if row_facts is None or not first_value_columns(plan):
        return without_facts(frame, plan, facts if row_facts is None else [*facts, row_facts])
    frame, repeated_facts = without_facts(frame, plan, facts)
    frame, repeated_rows = without_stored_facts(frame, plan, row_facts)
    return frame, repeated_facts + repeated_rows
