"""Read all rows of a table as of now, whoever has written to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.operations.key_state import entries_of
from lakeward.adapters.formats.shared.operations.spark_settings import spark_settings
from lakeward.adapters.formats.shared.rows.table_rows import TableSnapshot
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.merge.resolution import FILE, IS_NOT_DELETED, POS
from lakeward.adapters.spark.schema_changes.schema_alignment import rename_columns
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.adapters.spark.session.errors import FAILURES, refused_by_disk, short_message, unreachable
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.verification import comparison_queries, history_queries
from lakeward.core.dimension import DELETED
from lakeward.core.errors import TableError
from lakeward.core.history import as_of
from lakeward.core.history.version_checks import HistoryCheck
from lakeward.core.ports import Sample, Selection
from lakeward.core.verification.compared_columns import ComparedColumns
from lakeward.core.verification.row_comparison import Comparison

_PLAIN: Final[Mapping[str, str]] = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Times are written to the microsecond, unchanged, in the form that all readers know."""


@contextmanager
def reading(table_name: str) -> Iterator[None]:
    """Raise an error that people understand if a table cannot be read.

    Raises StoreUnreachable if S3 did not answer, and otherwise TableError.
    """
    try:
        yield
    except (*FAILURES, OSError) as error:
        if (unreachable_error := unreachable(table_name, error)) is not None:
            raise unreachable_error from error
        raise TableError(
            f"{table_name}: the table cannot be read",
            found=refused_by_disk(error) or short_message(error),
            todo="Nothing was changed. Mend that, and ask again.",
        ) from error


class SparkTableReader:
    """Reads one table. `load` returns its current snapshot, or None if there is no table."""

    def __init__(self, side_tables: SideTables, load: Callable[[], TableSnapshot | None]) -> None:
        self.side_tables = side_tables
        self.load = load

    def first(self, wanted: Selection, limit: int) -> Sample:
        """Return the first rows as Python values, and the number of all rows."""
        with reading(str(self.side_tables.dimension.name)):
            rows = self._rows(wanted)
            order = [
                F.col(names.quoted(name)) for name in self.side_tables.dimension.stored.key if name in rows.columns
            ]
            first_rows = to_arrow(rows.orderBy(*order).limit(limit))
            return Sample(rows.count(), rows.columns, entries_of(first_rows))

    def write(self, wanted: Selection, folder: str) -> int:
        """Write rows as Parquet files into an empty folder of this machine; return their number."""
        with reading(str(self.side_tables.dimension.name)):
            rows = self._rows(wanted)
            with spark_settings(rows.sparkSession, _PLAIN):
                rows.write.mode("append").parquet(f"file://{folder}")
            expected = rows.count()
        written = sum(pq.read_metadata(file).num_rows for file in Path(folder).glob("*.parquet"))
        if written != expected:
            raise TableError(
                f"{self.side_tables.dimension.name}: its rows are not where they should have been written",
                found=f"there are {written:,} of {expected:,} rows in {folder}",
                todo="Where Spark runs on several machines, let the folder be one that all of them have. What was "
                "there before still is.",
            )
        return expected

    def check_history(self, examples: int) -> HistoryCheck:
        """Hold all versions against the rules; the columns are those that the table had when it was asked last."""
        dimension = self.side_tables.dimension
        with reading(str(dimension.name)):
            snapshot = self.load()
            if snapshot is None or not snapshot.is_written:
                return HistoryCheck()
            rows = rename_columns(snapshot.rows(), dimension.new_names)
            return history_queries.check(rows, dimension, examples)

    def compare(
        self, source: Frame, columns: ComparedColumns, among: Collection[str] | None
    ) -> Comparison:
        """Compare the current rows with those of the source, which are read first."""
        dimension = self.side_tables.dimension
        source_digest = comparison_queries.digest_source(in_spark(source), columns)
        with reading(str(dimension.name)):
            snapshot = self.load()
            if snapshot is None:
                raise TableError(f"{dimension.name} is gone", todo="Nothing was changed.")
            rows = rename_columns(snapshot.rows(), dimension.new_names)
            if dimension.history is not None:
                rows = rows.where(as_of.is_current(dimension.history))
            elif dimension.is_soft:
                rows = rows.where(IS_NOT_DELETED)
            return comparison_queries.compare(
                source_digest, comparison_queries.digest_table(rows, columns), columns, among
            )

    def _rows(self, wanted: Selection) -> DataFrame:
        dimension, snapshot = self.side_tables.dimension, self.load()
        if snapshot is None:
            raise TableError(f"{dimension.name} is gone", todo="Nothing was changed.")
        rows = snapshot.rows().drop(FILE, POS)
        if wanted.at is not None and dimension.history is not None:
            rows = rows.where(as_of.valid_at(dimension.history, wanted.at, wanted.known))
        system_columns = [name for name in rows.columns if name.startswith(names.PREFIX) and name != DELETED]
        return rows if wanted.with_ours else rows.drop(*system_columns)
