"""Rows of a delta-rs table as Spark frames, read and written as plain Parquet files.

delta-rs writes no deletion vectors and no mapped columns, so Spark needs no jar of Delta.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.shared.storage.folder import Folder, ListedFile
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.schema import Schema

_LARGE: Final = "large-"
"""The prefix of folders with files that Spark wrote; each is of one commit."""


def frame_of(spark: SparkSession, folder: Folder, table: DeltaTable, schema: Schema) -> DataFrame:
    """Return the rows of a table in a folder, at the version that was loaded."""
    partitions = table.metadata().partition_columns
    files: dict[tuple[str | None, ...], list[str]] = defaultdict(list)
    for path, values in _files(table, partitions):
        files[values].append(folder.place(path))
    inner = ", ".join(f"{quoted(c.name)} {ddl(c.type)}" for c in schema if c.name not in partitions)
    wanted = [quoted(name) for name in schema.names]
    parts = []
    for values, paths in files.items():
        constants = [
            f"CAST({'NULL' if value is None else text(value)} AS string) AS {quoted(name)}"
            for name, value in zip(partitions, values, strict=True)
        ]
        parts.append(spark.read.schema(inner).parquet(*paths).selectExpr("*", *constants).selectExpr(*wanted))
    if not parts:
        return spark.createDataFrame([], ", ".join(f"{quoted(c.name)} {ddl(c.type)}" for c in schema))
    return reduce(DataFrame.unionByName, parts)


def _files(table: DeltaTable, partitions: Sequence[str]) -> Sequence[tuple[str, tuple[str | None, ...]]]:
    """Return the files of a table, each with its partition values."""
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [(unquote(file["path"]), tuple(file[f"partition.{name}"] for name in partitions)) for file in actions]


def write_files(root: Folder, table: DeltaTable, rows: DataFrame) -> Sequence[AddAction]:
    """Write rows with Spark into the folder of a table; return the files, which no version has yet."""
    name = f"{_LARGE}{uuid4()}"
    partitions, folder = table.metadata().partition_columns, root.within(name)
    rows.write.partitionBy(*partitions).parquet(str(folder))
    files = [file for file in sorted(folder.all_files()) if file.name.endswith(".parquet")]
    return [_added(name, file, _rows_in(folder, file), partitions) for file in files]


def _rows_in(folder: Folder, file: ListedFile) -> int:
    with folder.open(file.name) as opened:
        return int(pq.read_metadata(opened).num_rows)


def _added(folder: str, file: ListedFile, rows: int, partitions: Sequence[str]) -> AddAction:
    values: Mapping[str, str | None] = {
        name: unquote(part.removeprefix(f"{name}="))
        for part in file.name.split("/")
        for name in partitions
        if part.startswith(f"{name}=")
    }
    return AddAction(
        path=f"{folder}/{file.name}",
        size=file.size,
        partition_values=values,
        modification_time=int(file.seconds * 1000),
        data_change=True,
        stats=json.dumps({"numRecords": rows}),
    )


def replace_partitions(table: DeltaTable, name: str, values: Sequence[str], added: Sequence[AddAction]) -> None:
    """Replace whole partitions, given by the values of a column, by these files in one commit."""
    filters: Any = [(name, "in", list(values))]
    table.create_write_transaction(list(added), "overwrite", table.schema(), [name], filters)
