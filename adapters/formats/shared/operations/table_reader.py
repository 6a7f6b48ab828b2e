"""Reading a table whole, as it is now, whoever has written to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.operations.key_state import entries_of
from lakeward.adapters.formats.shared.rows.table_rows import Loaded
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.adapters.spark.session.errors import FAILURES, refused_by_disk, said, unreachable
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import DELETED
from lakeward.core.errors import TableError
from lakeward.core.history import as_of
from lakeward.core.ports import Sample, Selection

_PLAIN: Final[Mapping[str, str]] = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Times are written to the microsecond, as they are, in the form that all readers know."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Say in a person's words why a table cannot be read.

    Raises StoreUnreachable where S3 did not answer, and else TableError.
    """
    try:
        yield
    except (*FAILURES, OSError) as error:
        if (gone := unreachable(what, error)) is not None:
            raise gone from error
        raise TableError(
            f"{what}: the table cannot be read",
            found=refused_by_disk(error) or said(error),
            todo="Nothing was changed. Mend that, and ask again.",
        ) from error


class TableReading:
    """What reads one table; `load` gives it as it is now, or None where there is none."""

    def __init__(self, kept: Keeping, load: Callable[[], Loaded | None]) -> None:
        self.kept = kept
        self.load = load

    def first(self, wanted: Selection, limit: int) -> Sample:
        """Return the first rows, as values of Python for a person to look at, and how many there are."""
        with reading(str(self.kept.dimension.name)):
            rows = self._rows(wanted)
            order = [F.col(names.quoted(name)) for name in self.kept.dimension.stored.key if name in rows.columns]
            some = to_arrow(rows.orderBy(*order).limit(limit))
            return Sample(rows.count(), rows.columns, entries_of(some))

    def write(self, wanted: Selection, folder: str) -> int:
        """Write rows as Parquet files into an empty folder of this machine."""
        with reading(str(self.kept.dimension.name)):
            rows = self._rows(wanted)
            with _set(rows.sparkSession, _PLAIN):
                rows.write.mode("append").parquet(f"file://{folder}")
            expected = rows.count()
        found = sum(pq.read_metadata(file).num_rows for file in Path(folder).glob("*.parquet"))
        if found != expected:
            raise TableError(
                f"{self.kept.dimension.name}: its rows are not where they should have been written",
                found=f"there are {found:,} of {expected:,} rows in {folder}",
                todo="Where Spark runs on several machines, let the folder be one that all of them have. What was "
                "there before still is.",
            )
        return expected

    def _rows(self, wanted: Selection) -> DataFrame:
        dimension, loaded = self.kept.dimension, self.load()
        if loaded is None:
            raise TableError(f"{dimension.name} is gone", todo="Nothing was changed.")
        rows = loaded.rows().drop(FILE, POS)
        if wanted.at is not None and dimension.history is not None:
            rows = rows.where(as_of.valid_at(dimension.history, wanted.at, wanted.known))
        ours = [name for name in rows.columns if name.startswith(names.PREFIX) and name != DELETED]
        return rows if wanted.with_ours else rows.drop(*ours)


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session these settings, while the context lasts."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, str(was))
