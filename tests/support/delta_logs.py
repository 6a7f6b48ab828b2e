"""A Delta table with batches of lakeward in its log, written by delta-rs."""

from __future__ import annotations

import json
from typing import Literal, NoReturn

import deltalake
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction

from lakeward.adapters.formats.delta.metadata.progress import APP, PROGRESS
from lakeward.adapters.formats.delta.operations.rollback import DeltaLineage
from lakeward.adapters.formats.delta_rs.columns import to_delta
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.shared.rows.system_columns import SYSTEM_COLUMNS
from lakeward.core.dimension import TableName
from lakeward.core.progress import Progress
from lakeward.core.schema import Type

ITEM = TableName("shop", "item")

Mode = Literal["append", "overwrite"]


def no_spark() -> NoReturn:
    raise AssertionError("the log is read without Spark")


def make_table(places: Places, batches: int, mode: Mode = "append") -> Places:
    """Create the table as version 0, with a batch in each version from 1 on; return its place."""
    places.prepare(ITEM)
    places.create_table(ITEM, "", to_delta({"id": Type("int"), **SYSTEM_COLUMNS}), None, {})
    for batch in range(1, batches + 1):
        commit(places, batch, mode=mode)
    return places


def commit(places: Places, batch: int, table: DeltaTable | None = None, mode: Mode = "append") -> None:
    table = table or places.open_version(ITEM)
    metadata = {"userMetadata": json.dumps({PROGRESS: Progress(batch=batch).to_json()})}
    properties = CommitProperties(custom_metadata=metadata, app_transactions=[Transaction(APP, batch)])
    rows = pa.Table.from_pylist([{"id": batch}], schema=pa.schema(table.schema().to_arrow()))
    deltalake.write_deltalake(table, rows, mode=mode, commit_properties=properties)


def lineage_of(places: Places) -> DeltaLineage:
    lineage = DeltaLineage.of(places, ITEM, no_spark)
    assert lineage is not None
    return lineage
