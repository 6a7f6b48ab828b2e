"""The state of one key, read with delta-rs, which skips whole files by their statistics.

Spark reads a table with widened columns: delta-rs 1.6.6 refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta.metadata.progress import commits_of, read_table_state
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.row_search import found_in
from lakeward.adapters.formats.shared.operations import key_state as known
from lakeward.adapters.formats.shared.operations.key_state import Entry, entries_of
from lakeward.adapters.formats.shared.rows.conditions import Condition
from lakeward.adapters.formats.shared.rows.spark_conditions import as_column
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key
from lakeward.core.operations.key_state import KeyState
from lakeward.core.progress import Progress

_WIDENED: Final = "typeWidening"


def read_key_state(places: Places, dimension: Dimension, key: Key, spark: Callable[[], SparkSession]) -> KeyState:
    """Return the state of a key as of the last commit of ours."""
    progress = read_table_state(places, dimension.name).progress
    if not progress.batch:
        return KeyState(key=key, progress=Progress())
    commits = commits_of(places, dimension.name)
    return known.read_key_state(_Finder(places, dimension.name, spark), dimension, key, progress, commits)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds rows of a table and its side tables."""

    places: Places
    table: TableName
    spark: Callable[[], SparkSession]

    def columns(self, suffix: str = "") -> Collection[str]:
        """Return the names of the columns; none if the table does not exist."""
        table = self.places.load(self.table, suffix)
        return () if table is None else [field.name for field in table.schema().fields]

    def rows(self, where: Condition, suffix: str = "") -> Sequence[Entry]:
        """Return the rows that meet a condition, with all columns."""
        table = self.places.load(self.table, suffix)
        if table is None:
            return []
        if _WIDENED in (table.protocol().reader_features or ()):
            rows = self.spark().read.format("delta").load(self.places.of(self.table, suffix))
            return entries_of(to_arrow(rows.where(as_column(where, rows.schema.jsonValue()))))
        return found_in(table, where)
