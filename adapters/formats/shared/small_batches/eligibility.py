"""Which way a batch is worked out: small ones by the core on the driver, all others by Spark."""

from __future__ import annotations

from typing import Final

from lakeward.core.plan import MergePlan

CORE: Final = "core"
"""What is said of a batch that the core works out."""


class NotSmall(Exception):
    """Spark must work a batch out after all; the message says why. Nothing has been written."""


def reason_for_spark(plan: MergePlan, most_rows: int) -> str | None:
    """Return in words why Spark works a batch out, or None where the core does; `most_rows` is `small_batch`."""
    if not most_rows:
        return "`small_batch` is 0"
    if plan.facts.read > most_rows:
        return f"more than {most_rows:,} rows (`small_batch`)"
    return None


def needs_memory(plan: MergePlan) -> bool:
    """Return whether what is remembered of a key can matter to a batch."""
    asks = plan.recalls or plan.in_part or plan.holds or plan.releases or plan.truncates.all
    return bool(asks) and not plan.appends


def touches_all(plan: MergePlan) -> bool:
    """Return whether a batch ends every row of a table that keeps what ended, or is a snapshot between others."""
    ends_all = plan.dimension.keeps_ended and (plan.replaces or bool(plan.truncates.arrived))
    return ends_all or plan.splices is not None
