"""Making Delta tables."""

from __future__ import annotations

import difflib
from typing import Final

from pyspark.sql import SparkSession

from lakeward.adapters.delta.evolving import MAPPING, needs_mapping
from lakeward.adapters.delta.options import TableOptions
from lakeward.adapters.spark.names import quoted, text
from lakeward.adapters.spark.types import ddl
from lakeward.adapters.tables.columns import system_columns
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError

RESERVED: Final = frozenset({"_metadata"})
"""Spark's own name for where a row of a file lies."""

OURS: Final = {"delta.feature.domainMetadata": "supported"}
"""Progress stands in the table's own metadata as well, where no cleaning of the log forgets it."""

_CHANGES_OF_OURS: Final = (
    "delta.appendOnly",
    "delta.enableDeletionVectors",
    "delta.columnMapping.mode",
    "delta.setTransactionRetentionDuration",  # the table would forget at which batch it is
)


def create(spark: SparkSession, path: str, dimension: Dimension, options: TableOptions) -> None:
    """Create the table that mirrors a dimension."""
    columns = {**{c.name: c.type for c in dimension.schema}, **system_columns(dimension.sequences)}
    properties = {
        **OURS,
        "delta.enableDeletionVectors": str(options.write_mode == "merge-on-read").lower(),
        **(MAPPING if needs_mapping(dimension.schema) else {}),
        **options.properties,
    }
    listed = ", ".join(f"{quoted(name)} {ddl(type_)}" for name, type_ in columns.items())
    partitions = ", ".join(map(quoted, options.partition_by))
    partitioned = f"PARTITIONED BY ({partitions}) " if partitions else ""
    set_ = ", ".join(f"{text(name)} = {text(value)}" for name, value in properties.items())
    spark.sql(f"CREATE TABLE delta.{quoted(path)} ({listed}) USING delta {partitioned}TBLPROPERTIES ({set_})")


def check(dimension: Dimension, options: TableOptions) -> None:
    """Refuse, before anything is written, what the table could not be made with."""
    for name in options.partition_by:
        column = dimension.schema.find(name)
        if column is None:
            near = difflib.get_close_matches(name, dimension.schema.names, n=1)
            raise ConfigError(
                f"{dimension.name}: {name!r} under partition_by names no column",
                found="the columns are " + ", ".join(dimension.schema.names),
                todo=f"Did you mean {near[0]!r}?" if near else "Delta knows no transforms: name a column.",
            )
        if column.type.is_nested or column.type.name == "binary":
            raise ConfigError(
                f"{dimension.name}: rows cannot be partitioned by {name!r}",
                found=f"it is {column.type}",
                todo="Delta partitions by columns of plain types: choose another, or none.",
            )
    for name in options.properties:
        if name in _CHANGES_OF_OURS:
            raise ConfigError(
                f"{dimension.name}: {name} is not for `properties` to say",
                todo="`write_mode` says whether there are deletion vectors; lakeward maps columns where it must, "
                "and asks the table at which batch it is.",
            )


def enable(spark: SparkSession, path: str, properties: dict[str, str]) -> None:
    """Give a table properties in a commit of its own: it changes nothing that a reader sees."""
    set_ = ", ".join(f"{text(name)} = {text(value)}" for name, value in properties.items())
    spark.sql(f"ALTER TABLE delta.{quoted(path)} SET TBLPROPERTIES ({set_})")
