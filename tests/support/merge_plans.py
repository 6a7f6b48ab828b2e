"""Plans of batches, for tests of what carries them out."""

from __future__ import annotations

from typing import Any

from lakeward.core.dimension import Dimension
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.plan import MergePlan
from lakeward.core.schema_changes.evolution import Evolution


def make_plan(dimension: Dimension, **changes: Any) -> MergePlan:
    """Return the plan of a second batch that changes no column, and recalls, appends and creates nothing."""
    usual = {"evolution": Evolution(dimension.schema), "facts": BatchFacts(schema=dimension.schema)}
    usual |= {"batch": 2, "epoch": 1, "recalls": False, "appends": False, "creates": False}
    return MergePlan(dimension=dimension, **{**usual, **changes})
