"""A table that was made for a load which failed is dropped, unless another writer has written to it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.core.dimension import TableName

ITEM = TableName("shop", "item")


def test_a_table_with_the_rows_of_another_writer_stays(tmp_path: Path) -> None:
    catalog = IcebergCatalog(IcebergOptions(warehouse="lake"), tmp_path)
    catalog.prepare(ITEM)
    columns = Schema(NestedField(1, "id", LongType()))
    catalog.create(ITEM, "", columns, UNPARTITIONED_PARTITION_SPEC, {})
    assert catalog.drop_unwritten(ITEM)
    assert catalog.load(ITEM) is None
    catalog.create(ITEM, "", columns, UNPARTITIONED_PARTITION_SPEC, {}).append(pa.table({"id": [1]}))
    assert not catalog.drop_unwritten(ITEM)
    left = catalog.load(ITEM)
    assert left is not None
    assert left.scan().to_arrow().to_pylist() == [{"id": 1}]
