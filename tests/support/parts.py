"""What a batch leaves of a history in several parts, as that of a large one is: rows of the tests lie in one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame

from lakeward.adapters.spark.chains import Chains
from lakeward.adapters.spark.folding import Before, fold
from lakeward.adapters.tables.resolving import deciding
from lakeward.core.plan import MergePlan


def in_parts(patch: pytest.MonkeyPatch) -> None:
    """Have it so."""

    def parted(plan: MergePlan, events: DataFrame, before: Before) -> Chains:
        chains = fold(plan, events, before)
        return replace(chains, folded=chains.folded.repartition(3).localCheckpoint())

    patch.setattr(deciding, "fold", parted)
