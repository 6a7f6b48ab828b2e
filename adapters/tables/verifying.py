"""Looking at a table whole, whoever has written to it; Spark does, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable

from lakeward.adapters.spark import verifying
from lakeward.adapters.spark.fitting import called_now
from lakeward.adapters.tables.keeping import Keeping
from lakeward.adapters.tables.reading import reading
from lakeward.adapters.tables.rows import Loaded
from lakeward.core.history.check import Checked


class TableVerification:
    """What looks at one table whole; `load` gives it as it is now, or None where there is none."""

    def __init__(self, kept: Keeping, load: Callable[[], Loaded | None]) -> None:
        self.kept = kept
        self.load = load

    def check_history(self, examples: int) -> Checked:
        """Hold all versions against the rules; the columns are those that the table had when it was asked last."""
        dimension = self.kept.dimension
        with reading(str(dimension.name)):
            loaded = self.load()
            if loaded is None or not loaded.is_written:
                return Checked()
            rows = called_now(loaded.rows(), dimension.new_names)
            return verifying.check(rows, dimension, examples)
