"""Catalogs of AWS that are reached by REST: what they are told, and tables whose place the catalog says."""

from __future__ import annotations

import tomllib
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from buckets import Buckets
from pages import fences
from pydantic import ValidationError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from rest_catalog import rest_catalog

from lakeward.adapters.formats.iceberg import ddl
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.columns import to_iceberg
from lakeward.adapters.formats.iceberg.options import IcebergOptions, TableOptions
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Column, Schema, parse_type

TABLE = TableName("shop", "orders")
SCHEMA = Schema((Column("id", parse_type("bigint")),))
ARN = "arn:aws:s3tables:eu-central-1:123456789012:bucket/acme"
SIGNED = {"rest.sigv4-enabled": "true", "rest.signing-name": "s3tables", "rest.signing-region": "eu-central-1"}
TARGETS = [
    found["target"]
    for found in (tomllib.loads(fence.content) for fence in fences("docs/how-to/aws/catalogs.md", "toml"))
    if "target" in found and found["target"]["kind"] == "iceberg"
]


def catalog_of(target: dict[str, Any], folder: Path) -> IcebergCatalog:
    return IcebergCatalog(IcebergOptions(**{key: value for key, value in target.items() if key != "kind"}), folder)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target["catalog_properties"]))
def test_what_the_page_says_arrives_at_spark_and_at_pyiceberg(
    target: dict[str, Any], s3: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, told = catalog_of(target, tmp_path), dict[str, Any]()
    monkeypatch.setattr(
        "lakeward.adapters.formats.iceberg.metadata.catalog.load_catalog",
        lambda name, **properties: told.update(properties),
    )
    assert catalog._reader is None
    prefix = "spark.sql.catalog.lake."
    spark = {name.removeprefix(prefix): value for name, value in catalog.spark_settings.items()}
    for name, value in {"warehouse": target["warehouse"], **target["catalog_properties"]}.items():
        assert spark[name] == told[name] == value
    assert (spark["type"], told["type"]) == (target["catalog"], target["catalog"])
    is_signed = target["catalog_properties"].get("rest.sigv4-enabled") == "true"
    assert ("aws" in catalog.jars) == (is_signed or target["catalog"] == "glue")


def test_the_page_has_settings_of_each_catalog() -> None:
    assert {target["catalog"] for target in TARGETS} == {"glue", "rest"}
    assert ARN in [target["warehouse"] for target in TARGETS]


def test_a_table_bucket_places_its_tables(s3: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[str] = []
    parse = BaseHTTPRequestHandler.parse_request

    def note(handler: BaseHTTPRequestHandler) -> bool:
        is_read = parse(handler)
        heads.append(f"{handler.command} {handler.headers.get('Authorization', '')}")
        return is_read

    monkeypatch.setattr(BaseHTTPRequestHandler, "parse_request", note)
    with rest_catalog(tmp_path) as uri:
        properties = {"uri": uri, **SIGNED}
        target = {"catalog": "rest", "warehouse": ARN, "catalog_properties": properties}
        catalog = catalog_of(target, tmp_path)
        assert catalog.location(TABLE) is None
        catalog.prepare(TABLE)
        made = catalog.create(TABLE, "__changes", to_iceberg(SCHEMA), UNPARTITIONED_PARTITION_SPEC, {})
        assert made.location().startswith(f"file://{tmp_path}/lake")
        assert catalog.load(TABLE, "__changes") is not None
    assert all("AWS4-HMAC-SHA256" in head and "/s3tables/aws4_request" in head for head in heads)
    assert heads


def test_a_table_bucket_purges_dropped_tables(s3: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    purged: list[Any] = []
    monkeypatch.setattr(RestCatalog, "purge_table", lambda _, name: purged.append(name))
    with rest_catalog(tmp_path) as uri:
        catalog = catalog_of({"catalog": "rest", "warehouse": ARN, "catalog_properties": {"uri": uri}}, tmp_path)
        catalog.prepare(TABLE)
        catalog.create(TABLE, "", to_iceberg(SCHEMA), UNPARTITIONED_PARTITION_SPEC, {})
        assert catalog.drop_unwritten(TABLE)
    assert purged == [("shop", "orders")]


@pytest.mark.parametrize(("location", "is_said"), [("s3://lake/shop/orders", True), (None, False)])
def test_spark_names_a_place_where_there_is_one(location: str | None, *, is_said: bool) -> None:
    said: list[str] = []

    class Spark:
        def sql(self, statement: str) -> None:
            said.append(statement)

    spark: Any = Spark()
    dimension = Dimension(name=TABLE, schema=SCHEMA, key=("id",))
    ddl.create_main(spark, ("lake", *TABLE), location, dimension, TableOptions())
    assert ("LOCATION 's3://lake/shop/orders'" in said[0], "LOCATION" in said[0]) == (is_said, is_said)


def test_a_table_bucket_takes_a_rest_catalog() -> None:
    with pytest.raises(ValidationError, match='catalog = "rest"'):
        IcebergOptions(warehouse=ARN, catalog="glue")
