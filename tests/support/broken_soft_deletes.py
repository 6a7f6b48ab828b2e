"""Tables with wrong soft deletes, in code that formats share: each class makes one mistake in `spoil`."""

from __future__ import annotations

import pytest
from broken_ports import AnyTable, patched
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.spark.history.surrogate_numbers import NOTHING, Numbering
from lakeward.adapters.spark.merge.fold.chain_results import Chains
from lakeward.adapters.spark.merge.resolution import IS_NOT_DELETED


class DeletesForGood(AnyTable):
    """Removes rows in spite of soft deletes."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        rows = Chains.rows

        def standing(self: Chains, numbering: Numbering = NOTHING) -> DataFrame:
            stored = rows(self, numbering)
            return stored.where(IS_NOT_DELETED) if self.plan.dimension.is_soft else stored

        patch.setattr(Chains, "rows", standing)


class EmptiesDeletedRows(AnyTable):
    """Keeps only the key of a deleted row."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        rows = Chains.rows

        def emptied(self: Chains, numbering: Numbering = NOTHING) -> DataFrame:
            stored, dimension = rows(self, numbering), self.plan.dimension
            own = [name for name in dimension.schema.names if dimension.is_soft and name not in dimension.key]
            return stored.withColumns({name: F.expr(f"CASE WHEN {IS_NOT_DELETED} THEN {name} END") for name in own})

        patch.setattr(Chains, "rows", emptied)


class RemovesRowsMissingFromALoad(AnyTable):
    """Removes rows that a full load lacks, as with hard deletes."""

    spoil = patched(Rows, "lacking", lambda _self, others: others.limit(0))
