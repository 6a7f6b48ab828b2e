"""A lake of Delta tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakeward.adapters.formats.delta.metadata.progress import read_table_state
from lakeward.adapters.formats.delta.options import DeltaOptions, TableOptions
from lakeward.adapters.formats.delta.session import SETTINGS
from lakeward.adapters.formats.delta_rs.description import description_of
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.shared.rows.system_columns import of_source
from lakeward.adapters.formats.shared.side_tables.side_table import QUARANTINE
from lakeward.adapters.formats.shared.storage.table_folders import refuse_shared
from lakeward.adapters.spark.session.java import check_spark
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.operations.key_state import KeyState
from lakeward.core.ports import Opened, TableDescription, TableState
from lakeward.core.schema_changes.evolution import RecordedChange
from lakeward.plugins import Runtime

if TYPE_CHECKING:
    from lakeward.adapters.formats.delta.table import DeltaTable
    from lakeward.adapters.formats.shared.joined.joined_table import JoinedLakeTable
    from lakeward.adapters.spark.frames.local_frame import Frame


class DeltaLake:
    """Tables under one folder, on a disk or in a bucket. Each stores its own progress."""

    def __init__(self, options: DeltaOptions, tables: Mapping[TableName, TableOptions], runtime: Runtime) -> None:
        self.places = Places(options.warehouse, options.namespace, runtime.base)
        self.tables = tables
        self.runtime = runtime
        refuse_shared(tables, options.namespace)
        runtime.require("delta", *self.places.jars, settings={**SETTINGS, **self.places.spark_settings})

    def table_state(self, dimension: Dimension) -> TableState:
        """Return the table state as of the last commit of ours, without Spark."""
        return of_source(read_table_state(self.places, dimension.name), dimension)

    def schema_changes(self, dimension: Dimension) -> Sequence[RecordedChange]:
        """Return how the columns of a table changed, from its change log."""
        check_spark()
        from lakeward.adapters.formats.delta_rs.side_table_factory import read_schema_changes  # noqa: PLC0415  # it imports Spark

        batch = self.table_state(dimension).progress.batch
        return read_schema_changes(self.places, dimension, self.runtime.spark, batch)

    def key_state(self, dimension: Dimension, key: Key) -> KeyState:
        """Return what the table, its change log and its quarantine know of a key, read by delta-rs where it can."""
        check_spark()
        from lakeward.adapters.formats.delta.operations.key_state import read_key_state  # noqa: PLC0415  # it imports Spark

        return read_key_state(self.places, dimension, key, self.runtime.spark)

    def identify(self, table: TableName) -> tuple[str, str]:
        """Return namespace and name of a table, which need not exist."""
        return self.places.name(table)

    def describe(self, table: TableName, *, quarantine: bool = False) -> TableDescription | None:
        """Return the description of a table or its quarantine from its log, or None if it does not exist."""
        return description_of(self.places, table, QUARANTINE if quarantine else "")

    def open(self, dimension: Dimension) -> Opened[Frame]:
        """Return the table of a dimension; its first commit creates it."""
        check_spark()
        from lakeward.adapters.formats.delta.operations.layout import DeltaLayout  # noqa: PLC0415  # Spark is imported late
        from lakeward.adapters.formats.delta.operations.maintenance import DeltaMaintenance  # noqa: PLC0415  # so is it here
        from lakeward.adapters.formats.shared.operations.full_loads import TableLoads  # noqa: PLC0415  # and here
        from lakeward.adapters.formats.shared.operations.opened_table import opened_table  # noqa: PLC0415  # and here

        table = self._table(dimension)
        return opened_table(
            table, self.places.name(dimension.name), DeltaMaintenance(table), DeltaLayout(table), TableLoads(table)
        )

    def joined(self, joining: JoinDefinition) -> JoinedLakeTable:
        """Return a joined table; its first commit creates it."""
        check_spark()
        from lakeward.adapters.formats.shared.joined.joined_table import JoinedLakeTable  # noqa: PLC0415  # Spark is imported late

        sources = {name: self._table(dimension) for name, dimension in joining.tables.items()}
        name, table = ".".join(self.places.name(joining.joined.name)), self._table(joining.dimension)
        return JoinedLakeTable(name, joining, table, sources, self.runtime.spark)

    def _table(self, dimension: Dimension) -> DeltaTable:
        from lakeward.adapters.formats.delta.table import DeltaTable  # noqa: PLC0415  # Spark is imported late

        return DeltaTable(
            self.places,
            dimension,
            self.tables.get(dimension.name, TableOptions()),
            self.runtime.spark,
            self.runtime.small_batch,
            self.runtime.run_ids,
        )
