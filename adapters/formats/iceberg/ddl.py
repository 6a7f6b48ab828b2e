"""Create Iceberg tables."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from lakeward.adapters.formats.iceberg.checks import MODES, check_options, sort_field, transform
from lakeward.adapters.formats.iceberg.java import Jvm
from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.adapters.formats.shared.rows.system_columns import column_types
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError

RESERVED: Final = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
"""Iceberg's names of metadata columns."""

_PER_COLUMN: Final = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.stats-enabled.column.",
)


def create_main(
    spark: SparkSession, name: Sequence[str], location: str | None, dimension: Dimension, options: TableOptions
) -> None:
    """Create the table of a dimension. Without a `location` its catalog decides where."""
    properties = {
        "format-version": str(options.format_version),
        **dict.fromkeys(MODES, options.write_mode),
        **options.properties,
    }
    columns = column_types(dimension)
    listed = ", ".join(f"{quoted(column)} {ddl(type_)}" for column, type_ in columns.items())
    partitions = ", ".join(transform(item, dimension.stored) for item in options.partition_by)
    partition_sql = f"PARTITIONED BY ({partitions}) " if partitions else ""
    properties_sql = ", ".join(f"{text(key)} = {text(value)}" for key, value in properties.items())
    location_sql = "" if location is None else f"LOCATION {text(location)} "
    spark.sql(
        f"CREATE TABLE {quoted(*name)} ({listed}) USING iceberg {partition_sql}{location_sql}"
        f"TBLPROPERTIES ({properties_sql})"
    )


def order(jvm: Jvm, table: Any, dimension: Dimension, sort_by: Sequence[str]) -> None:
    """Set the sort order, with NULLs where Iceberg puts them by default."""
    sorting, nulls = table.replaceSortOrder(), jvm.iceberg.NullOrder
    for item in sort_by:
        name, descends = sort_field(item, dimension)
        column = jvm.iceberg.expressions.Expressions.ref(name)
        if descends:
            sorting.desc(column, nulls.NULLS_LAST)
        else:
            sorting.asc(column, nulls.NULLS_FIRST)
    sorting.commit()


def check_all_options(jvm: Jvm, dimension: Dimension, options: TableOptions) -> None:
    """Raise ConfigError for options that the table could not be created with, before anything is written."""
    check_options(dimension, options)
    if not options.properties:
        return
    known_names = set(known_properties(jvm))
    for name in options.properties:
        if name not in known_names and not name.startswith(_PER_COLUMN):
            similar = difflib.get_close_matches(name, known_names, n=1)
            raise ConfigError(
                f"{dimension.name}: Iceberg knows no table property {name!r}",
                todo=f"Did you mean {similar[0]!r}?"
                if similar
                else "See iceberg.apache.org/docs/latest/configuration.",
            )


def known_properties(jvm: Jvm) -> Iterator[str]:
    """Return the table properties that the running Iceberg knows, from its own class of them."""
    loader = jvm.gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    listed = jvm.gateway.jvm.java.lang.Class.forName("org.apache.iceberg.TableProperties", True, loader)
    for field in listed.getFields():
        if field.getType().getName() == "java.lang.String" and not field.getName().endswith("_DEFAULT"):
            yield str(field.get(None))
