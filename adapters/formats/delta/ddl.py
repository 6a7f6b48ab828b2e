"""Create and alter Delta tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.adapters.formats.delta.writes.schema_evolution import MAPPING, needs_mapping
from lakeward.adapters.formats.shared.rows.system_columns import column_types
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension

RESERVED: Final = frozenset({"_metadata"})
"""Spark's name for the column of file metadata."""

DOMAIN_METADATA: Final = {"delta.feature.domainMetadata": "supported"}
"""The property that lets the table's own metadata carry progress, which no cleaning of the log removes."""


def create(spark: SparkSession, path: str, dimension: Dimension, options: TableOptions) -> None:
    """Create the table of a dimension."""
    columns = column_types(dimension)
    properties = {
        **DOMAIN_METADATA,
        "delta.enableDeletionVectors": str(options.write_mode == "merge-on-read").lower(),
        **(MAPPING if needs_mapping(dimension.stored.schema) else {}),
        **options.properties,
    }
    listed = ", ".join(f"{quoted(name)} {ddl(type_)}" for name, type_ in columns.items())
    partitions, clusters = (", ".join(map(quoted, names)) for names in (options.partition_by, options.cluster_by))
    layout_sql = f"PARTITIONED BY ({partitions}) " if partitions else ""
    layout_sql = f"CLUSTER BY ({clusters}) " if clusters else layout_sql
    properties_sql = ", ".join(f"{text(name)} = {text(value)}" for name, value in properties.items())
    spark.sql(
        f"CREATE TABLE delta.{quoted(path)} ({listed}) USING delta {layout_sql}TBLPROPERTIES ({properties_sql})"
    )


def enable(spark: SparkSession, path: str, properties: dict[str, str]) -> None:
    """Set properties of a table in a commit of their own; readers see no change."""
    properties_sql = ", ".join(f"{text(name)} = {text(value)}" for name, value in properties.items())
    spark.sql(f"ALTER TABLE delta.{quoted(path)} SET TBLPROPERTIES ({properties_sql})")


def cluster(spark: SparkSession, path: str, columns: Sequence[str]) -> None:
    """Set the clustering columns, by which OPTIMIZE sorts rows, in a commit of their own."""
    listed = f"({', '.join(map(quoted, columns))})" if columns else "NONE"
    spark.sql(f"ALTER TABLE delta.{quoted(path)} CLUSTER BY {listed}")
