"""Switches that let Spark resolve the batches of a test. By default the core resolves small ones."""

from __future__ import annotations

import pytest
from delta_lake import LakeOfDelta
from hudi_lake import LakeOfHudi
from iceberg_lake import LakeOfIceberg

from lakeward.adapters.formats.shared.resolution import resolver
from lakeward.adapters.formats.shared.resolution.steps import verdicts
from lakeward.adapters.spark.frames.local_casts import SparkNeeded


def use_spark(patch: pytest.MonkeyPatch) -> None:
    """Let Spark resolve every batch of the lakes under test, alternately as one of few rows and of many."""
    for lake in (LakeOfIceberg, LakeOfDelta, LakeOfHudi):
        patch.setattr(lake, "small_batch", 0)
    for step in (resolver, verdicts):
        patch.setattr(step, "has_few_rows", lambda plan: plan.batch % 2 == 0)


def use_spark_in_commands(patch: pytest.MonkeyPatch) -> None:
    """Let Spark resolve every batch of the commands of a test, for any settings."""

    def refuse(*_: object) -> None:
        raise SparkNeeded("a test is of its way")

    for function in ("resolve_small_batch", "resolve_columns"):
        patch.setattr(resolver, function, refuse)
