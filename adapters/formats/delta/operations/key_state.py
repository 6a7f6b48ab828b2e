"""What is known of one key, found by delta-rs; it leaves out whole files where statistics allow it.

A table with widened columns is read by Spark: delta-rs 1.6.6 refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta.metadata.progress import commits_of, standing_of
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.row_search import found_in
from lakeward.adapters.formats.shared.operations import key_state as known
from lakeward.adapters.formats.shared.operations.key_state import Entry, entries_of
from lakeward.adapters.formats.shared.rows.conditions import Where
from lakeward.adapters.formats.shared.rows.spark_conditions import as_column
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key, canonical
from lakeward.core.operations.key_state import Known
from lakeward.core.progress import Progress

_NAN = canonical(float("nan"))
_WIDENED: Final = "typeWidening"


def known_of(places: Places, dimension: Dimension, key: Key, spark: Callable[[], SparkSession]) -> Known:
    """Return all that is known of a key, as of the last commit of ours."""
    progress = standing_of(places, dimension.name).progress
    if not progress.batch:
        return Known(key=key, progress=Progress())
    commits = commits_of(places, dimension.name)
    return known.known_of(_Finder(places, dimension.name, spark), dimension, key, progress, commits)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds rows of a table, and of what stands beside it."""

    places: Places
    table: TableName
    spark: Callable[[], SparkSession]

    def columns(self, suffix: str = "") -> Collection[str]:
        """Return the names of its columns; none where it is not there."""
        table = self.places.load(self.table, suffix)
        return () if table is None else [field.name for field in table.schema().fields]

    def rows(self, where: Where, suffix: str = "") -> Sequence[Entry]:
        """Return the rows that meet a condition, whole."""
        table = self.places.load(self.table, suffix)
        if table is None:
            return []
        if _WIDENED in (table.protocol().reader_features or ()):
            rows = self.spark().read.format("delta").load(self.places.of(self.table, suffix))
            return entries_of(to_arrow(rows.where(as_column(where, rows.schema.jsonValue()))))
        return found_in(table, where)
