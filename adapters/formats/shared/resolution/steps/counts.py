"""Counts of a batch: rejects by reason, and the sum of all outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pyspark.sql import DataFrame

from lakeward.adapters.spark.merge.resolution import CopyCounts
from lakeward.core.dimension import Ties
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan


def rejects_of(
    plan: MergePlan,
    copies: CopyCounts,
    refused: Mapping[Reason, int],
    earlier_reasons: Mapping[Reason, int] = MappingProxyType({}),
) -> Mapping[Reason, int]:
    """Return the number of rows for the quarantine, by reason.

    They are the rejects of the batch without copies, and the `refused` events. `earlier_reasons` counts the refused
    events that were rejects for another reason before.
    """
    if plan.releases:
        return {}
    return Counter(plan.facts.rejects) - Counter(copies.rejects) - Counter(earlier_reasons) + Counter(refused)


def counts_of(plan: MergePlan, tally: Counts, waiting: DataFrame | None) -> Counts:
    """Complete the counts of the events that passed by waiting events and truncates."""
    if plan.releases:
        settled = tally.stale + tally.duplicates + tally.superseded + tally.applied
        repaired = len(plan.repaired) - (0 if waiting is None else waiting.count())
        return Counts(released=settled - repaired)
    return replace(
        tally + plan.truncates.counts(in_history=plan.dimension.history is not None),
        read=plan.facts.read,
        skipped=plan.facts.skipped,
        waiting=0 if waiting is None else waiting.count(),
        ties=tally.ties if plan.dimension.ties is Ties.ARRIVAL else 0,
    )
