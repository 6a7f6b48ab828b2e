"""Batches of histories in several Spark partitions, as large ones have. Small ones have one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.resolution.steps import applicable_events
from lakeward.adapters.spark.merge.fold.batch_fold import TableBefore, fold
from lakeward.adapters.spark.merge.fold.chain_results import Chains
from lakeward.core.plan import MergePlan


def split_chains(patch: pytest.MonkeyPatch) -> None:
    """Split them into several partitions."""

    def parted(plan: MergePlan, events: DataFrame, before: TableBefore) -> Chains:
        chains = fold(plan, events, before)
        return replace(chains, folded=chains.folded.repartition(3).localCheckpoint())

    patch.setattr(applicable_events, "fold", parted)
