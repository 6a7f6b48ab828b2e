"""A lake of Iceberg tables."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from lakeward.adapters.iceberg.catalog import IcebergCatalog
from lakeward.adapters.iceberg.options import IcebergOptions, TableOptions
from lakeward.adapters.iceberg.table import IcebergTable
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ports import Opened
from lakeward.plugins import Runtime


class IcebergLake:
    """Tables under one catalog; each keeps its own progress."""

    def __init__(self, options: IcebergOptions, tables: Mapping[TableName, TableOptions], runtime: Runtime) -> None:
        self.catalog = IcebergCatalog(options, runtime.base)
        self.tables = tables
        self.runtime = runtime
        runtime.require(*self.catalog.jars, settings=self.catalog.spark_settings)

    def open(self, dimension: Dimension) -> Opened[DataFrame]:
        """Return the table of a dimension; it is made by its first commit."""
        options = self.tables.get(dimension.name, TableOptions())
        table = IcebergTable(self.catalog, dimension, options, self.runtime.spark)
        return Opened(".".join(table.name), table, table, table)
