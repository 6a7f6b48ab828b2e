"""What each row of a batch is, before any is folded: a copy, too late, tied, or new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.steps.counts import rejects_of
from lakeward.adapters.formats.shared.resolution.steps.ties import shown, without_held, without_ties
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.frames.event_frame import IS_REJECT
from lakeward.adapters.spark.merge.duplicates import kept as kept_columns
from lakeward.adapters.spark.merge.duplicates import without_facts, without_shown
from lakeward.adapters.spark.merge.fold.chain_results import RELEASED_ID
from lakeward.adapters.spark.merge.resolution import ID, Known, as_told, late_as_rejects, without_copies
from lakeward.adapters.spark.merge.truncates import without_truncates
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What a batch brought that is new, sorted out.

    `frame` are its rows, its `truncates` are apart, and what is `known` is left out. Those that come `late` are
    rejects, counted by the reason for which they were refused before, if they were. `lifted` are events that waited
    and that a truncate of the batch may let pass.

    What turns out to be a reject only as it is folded is so in the frames, and `has_refused` says that there is
    any; `refused` counts by reason the rows of the batch among it.
    """

    frame: DataFrame
    truncates: DataFrame | None
    known: Known
    late: Mapping[Reason | None, int]
    lifted: DataFrame | None = None
    refused: Mapping[Reason, int] = field(default_factory=dict)
    has_refused: bool = False

    @property
    def rows(self) -> DataFrame:
        """All rows, those that were lifted behind the others."""
        return self.frame if self.lifted is None else self.frame.unionByName(self.lifted, allowMissingColumns=True)

    def with_refused(self, plan: MergePlan, refused: DataFrame) -> Arrived:
        """Return the same with events as rejects: `refused` has their IDs, and what is wrong with each."""
        counted = refused.where(f"{ID} < {RELEASED_ID}").groupBy("reason").count().collect()
        more = {Reason(row["reason"]): row["count"] for row in counted}
        return replace(
            self,
            frame=as_told(self.frame, plan, refused).localCheckpoint(),
            lifted=None if self.lifted is None else as_told(self.lifted, plan, refused).localCheckpoint(),
            refused=Counter(self.refused) + Counter(more),
            has_refused=True,
        )

    def rejects(self, plan: MergePlan) -> DataFrame | None:
        """Return the rows that go into quarantine, or None where there are none."""
        has_any = plan.facts.rejects or self.late or self.has_refused or any(self.refused.values())
        return self.rows.where(IS_REJECT) if has_any else None

    def rejects_by_reason(self, plan: MergePlan) -> Mapping[Reason, int]:
        """Return how many rows go into quarantine, by the reason."""
        moved = {reason: rows for reason, rows in self.late.items() if reason is not None}
        return rejects_of(plan, self.known, {Reason.TOO_LATE: sum(self.late.values()), **self.refused}, moved)


def sort_out(kept: Keeping, plan: MergePlan, frame: DataFrame, rows: Rows) -> tuple[MergePlan, Arrived]:
    """Leave out of a batch what is known; what is late or ties is a reject, and ties are so in the plan."""
    frame, truncates = without_truncates(frame, plan)
    frame, known = without_copies(frame, plan)
    frame, held = without_held(plan, frame, rows, kept.quarantine)
    frame, copies = _without_known_facts(kept, plan, frame, rows)
    frame, late = late_as_rejects(frame, plan)
    known = known._replace(events=known.events + held + copies)
    plan, frame = without_ties(plan, frame, rows, kept.change_log)
    return plan, Arrived(frame=frame, truncates=truncates, known=known, late=late)


def _without_known_facts(kept: Keeping, plan: MergePlan, frame: DataFrame, rows: Rows) -> tuple[DataFrame, int]:
    """Leave out the events that are known by their sequence, where that is unique; return how many they are."""
    if not plan.dimension.unique_sequences or plan.releases or plan.replaces:
        return frame, 0
    if not plan.recalls:
        return without_facts(frame, plan, [])
    facts = kept.change_log.facts(plan.batch - 1)
    stands = shown(plan, rows)
    if stands is None or not kept_columns(plan):
        return without_facts(frame, plan, facts if stands is None else [*facts, stands])
    frame, copies = without_facts(frame, plan, facts)
    frame, more = without_shown(frame, plan, stands)
    return frame, copies + more
