"""Tables whose soft deletes are none, in what formats share: a class makes one mistake, by its `spoil`."""

from __future__ import annotations

import pytest
from broken_ports import Whole
from pyspark.sql import DataFrame

from lakeward.adapters.spark import names
from lakeward.adapters.spark.chains import Chains
from lakeward.adapters.spark.items import Items
from lakeward.adapters.spark.numbering import NOTHING, Numbering
from lakeward.adapters.tables.rows import Rows
from lakeward.core.dimension import DELETED


class DeletesForGood(Whole):
    """Takes rows away that are to stay, and to say that they went."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Write rows that stand alone."""
        rows = Chains.rows

        def standing(self: Chains, numbering: Numbering = NOTHING) -> DataFrame:
            found = rows(self, numbering)
            return found.where(names.STANDS) if self.plan.dimension.is_soft else found

        patch.setattr(Chains, "rows", standing)


class TakesWhatWentForARow(Whole):
    """Lets what follows meet a row that went as if it stood."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Fold it so."""
        of_rows = Items.of_rows
        patch.setattr(Items, "of_rows", lambda self, rows: of_rows(self, rows.drop(DELETED)))


class DropsWhatALoadLacks(Whole):
    """Drops the rows that a full load does not hold, as where deletes are hard."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Find none."""
        patch.setattr(Rows, "lacking", lambda _self, others: others.limit(0))
