"""`docs/how-to/aws/settings.md`: its settings work against moto, and commands print what the page shows."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import boto3
import pytest
from buckets import ENVIRONMENT, Buckets
from pages import create_table, fences, text

from lakeward.adapters.settings_stores.dynamodb import _ATTRIBUTES, ControlTable
from lakeward.adapters.settings_stores.hudi_job import read_parameters
from lakeward.adapters.settings_stores.published_pipeline import read_tables
from lakeward.adapters.settings_stores.ssm import build as build_parameters
from lakeward.entrypoints.cli import main
from lakeward.entrypoints.settings.models.sections import StoresSettings
from lakeward.plugins import Runtime
from lakeward.plugins.manager import load, registry_of

PAGE = "docs/how-to/aws/settings.md"
TOML = [block.content for block in fences(PAGE, "toml")]
JSON = [json.loads(block.content) for block in fences(PAGE, "json")]
CONSOLE = [block.content for block in fences(PAGE, "console")]


@pytest.fixture
def aws(s3_server: Buckets, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    named = {"AWS_ENDPOINT_URL": s3_server.endpoint, "AWS_ACCESS_KEY_ID": "of-a-test"}
    for name, value in {**ENVIRONMENT, **named}.items():
        monkeypatch.setenv(name, value)
    return boto3.Session()


def test_the_example_shows_what_the_page_says(
    s3_server: Buckets,
    aws: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bucket = s3_server.make()
    s3_server.put(f"s3://{bucket}/shop.json", json.dumps(JSON[0]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("orders.toml").touch()
    Path("lakeward.toml").write_text(TOML[0].replace("acme-settings", bucket), "utf-8")
    command, *expected = CONSOLE[0].splitlines()
    assert main(shlex.split(command.removeprefix("$ lakeward "))) == 0
    printed = capsys.readouterr().out.replace(bucket, "acme-settings").splitlines()
    assert [" ".join(line.split()) for line in printed] == [" ".join(line.split()) for line in expected]


def test_every_store_of_the_page_can_be_made(aws: Any) -> None:
    registry, runtime, kinds = registry_of(load(entry_points=False)), Runtime(lambda: None), set()
    for content in map(tomllib.loads, TOML):
        for options in StoresSettings(**content.get("settings", {})).stores:
            own = {key: value for key, value in options.items() if key != "kind"}
            assert registry.settings_stores.build(options["kind"], own, runtime)
            kinds.add(options["kind"])
    assert kinds == {*registry.settings_stores}


def test_the_published_forms_are_read(aws: Any) -> None:
    (table,) = read_tables(json.dumps(JSON[1]), "the place")
    assert (table.table, table.keys["key"], table.error) == ("sports.player", ["id", "team_id"], None)
    keys_of_job = read_parameters(JSON[3], "the place")
    assert keys_of_job == {"key": ["id"], "partition_by": ["region"], "write_mode": "copy-on-write"}


def test_a_parameter_of_a_table_is_read(aws: Any) -> None:
    aws.client("ssm").put_parameter(Name="/lakeward/tables/shop.orders", Value=TOML[2], Type="String")
    layer = build_parameters({"name": "/lakeward/tables", "form": "tables"}, Runtime(lambda: None)).read()
    assert layer.content["tables"] == {"shop.orders": tomllib.loads(TOML[2])}


def test_the_control_table_of_the_page_is_one_and_its_attributes_are_those_of_the_code(aws: Any) -> None:
    request, client = create_table(PAGE), aws.client("dynamodb")
    client.create_table(**request)
    client.put_item(TableName=request["TableName"], Item=JSON[2])
    layer = ControlTable(request["TableName"]).read()
    keys = {"key": ["id"], "partition_by": ["region"], "lateness": "24h", "skip": False}
    assert (layer.content["tables"], layer.broken) == ({"shop.orders": keys}, {})
    assert [name for name in _ATTRIBUTES if f"`{name}`" not in text(PAGE)] == []
