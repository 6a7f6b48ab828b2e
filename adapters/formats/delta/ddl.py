"""Making Delta tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.adapters.formats.delta.writes.schema_evolution import MAPPING, needs_mapping
from lakeward.adapters.formats.shared.rows.system_columns import row_columns
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension

RESERVED: Final = frozenset({"_metadata"})
"""Spark's own name for where a row of a file lies."""

OURS: Final = {"delta.feature.domainMetadata": "supported"}
"""Progress stands in the table's own metadata as well, where no cleaning of the log forgets it."""


def create(spark: SparkSession, path: str, dimension: Dimension, options: TableOptions) -> None:
    """Create the table of a dimension."""
    columns = {**{c.name: c.type for c in dimension.stored.schema}, **row_columns(dimension)}
    properties = {
        **OURS,
        "delta.enableDeletionVectors": str(options.write_mode == "merge-on-read").lower(),
        **(MAPPING if needs_mapping(dimension.stored.schema) else {}),
        **options.properties,
    }
    listed = ", ".join(f"{quoted(name)} {ddl(type_)}" for name, type_ in columns.items())
    partitions, clusters = (", ".join(map(quoted, names)) for names in (options.partition_by, options.cluster_by))
    parted = f"PARTITIONED BY ({partitions}) " if partitions else ""
    parted = f"CLUSTER BY ({clusters}) " if clusters else parted
    set_ = ", ".join(f"{text(name)} = {text(value)}" for name, value in properties.items())
    spark.sql(f"CREATE TABLE delta.{quoted(path)} ({listed}) USING delta {parted}TBLPROPERTIES ({set_})")


def enable(spark: SparkSession, path: str, properties: dict[str, str]) -> None:
    """Give a table properties in a commit of its own: it changes nothing that a reader sees."""
    set_ = ", ".join(f"{text(name)} = {text(value)}" for name, value in properties.items())
    spark.sql(f"ALTER TABLE delta.{quoted(path)} SET TBLPROPERTIES ({set_})")


def cluster(spark: SparkSession, path: str, columns: Sequence[str]) -> None:
    """Say by which columns OPTIMIZE puts rows together, in a commit of its own."""
    listed = f"({', '.join(map(quoted, columns))})" if columns else "NONE"
    spark.sql(f"ALTER TABLE delta.{quoted(path)} CLUSTER BY {listed}")
