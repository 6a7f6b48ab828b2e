"""The snapshots that an Iceberg table comes from, as PyIceberg reads them; no Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.columns import to_iceberg
from lakeward.adapters.formats.iceberg.metadata.progress import PROPERTY, TAG
from lakeward.adapters.formats.iceberg.operations.rollback import IcebergLineage
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.core.dimension import TableName
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type

ITEM = TableName("shop", "item")


def test_a_listed_commit_is_found_although_one_between_has_expired(tmp_path: Path) -> None:
    catalog = IcebergCatalog(IcebergOptions(warehouse="lake"), tmp_path)
    catalog.prepare(ITEM)
    schema = to_iceberg(Schema((Column("id", Type("bigint")),)))
    table = catalog.create(ITEM, "", schema, PartitionSpec(), {"format-version": "2"})
    rows = pa.Table.from_pylist([{"id": 1}], schema=schema_to_pyarrow(table.schema(), include_field_ids=False))
    table.append(rows, snapshot_properties={PROPERTY: Progress(batch=1).to_json()})
    ours = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_tag(ours, TAG).commit()
    table.append(rows)
    table.append(rows)
    table.maintenance.expire_snapshots().by_id(table.snapshots()[1].snapshot_id).commit()
    loaded = catalog.load(ITEM)
    assert loaded is not None
    line = IcebergLineage(ITEM, loaded, lambda: (None, None))  # type: ignore[arg-type,return-value]
    [version] = line.versions()
    assert version.name == str(ours)
    assert line.find(version.name) == version
    line.check(version.name)
