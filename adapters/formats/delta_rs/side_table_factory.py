"""The side tables of tables that lie under one folder: Delta tables, of whichever format their main table is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta_rs.change_log_versions import DeltaChangeLogVersions
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.side_table import DeltaSideTable
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.operations.rollback import RestorableSideTables
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES
from lakeward.core.dimension import Dimension
from lakeward.core.schema_changes.evolution import RecordedChange


def open_side_tables(
    places: Places,
    dimension: Dimension,
    spark: Callable[[], SparkSession],
    small_batch: int,
    oldest_batch: Callable[[], int | None],
) -> RestorableSideTables:
    """Return the change log and the quarantine of a table.

    `oldest_batch` returns the batch of the table's first commit that it can be rolled back to, or None.
    """
    open_side_table = partial(DeltaSideTable, places, dimension.name, spark)
    change_log_versions = DeltaChangeLogVersions(open_side_table(CHANGES, {}, tuple), oldest_batch)
    return RestorableSideTables(dimension, open_side_table, spark, change_log_versions, small_batch)


def read_schema_changes(
    places: Places, dimension: Dimension, spark: Callable[[], SparkSession], batch: int
) -> Sequence[RecordedChange]:
    """Return how the columns of a table changed up to a batch, from its change log."""
    open_side_table = partial(DeltaSideTable, places, dimension.name, spark)
    return ChangeLogTable(dimension, open_side_table).batches.schema_changes(batch)
