"""Looking at a table whole, whoever has written to it; Spark does, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection

from lakeward.adapters.formats.shared.operations.table_reader import reading
from lakeward.adapters.formats.shared.rows.table_rows import Loaded
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.merge.resolution import STANDS
from lakeward.adapters.spark.schema_changes.schema_alignment import called_now
from lakeward.adapters.spark.verification import comparison_queries, history_queries
from lakeward.core.errors import TableError
from lakeward.core.history import as_of
from lakeward.core.history.version_checks import HistoryCheck
from lakeward.core.verification.compared_columns import ComparedColumns
from lakeward.core.verification.row_comparison import Comparison


class TableVerification:
    """What looks at one table whole; `load` gives it as it is now, or None where there is none."""

    def __init__(self, kept: Keeping, load: Callable[[], Loaded | None]) -> None:
        self.kept = kept
        self.load = load

    def check_history(self, examples: int) -> HistoryCheck:
        """Hold all versions against the rules; the columns are those that the table had when it was asked last."""
        dimension = self.kept.dimension
        with reading(str(dimension.name)):
            loaded = self.load()
            if loaded is None or not loaded.is_written:
                return HistoryCheck()
            rows = called_now(loaded.rows(), dimension.new_names)
            return history_queries.check(rows, dimension, examples)

    def compare(
        self, source: Frame, columns: ComparedColumns, among: Collection[str] | None
    ) -> Comparison:
        """Compare the rows that stand with those of the source, which are read first."""
        dimension = self.kept.dimension
        there = comparison_queries.digest_source(in_spark(source), columns)
        with reading(str(dimension.name)):
            loaded = self.load()
            if loaded is None:
                raise TableError(f"{dimension.name} is gone", todo="Nothing was changed.")
            rows = called_now(loaded.rows(), dimension.new_names)
            if dimension.history is not None:
                rows = rows.where(as_of.is_current(dimension.history))
            elif dimension.is_soft:
                rows = rows.where(STANDS)
            return comparison_queries.compare(there, comparison_queries.digest_table(rows, columns), columns, among)
