"""Settings in the Parameter Store: their laws and errors, with a store of moto."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from projects import MEMORY, write
from structlog.testing import capture_logs

from lakeward.adapters.settings_stores.published_pipeline import read_pipeline, read_tables
from lakeward.adapters.settings_stores.ssm import build
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.settings.layers import merge
from lakeward.entrypoints.startup.context import open_settings
from lakeward.plugins import Runtime
from lakeward.plugins.testing import StoreUnderTest, settings_store_contract

RUNTIME = Runtime(lambda: None, file=Path("lakeward.toml"))
WORD = "s3cret of a team"
NUMBERS = count(1)
BROKEN = ["shop.broken", "below/shop.deeper"]
PUBLISHED: dict[str, Any] = {
    "dms_sample.player": {"primaryKey": "id,team_id,", "domain": "sports", "partitionCols": "sport,bucket(4, id)"},
    "dms_sample.person": {"primaryKey": "", "domain": "dms_sample", "partitionCols": ""},
}
CONFIG = {
    "rawBucket": "acme-raw",
    "rawBucketPrefix": "sources/dms/",
    "stageS3BucketName": "acme-stage",
    "warehouses3Path": "s3://acme-glue/warehouse",
}


@pytest.fixture
def path(aws_services: None) -> str:
    return f"/lakeward/{next(NUMBERS)}"


def put(name: str, content: str | Mapping[str, Any], kind: str = "String") -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    boto3.Session().client("ssm").put_parameter(Name=name, Value=text, Type=kind, Overwrite=True)


def in_one_parameter(path: str) -> StoreUnderTest:
    put(f"{path}/all", '[tables."shop.orders"]\nkey = ["id"]\n', "SecureString")
    tables = {"shop.orders": {"key": ["id"]}}
    return StoreUnderTest(store=build({"name": f"{path}/all"}, RUNTIME), tables=tables, place=f"{path}/all")


def one_for_each_table(path: str) -> StoreUnderTest:
    tables = {f"shop.table_{n:02}": {"key": [f"id_{n}"]} for n in range(12)}  # more than a page has
    for name, keys in tables.items():
        put(f"{path}/{name}", keys, "SecureString")
    put(f"{path}/shop.broken", f'{{"key": {WORD}')
    put(f"{path}/below/shop.deeper", "key = []")
    store = build({"name": f"{path}/", "form": "tables"}, RUNTIME)
    return StoreUnderTest(store=store, tables=tables, place=path, broken=BROKEN, unshown=WORD)


def as_published(path: str) -> StoreUnderTest:
    put(f"{path}-iceberg-tables", {**PUBLISHED, "dms_sample.team": {"primaryKey": [WORD], "domain": "sports"}})
    put(f"{path}-iceberg-config", CONFIG)
    store = build({"name": path, "form": "published"}, RUNTIME)
    tables = {
        "sports.player": {
            "key": ["id", "team_id"],
            "partition_by": ["sport", "bucket(4, id)"],
            "reads": "dms_sample.player",
        },
        "dms_sample.person": {"key": [], "partition_by": []},
    }
    return StoreUnderTest(store=store, tables=tables, place=path, broken=["dms_sample.team"], unshown=WORD)


TestPipeline = settings_store_contract(in_one_parameter)
TestTables = settings_store_contract(one_for_each_table)
TestPublished = settings_store_contract(as_published)


def test_a_published_pipeline_sets_source_path_and_warehouse(path: str) -> None:
    merged = merge([as_published(path).store.read()])
    assert merged.content["source"] == {"path": "s3://acme-raw/sources/dms"}
    assert merged.content["target"] == {"warehouse": "s3://acme-stage"}
    assert merged.places["source", "path"] == f"ssm parameter {path}-iceberg-config"
    assert merged.places["tables", "sports.player", "key"] == (
        f"ssm parameter {path}-iceberg-tables, dms_sample.player"
    )


def test_a_published_pipeline_without_buckets_has_its_tables(path: str) -> None:
    put(f"{path}-iceberg-tables", PUBLISHED)
    layer = build({"name": path, "form": "published"}, RUNTIME).read()
    assert [*layer.content] == ["tables"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.b", {"domain": "sports"}, "lacks the key 'primaryKey'"),
        ("a.b", {"primaryKey": "id"}, "lacks the key 'domain'"),
        ("a.b", {"primaryKey": "id", "domain": ""}, "`domain` is not the name of a database"),
        ("a.b", {"primaryKey": "id", "domain": "x", "partitionCol": ""}, "Did you mean 'partitionCols'?"),
        ("a.b", {"primaryKey": "id", "domain": "x", "partitionCols": None}, "'partitionCols' must be a text"),
        ("a.b", {"primaryKey": ",", "domain": "x"}, "primaryKey: a column of the list has no name"),
        ("a.b", {"primaryKey": "id,,n", "domain": "x"}, "primaryKey: a column of the list has no name"),
        ("a.b", "id", "is no JSON object"),
        ("b", {"primaryKey": "id", "domain": "x"}, "Write it as schema.table"),
        ("a.b.c", {"primaryKey": "id", "domain": "x"}, "Write it as schema.table"),
    ],
)
def test_an_invalid_published_table_breaks_only_itself(name: str, content: object, expected: str) -> None:
    fine = {"primaryKey": "id", "domain": "sports"}
    broken, whole = read_tables(json.dumps({name: content, "c.d": fine}), "the place")
    assert (broken.table, broken.origin) == (name, f"the place, {name}")
    assert expected in str(broken.error)
    assert (whole.table, whole.keys, whole.error) == ("sports.d", {"key": ["id"], "reads": "c.d"}, None)


def test_a_parameter_at_a_deeper_level_fails_alone(path: str, tmp_path: Path) -> None:
    put(f"{path}/shop.orders", 'key = ["id"]')
    put(f"{path}/old/shop.orders", 'key = ["id"]')
    stores = f"[settings]\nstores = [{{ kind = 'ssm', name = '{path}', form = 'tables' }}]\n"
    configured = open_settings(write(tmp_path, MEMORY, stores))
    assert configured.dimension(TableName("shop", "orders")).key == ("id",)
    assert [str(error.what) for error in configured.refused.values()] == [
        f"ssm parameter {path}/old/shop.orders is not directly below {path}"
    ]


def test_two_published_tables_of_one_name_in_the_lake_are_both_broken(path: str) -> None:
    alike = {f"{schema}.player": {"primaryKey": "id", "domain": "sports"} for schema in ("a", "b")}
    put(f"{path}-iceberg-tables", alike)
    layer = build({"name": path, "form": "published"}, RUNTIME).read()
    assert (layer.content["tables"], [*layer.broken]) == ({}, ["sports.player"])
    assert "iceberg-tables, a.player and " in str(layer.broken["sports.player"])


def test_invalid_published_buckets_are_an_error() -> None:
    buckets = [{"rawBucket": ""}, {"stageS3BucketName": "s3://stage/x"}]
    for content in ({**CONFIG, "rawBuckets": "a"}, {"rawBucket": 1}, [], *({**CONFIG, **one} for one in buckets)):
        with pytest.raises(ConfigError, match="the place"):
            read_pipeline(json.dumps(content), "the place")


def test_a_broken_parameter_fails_its_table(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stores = f"[settings]\nstores = [{{ kind = 'ssm', name = '{path}/tables', form = 'tables' }}]\n"
    put(f"{path}/shop", MEMORY + stores)
    put(f"{path}/tables/shop.orders", 'key = ["id"]')
    put(f"{path}/tables/shop.lines", "key = [")
    configured = open_settings(f"ssm:{path}/shop")
    assert configured.dimension(TableName("shop", "orders")).key == ("id",)
    with pytest.raises(ConfigError, match=f"ssm parameter {path}/tables/shop.lines is not valid TOML"):
        configured.dimension(TableName("shop", "lines"))


def test_a_missing_parameter_is_an_error(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"ssm parameter {path}/none does not exist"):
        open_settings(f"ssm:{path}/none")
    file = write(tmp_path, MEMORY, f"[settings]\nstores = [{{ kind='ssm', name='{path}', form='published' }}]")
    with pytest.raises(ConfigError, match="iceberg-tables does not exist"):
        open_settings(str(file))


def test_a_pipeline_goes_on_without_its_last_parameter_and_warns(path: str, tmp_path: Path) -> None:
    lines = '[tables."shop.lines"]\nkey = ["id"]\n'
    stores = f"[settings]\nstores = [{{ kind='ssm', name='{path}', form='tables' }}]\n"
    file = str(write(tmp_path, MEMORY, stores, lines))
    put(f"{path}/shop.orders", 'key = ["id"]')
    assert [*map(str, open_settings(file).tables)] == ["shop.lines", "shop.orders"]
    boto3.Session().client("ssm").delete_parameter(Name=f"{path}/shop.orders")
    with capture_logs() as logs:
        assert [*map(str, open_settings(file).tables)] == ["shop.lines"]
    warnings = [(entry["event"], entry["store"]) for entry in logs if entry["log_level"] == "warning"]
    assert warnings == [("a settings store has no table", f"ssm path {path}")]


def test_missing_credentials_are_an_error(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_ACCESS", "AWS_SECRET"))]:
        monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match="there are no credentials"):
        open_settings(f"ssm:{path}/all")
