"""Changes of table rows by another writer, which does not know lakeward's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from project import Project
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow

Row = dict[str, Any]


@contextmanager
def opened(project: Project, namespace: str, table: str) -> Iterator[Table]:
    """Open an Iceberg table as another writer does."""
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{project.folder}/lake/catalog.db")
    try:
        yield catalog.load_table((namespace, table))
    finally:
        catalog.close()


def alter(
    project: Project, spark: SparkSession, change: Callable[[list[Row]], None], name: str = "shop.item"
) -> list[Row]:
    """Replace the rows of an Iceberg or Delta table by others in order, and return the old ones."""
    namespace, table = name.split(".")
    if project.kind == "iceberg":
        with opened(project, namespace, table) as found:
            altered, before = _altered(found.scan().to_arrow(), change)
            found.overwrite(altered)
        return before
    path = str(project.folder / "lake" / namespace / table)
    altered, before = _altered(to_arrow(spark.read.format("delta").load(path)), change)
    from_arrow(spark, altered).write.format("delta").mode("overwrite").save(path)
    return before


def _altered(table: pa.Table, change: Callable[[list[Row]], None]) -> tuple[pa.Table, list[Row]]:
    order = [name for name in ("id", "valid_from") if name in table.column_names]
    rows = sorted(table.to_pylist(), key=lambda row: [row[name] for name in order])
    before = [dict(row) for row in rows]
    change(rows)
    return pa.Table.from_pylist(rows, table.schema), before
