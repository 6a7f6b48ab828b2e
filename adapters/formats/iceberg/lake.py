"""A lake of Iceberg tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.progress import read_table_state
from lakeward.adapters.formats.iceberg.options import IcebergOptions, TableOptions
from lakeward.adapters.formats.shared.rows.system_columns import of_source
from lakeward.adapters.formats.shared.side_tables.side_table import QUARANTINE
from lakeward.adapters.formats.shared.storage.table_folders import refuse_shared
from lakeward.adapters.spark.session.java import check_spark
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.events import Key
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.operations.key_state import KeyState
from lakeward.core.ports import Opened, TableDescription, TableState
from lakeward.core.schema_changes.evolution import RecordedChange
from lakeward.plugins import Runtime

if TYPE_CHECKING:
    from lakeward.adapters.formats.iceberg.table import IcebergTable
    from lakeward.adapters.formats.shared.joined.joined_table import JoinedLakeTable
    from lakeward.adapters.spark.frames.local_frame import Frame


class IcebergLake:
    """Tables under one catalog. Each stores its own progress."""

    def __init__(self, options: IcebergOptions, tables: Mapping[TableName, TableOptions], runtime: Runtime) -> None:
        self.catalog = IcebergCatalog(options, runtime.base)
        self.tables = tables
        self.runtime = runtime
        refuse_shared(tables, options.namespace)
        runtime.require(*self.catalog.jars, settings=self.catalog.spark_settings)

    def table_state(self, dimension: Dimension) -> TableState:
        """Return the table state as of the last commit of ours.

        Spark is not imported: that alone takes a quarter of a second.
        """
        return of_source(read_table_state(self.catalog, dimension.name), dimension)

    def identify(self, table: TableName) -> tuple[str, str]:
        """Return namespace and name of a table. Raises ConfigError if its catalog is not Glue."""
        if self.catalog.options.catalog != "glue":
            raise ConfigError(
                f"tables of the catalog {self.catalog.options.catalog!r} cannot be registered",
                found="Iceberg tables are in their catalog already",
                todo='Leave [registration] out. With `catalog = "glue"` it has tags and grants of Lake Formation.',
            )
        return self.catalog.identifier(table)

    def describe(self, table: TableName, *, quarantine: bool = False) -> TableDescription | None:
        """Return the description of a table or its quarantine from the catalog, or None if it does not exist."""
        from lakeward.adapters.formats.iceberg.metadata.description import description_of  # noqa: PLC0415  # it is for Glue alone

        return description_of(self.catalog, table, QUARANTINE if quarantine else "")

    def schema_changes(self, dimension: Dimension) -> Sequence[RecordedChange]:
        """Return how the columns of a table changed, from its change log."""
        check_spark()
        from lakeward.adapters.formats.iceberg.side_tables.side_table import IcebergSideTable  # noqa: PLC0415  # it imports Spark
        from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable  # noqa: PLC0415  # it imports Spark

        upto, spark = self.table_state(dimension).progress.batch, self.runtime.spark
        open_side_table = partial(IcebergSideTable, self.catalog, dimension.name, spark)
        return ChangeLogTable(dimension, open_side_table).batches.schema_changes(upto)

    def key_state(self, dimension: Dimension, key: Key) -> KeyState:
        """Return what the table, its change log and its quarantine know of a key, read by PyIceberg."""
        check_spark()
        from lakeward.adapters.formats.iceberg.operations.key_state import read_key_state  # noqa: PLC0415  # it imports Spark

        return read_key_state(self.catalog, dimension, key)

    def open(self, dimension: Dimension) -> Opened[Frame]:
        """Return the table of a dimension; its first commit creates it."""
        check_spark()
        from lakeward.adapters.formats.iceberg.operations.layout import IcebergLayout  # noqa: PLC0415  # Spark is imported late
        from lakeward.adapters.formats.iceberg.operations.maintenance import IcebergMaintenance  # noqa: PLC0415  # so is it here
        from lakeward.adapters.formats.shared.operations.full_loads import TableLoads  # noqa: PLC0415  # and here
        from lakeward.adapters.formats.shared.operations.opened_table import opened_table  # noqa: PLC0415  # and here

        table = self._table(dimension)
        maintenance = IcebergMaintenance(table)
        return opened_table(
            table, table.name, maintenance, IcebergLayout(table), TableLoads(table), small_files=maintenance
        )

    def joined(self, joining: JoinDefinition) -> JoinedLakeTable:
        """Return a joined table; its first commit creates it."""
        check_spark()
        from lakeward.adapters.formats.shared.joined.joined_table import JoinedLakeTable  # noqa: PLC0415  # Spark is imported late

        table = self._table(joining.dimension)
        sources = {name: self._table(dimension) for name, dimension in joining.tables.items()}
        return JoinedLakeTable(".".join(table.name), joining, table, sources, self.runtime.spark)

    def _table(self, dimension: Dimension) -> IcebergTable:
        from lakeward.adapters.formats.iceberg.table import IcebergTable  # noqa: PLC0415  # Spark is imported late

        return IcebergTable(
            self.catalog,
            dimension,
            self.tables.get(dimension.name, TableOptions()),
            self.runtime.spark,
            self.runtime.small_batch,
            self.runtime.run_ids,
        )
