"""The state of one key: Spark reads the table, delta-rs its side tables.

hudi-rs 0.5.0, which needs no Spark, panics at columns of types that it does not know, such as `timestamp_ntz`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.row_search import found_in
from lakeward.adapters.formats.hudi.metadata.progress import commits_of, read_table_state, timeline_of
from lakeward.adapters.formats.hudi.session import reader
from lakeward.adapters.formats.shared.operations import key_state as known
from lakeward.adapters.formats.shared.operations.key_state import Entry, entries_of
from lakeward.adapters.formats.shared.rows.conditions import Condition
from lakeward.adapters.formats.shared.rows.spark_conditions import as_column
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key
from lakeward.core.operations.key_state import KeyState
from lakeward.core.progress import Progress


def read_key_state(places: Places, dimension: Dimension, key: Key, spark: Callable[[], SparkSession]) -> KeyState:
    """Return the state of a key as of the last commit of ours."""
    state = read_table_state(places, dimension.name)
    if not state.progress.batch or state.schema is None:
        return KeyState(key=key, progress=Progress())
    commits = commits_of(places, dimension.name)
    finder = _Finder(places, dimension.name, state.schema.names, spark)
    return known.read_key_state(finder, dimension, key, state.progress, commits)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds rows of a table and its side tables."""

    places: Places
    table: TableName
    names: Collection[str]
    spark: Callable[[], SparkSession]

    def columns(self, suffix: str = "") -> Collection[str]:
        """Return the names of the columns; none if the table does not exist."""
        if not suffix:
            return self.names
        table = self.places.load(self.table, suffix)
        return () if table is None else [field.name for field in table.schema().fields]

    def rows(self, where: Condition, suffix: str = "") -> Sequence[Entry]:
        """Return the rows that meet a condition, with all columns."""
        if suffix:
            table = self.places.load(self.table, suffix)
            return [] if table is None else found_in(table, where)
        as_of = timeline_of(self.places, self.table).greatest()
        rows = reader(self.spark(), as_of).load(self.places.of(self.table))
        return entries_of(to_arrow(rows.where(as_column(where, rows.schema.jsonValue()))))
