"""Which batches the core resolves on the driver, and which ones Spark resolves."""

from __future__ import annotations

from typing import Final

from lakeward.core.plan import MergePlan

CORE: Final = "core"
"""The value of `MergeResult.way` for a batch that the core resolved."""


class NotSmall(Exception):
    """Spark must resolve a batch after all; the message says why. Nothing has been written."""


def reason_for_spark(plan: MergePlan, most_rows: int) -> str | None:
    """Return why Spark resolves a batch, or None if the core does. `most_rows` is the setting `small_batch`."""
    if not most_rows:
        return "`small_batch` is 0"
    if plan.facts.read > most_rows:
        return f"more than {most_rows:,} rows (`small_batch`)"
    return None


def needs_memory(plan: MergePlan) -> bool:
    """Return whether the change log of a key can matter to a batch."""
    asks = plan.recalls or plan.in_part or plan.holds or plan.releases or plan.truncates.all
    return bool(asks) and not plan.appends


def touches_all(plan: MergePlan) -> bool:
    """Return whether a batch may end every row of a table that keeps ended rows, or splices a snapshot."""
    ends_all = plan.dimension.keeps_ended and (plan.replaces or bool(plan.truncates.arrived))
    return ends_all or plan.splices is not None
