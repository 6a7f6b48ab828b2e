"""What a catalog tells Spark of a warehouse in S3, and which jars it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from buckets import Buckets

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError

FACTORY = "spark.sql.catalog.lake.s3.client-factory-impl"


def catalog(folder: Path, warehouse: str, **more: object) -> IcebergCatalog:
    return IcebergCatalog(IcebergOptions.model_validate({"warehouse": warehouse, **more}), folder)


@pytest.mark.parametrize(
    ("line", "warehouse", "kind", "jars", "has_factory"),
    [
        ("4.1", "lake/", "sqlite", ("iceberg", "sqlite"), False),
        ("4.1", "s3://shop-lake/tables", "sqlite", ("iceberg", "sqlite", "s3"), True),
        # The jars of S3 are of the SDK's first version there, and Iceberg's classes need the second.
        ("3.5", "s3://shop-lake/tables", "sqlite", ("iceberg", "sqlite", "aws"), False),
        ("4.1", "s3://shop-lake/tables", "glue", ("iceberg", "aws"), False),
    ],
)
def test_a_catalog_names_the_jars_that_it_needs(
    s3: Buckets,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    warehouse: str,
    kind: str,
    jars: tuple[str, ...],
    has_factory: bool,
) -> None:
    monkeypatch.setattr("lakeward.adapters.formats.iceberg.metadata.catalog.line", lambda: line)
    found = catalog(tmp_path, warehouse, catalog=kind)
    assert (found.jars, FACTORY in found.spark_settings) == (jars, has_factory)
    settings = [name for name in found.spark_settings if "s3" in name or "io-impl" in name]
    assert bool(settings) is warehouse.startswith("s3://")


def test_a_catalog_in_s3_says_how_and_has_its_file_beside_the_settings(s3: Buckets, tmp_path: Path) -> None:
    found = catalog(tmp_path, "s3a://shop-lake/tables/")
    assert found.spark_settings["spark.sql.catalog.lake.warehouse"] == "s3://shop-lake/tables"
    assert found.spark_settings["spark.sql.catalog.lake.uri"] == f"jdbc:sqlite:{tmp_path}/catalog.db"
    assert found.spark_settings["spark.sql.catalog.lake.s3.endpoint"] == s3.endpoint
    assert found.spark_settings[FACTORY].endswith(".DefaultS3FileIOAwsClientFactory")
    assert found.location(TableName("shop", "../item")).startswith("s3://shop-lake/tables/shop/_item-")


def test_what_the_settings_say_of_a_catalog_counts(s3: Buckets, tmp_path: Path) -> None:
    own = {"s3.endpoint": "https://store.example", "uri": "https://catalog.example"}
    found = catalog(tmp_path, "s3://shop-lake/tables", catalog="rest", catalog_properties=own)
    assert found.spark_settings["spark.sql.catalog.lake.s3.endpoint"] == "https://store.example"


def test_a_bucket_that_is_not_there_is_said_before_a_table_is_made(s3: Buckets, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the bucket no-such-bucket does not exist"):
        catalog(tmp_path, "s3://no-such-bucket/lake").prepare(TableName("shop", "item"))
