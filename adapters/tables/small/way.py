"""Which way a batch is worked out: small ones by the core on the driver, all others by Spark."""

from __future__ import annotations

from typing import Final

from lakeward.core.dimension import Dimension, Match
from lakeward.core.plan import MergePlan

CORE: Final = "core"
"""What is said of a batch that the core works out."""


class NotSmall(Exception):
    """Spark must work a batch out after all; the message says why. Nothing has been written."""


def reason_for_spark(plan: MergePlan, most_rows: int) -> str | None:
    """Return in words why Spark works a batch out, or None where the core does; `most_rows` is `small_batch`."""
    dimension = plan.dimension
    if not most_rows:
        return "`small_batch` is 0"
    if plan.facts.read > most_rows:
        return f"more than {most_rows:,} rows (`small_batch`)"
    if dimension.match is Match.IMAGE:
        return "rows are found by their images"
    if dimension.history is not None and dimension.history.previous_key and _has_floating_key(dimension):
        return "a history tells the key of before, and digits of floating numbers are Java's"
    return None


def needs_memory(plan: MergePlan) -> bool:
    """Return whether what is remembered of a key can matter to a batch."""
    asks = plan.recalls or plan.in_part or plan.holds or plan.releases or plan.truncates.all
    return bool(asks) and not plan.appends


def touches_all(plan: MergePlan) -> bool:
    """Return whether a batch ends every row of a table that keeps what ended, or is a snapshot between others."""
    ends_all = plan.dimension.keeps_ended and (plan.replaces or bool(plan.truncates.arrived))
    return ends_all or plan.splices is not None


def _has_floating_key(dimension: Dimension) -> bool:
    types = {column.type.name for column in dimension.schema if column.name in dimension.key}
    return not types.isdisjoint(("float", "double"))
