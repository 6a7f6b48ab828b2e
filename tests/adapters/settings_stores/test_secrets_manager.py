"""Settings in Secrets Manager: their laws and errors, with a server of moto."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from projects import MEMORY, write
from structlog.testing import capture_logs

from lakeward.adapters.settings_stores.hudi_job import read_parameters
from lakeward.adapters.settings_stores.secrets_manager import build
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.startup.context import open_settings
from lakeward.plugins import Runtime
from lakeward.plugins.testing import StoreUnderTest, settings_store_contract

RUNTIME = Runtime(lambda: None, file=Path("lakeward.toml"))
WORD = "s3cret of a team"
NUMBERS = count(1)


@pytest.fixture
def prefix(aws_services: None) -> str:
    return f"hudi-{next(NUMBERS)}/"


def put(name: str, content: str | bytes | Mapping[str, Any]) -> None:
    client = boto3.Session().client("secretsmanager")
    if isinstance(content, bytes):
        client.create_secret(Name=name, SecretBinary=content)
    else:
        client.create_secret(Name=name, SecretString=content if isinstance(content, str) else json.dumps(content))


def in_one_secret(prefix: str) -> StoreUnderTest:
    put(f"{prefix}all", '[tables."shop.orders"]\nkey = ["id"]\n')
    store = build({"name": f"{prefix}all"}, RUNTIME)
    return StoreUnderTest(store=store, tables={"shop.orders": {"key": ["id"]}}, place=f"{prefix}all")


def one_for_each_table(prefix: str) -> StoreUnderTest:
    put(f"{prefix}shop.orders", 'key = ["id"]\n')
    put(
        f"{prefix}shop.lines",
        {
            "hoodie.table.name": "lines",
            "hoodie.datasource.write.recordkey.field": "id,line",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.precombine.field": "updated_at",
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
            "hoodie.clean.commits.retained": "3",
            "redelivery": 7,
        },
    )
    put(f"{prefix}shop.broken", f"{{{WORD}")
    put(f"other-{prefix}shop.none", "key = []")
    tables: dict[str, Any] = {
        "shop.orders": {"key": ["id"]},
        "shop.lines": {
            "redelivery": 7,
            "key": ["id", "line"],
            "partition_by": [],
            "write_mode": "copy-on-write",
            "properties": {"hoodie.clean.commits.retained": "3"},
        },
    }
    store = build({"name": prefix, "form": "tables"}, RUNTIME)
    return StoreUnderTest(store=store, tables=tables, place=prefix, broken=["shop.broken"], unshown=WORD)


TestPipeline = settings_store_contract(in_one_secret)
TestTables = settings_store_contract(one_for_each_table)


def test_a_comma_within_a_transform_does_not_separate_columns() -> None:
    parameters = {
        "hoodie.datasource.write.recordkey.field": "id,",
        "hoodie.datasource.write.partitionpath.field": "bucket(16,id), region",
    }
    assert read_parameters(parameters, "secret") == {"key": ["id"], "partition_by": ["bucket(16,id)", "region"]}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"hoodie.datasource.write.recordkey.field": ["id"]}, "recordkey.field' must be a text"),
        ({"hoodie.datasource.write.recordkey.field": ""}, "recordkey.field': the key has no column"),
        ({"hoodie.datasource.write.recordkey.field": "id", "key": ["id"]}, "and `key` set the same"),
        ({"hoodie.clean.commits.retained": "3", "properties": {}}, "and `properties` set the same"),
    ],
)
def test_invalid_parameters_of_a_hudi_job_are_refused(parameters: Mapping[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match="the place: 'hoodie") as raised:
        read_parameters(parameters, "the place")
    assert expected in raised.value.what


def test_only_listed_tables_are_read_and_a_missing_one_fails_alone(prefix: str, tmp_path: Path) -> None:
    put(f"{prefix}shop.orders", 'key = ["id"]')
    put(f"{prefix}shop.bytes", b"\xff")
    put(f"{prefix}shop.others", "key = [")
    tables = 'tables = ["shop.orders", "shop.bytes", "shop.none"]'
    store = f"[settings]\nstores = [{{ kind='secretsmanager', name='{prefix}', form='tables', {tables} }}]"
    configured = open_settings(str(write(tmp_path, MEMORY, store)))
    assert configured.dimension(TableName("shop", "orders")).key == ("id",)
    errors = {str(name): error.what for name, error in configured.refused.items()}
    assert errors == {
        "shop.bytes": f"secret {prefix}shop.bytes is no text",
        "shop.none": f"secret {prefix}shop.none does not exist",
    }


def test_a_pipeline_goes_on_without_its_last_secret_and_warns_once(prefix: str, tmp_path: Path) -> None:
    lines = '[tables."shop.lines"]\nkey = ["id"]\n'
    store = f"[settings]\nstores = [{{ kind='secretsmanager', name='{prefix}', form='tables' }}]\n"
    file = str(write(tmp_path, MEMORY, store, lines))
    put(f"{prefix}shop.orders", 'key = ["id"]')
    assert [*map(str, open_settings(file).tables)] == ["shop.lines", "shop.orders"]
    client = boto3.Session().client("secretsmanager")
    client.delete_secret(SecretId=f"{prefix}shop.orders", ForceDeleteWithoutRecovery=True)
    with capture_logs() as logs:
        for _ in range(2):
            assert [*map(str, open_settings(file).tables)] == ["shop.lines"]
    warnings = [(entry["event"], entry["store"]) for entry in logs if entry["log_level"] == "warning"]
    assert warnings == [("a settings store has no table", f"secrets {prefix}*")]


def test_invalid_names_are_errors(prefix: str) -> None:
    for options, expected in (
        ({"name": "", "form": "tables"}, "`name` is empty"),
        ({"name": "a", "tables": ["a.b"]}, "`tables` is for secrets of tables"),
    ):
        with pytest.raises(ConfigError, match=expected):
            build(options, RUNTIME)
    with pytest.raises(ConfigError, match=f"secret {prefix}none does not exist"):
        open_settings(f"secretsmanager:{prefix}none")
