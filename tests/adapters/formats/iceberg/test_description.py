"""An Iceberg table as readers find it, and which catalogs take a registration."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_lake

from lakeward.adapters.formats.iceberg.lake import IcebergLake
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.description import description_of
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ports import DescribedColumn
from lakeward.core.schema import parse_type
from lakeward.plugins import Runtime

TABLE = TableName("shop", "orders")


def test_a_table_is_described_with_its_comments(tmp_path: Path) -> None:
    table = small_lake.make(tmp_path)
    with table.update_schema() as update:
        update.update_column("id", doc="the key")
    with table.transaction() as transaction:
        transaction.set_properties({"comment": "what customers order"})
    catalog = IcebergCatalog(IcebergOptions(warehouse="lake"), tmp_path)
    found = description_of(catalog, TABLE)
    assert found is not None
    assert (found.identifier, found.format, found.comment) == (TABLE, "iceberg", "what customers order")
    assert found.location == table.location()
    assert found.columns[0] == DescribedColumn(name="id", type=parse_type("bigint"), comment="the key")
    assert description_of(catalog, TABLE, "__quarantine") is None


def test_only_tables_in_glue_take_a_registration(tmp_path: Path) -> None:
    lake = IcebergLake(IcebergOptions(warehouse="lake"), {}, Runtime(lambda: None, tmp_path))
    with pytest.raises(ConfigError, match="of the catalog 'sqlite' cannot be registered"):
        lake.identify(TABLE)
    in_glue = IcebergOptions(warehouse="s3://lake", catalog="glue", namespace="erp")
    assert IcebergLake(in_glue, {}, Runtime(lambda: None, tmp_path)).identify(TABLE) == ("erp", "orders")
    assert lake.describe(TABLE) is None
    assert lake.describe(TABLE, quarantine=True) is None
