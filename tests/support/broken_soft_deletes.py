"""Tables whose soft deletes are none, in what formats share: a class makes one mistake, by its `spoil`."""

from __future__ import annotations

import pytest
from broken_ports import Whole
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.spark.history.surrogate_numbers import NOTHING, Numbering
from lakeward.adapters.spark.merge.fold.chain_results import Chains
from lakeward.adapters.spark.merge.resolution import STANDS


class DeletesForGood(Whole):
    """Takes rows away that are to stay, and to say that they went."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Write rows that stand alone."""
        rows = Chains.rows

        def standing(self: Chains, numbering: Numbering = NOTHING) -> DataFrame:
            found = rows(self, numbering)
            return found.where(STANDS) if self.plan.dimension.is_soft else found

        patch.setattr(Chains, "rows", standing)


class EmptiesWhatWent(Whole):
    """Leaves of a row that went its key alone."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Write it so."""
        rows = Chains.rows

        def emptied(self: Chains, numbering: Numbering = NOTHING) -> DataFrame:
            found, dimension = rows(self, numbering), self.plan.dimension
            own = [name for name in dimension.schema.names if dimension.is_soft and name not in dimension.key]
            return found.withColumns({name: F.expr(f"CASE WHEN {STANDS} THEN {name} END") for name in own})

        patch.setattr(Chains, "rows", emptied)


class DropsWhatALoadLacks(Whole):
    """Drops the rows that a full load does not hold, as where deletes are hard."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Find none."""
        patch.setattr(Rows, "lacking", lambda _self, others: others.limit(0))
