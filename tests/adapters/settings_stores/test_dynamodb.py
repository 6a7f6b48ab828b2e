"""Settings in a control table of DynamoDB: their laws and errors, with a table of moto."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.dynamodb.types import TypeSerializer
from botocore.exceptions import ClientError, EndpointConnectionError
from projects import MEMORY, write

from lakeward.adapters.settings_stores.dynamodb import ControlTable, WrittenControlTable, build
from lakeward.core.errors import ConfigError, StoreUnreachable
from lakeward.core.ports import StatusBoard, TableStatus
from lakeward.entrypoints.api import run
from lakeward.entrypoints.startup.context import open_settings
from lakeward.plugins import Runtime
from lakeward.plugins.testing import StoreUnderTest, settings_store_contract

RUNTIME = Runtime(lambda: None, file=Path("lakeward.toml"))
WORD = "s3cret of a team"
NUMBERS = count(1)
AT = 1_795_000_000_000_000


@pytest.fixture
def control(aws_services: None) -> str:
    table = f"control-{next(NUMBERS)}"
    boto3.Session().client("dynamodb").create_table(
        TableName=table,
        AttributeDefinitions=[{"AttributeName": "table", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "table", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return table


def put(control: str, table: str, **attributes: Any) -> None:
    write_value = TypeSerializer().serialize
    item = {name: write_value(value) for name, value in {"table": table, **attributes}.items()}
    boto3.Session().client("dynamodb").put_item(TableName=control, Item=item)


def item(control: str, table: str) -> dict[str, str]:
    response = boto3.Session().client("dynamodb").get_item(TableName=control, Key={"table": {"S": table}})
    return {name: value.get("S") for name, value in response.get("Item", {}).items()}


def of_a_team(control: str) -> StoreUnderTest:
    put(control, "shop.orders", settings={"key": ["id"], "redelivery": 7, "columns": {"id": "int"}})
    put(control, "shop.lines", settings='key = ["id", "line"]\n', load_status="delta", job_status="failed")
    put(control, "shop.places", record_key="id,region,", partition_key="bucket(16,id),region", job_name="places")
    put(control, "shop.old", enabled=False, settings=WORD)
    put(control, "shop.broken", settings=f"key = {WORD}")
    tables = {
        "shop.orders": {"key": ["id"], "redelivery": 7, "columns": {"id": "int"}},
        "shop.lines": {"key": ["id", "line"]},
        "shop.places": {"key": ["id", "region"], "partition_by": ["bucket(16,id)", "region"]},
        "shop.old": {"skip": True},
    }
    store = build({"name": control}, RUNTIME)
    return StoreUnderTest(store=store, tables=tables, place=control, broken=["shop.broken"], unshown=WORD)


TestControlTable = settings_store_contract(of_a_team)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"enabled": "no"}, "`enabled` is neither true nor false"),
        ({"enable": False}, "Did you mean 'enabled'?"),
        ({"settings": {"key": {"id"}}}, "`settings.key` is neither text, number, boolean, list nor map"),
        ({"settings": ["key"]}, "`settings` is neither a map nor a text"),
        ({"record_key": ["id"]}, "`record_key` must be a text"),
        ({"record_key": ""}, "record_key: the key has no column"),
        ({"partition_key": "a,,b"}, "partition_key: a column of the list has no name"),
    ],
)
def test_an_invalid_item_breaks_only_its_table(control: str, attributes: dict[str, Any], expected: str) -> None:
    put(control, "shop.orders", **attributes)
    put(control, "shop.lines", enabled=True)
    layer = ControlTable(control).read()
    assert layer.content["tables"] == {"shop.lines": {"skip": False}}
    assert expected in str(layer.broken["shop.orders"])
    assert f"dynamodb table {control}, item shop.orders" in str(layer.broken["shop.orders"])


def test_an_item_cannot_be_a_pattern(control: str) -> None:
    put(control, "shop.*", settings={"key": ["id"]})
    layer = ControlTable(control).read()
    assert layer.content["tables"] == {}
    assert "is a pattern" in str(layer.broken["shop.*"])


def test_an_item_enables_and_disables_its_table_regardless_of_the_file(control: str, tmp_path: Path) -> None:
    put(control, "shop.orders", enabled=True, settings={"skip": True})
    put(control, "shop.lines", enabled=False)
    put(control, "shop.places", settings={"redelivery": 7})
    tables = {"orders": "true", "lines": "false", "places": "true"}
    parts = [f'[tables."shop.{name}"]\nkey = ["id"]\nskip = {skip}\n' for name, skip in tables.items()]
    store = f"[settings]\nstores = [{{ kind = 'dynamodb', name = '{control}' }}]\n"
    configured = open_settings(write(tmp_path, MEMORY, store, *parts))
    assert [*map(str, configured.tables)] == ["shop.orders"]


def test_a_missing_control_table_or_one_with_another_key_is_an_error(control: str) -> None:
    with pytest.raises(ConfigError, match="dynamodb table none-of-all does not exist"):
        ControlTable("none-of-all").read()
    client = boto3.Session().client("dynamodb")
    client.create_table(
        TableName=f"{control}-other",
        AttributeDefinitions=[{"AttributeName": "lease", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "lease", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.put_item(TableName=f"{control}-other", Item={"lease": {"S": "shop"}})
    with pytest.raises(ConfigError, match="has an item without the text `table`"):
        ControlTable(f"{control}-other").read()


def test_throttling_of_the_control_table_is_retryable(control: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "ProvisionedThroughputExceededException"}}, "Scan")  # type: ignore[typeddict-item]

    monkeypatch.setattr("lakeward.adapters.settings_stores.dynamodb._scan", refuse)
    with pytest.raises(StoreUnreachable, match=f"dynamodb table {control} cannot be read now"):
        ControlTable(control).read()


def test_results_are_written_only_into_existing_items(control: str) -> None:
    put(control, "shop.Orders", settings={"key": ["id"]}, error="of before")
    put(control, "shop.lines")
    store = build({"name": control, "write_back": True}, RUNTIME)
    assert isinstance(store, StatusBoard)
    assert not isinstance(build({"name": control}, RUNTIME), StatusBoard)
    failed = TableStatus(table="shop.lines", at=AT, is_loaded=False, error="shop.lines: no")
    fine, unknown = (TableStatus(table=name, at=AT, is_loaded=True) for name in ("shop.orders", "shop.new"))
    store.write([fine, failed, unknown])
    assert item(control, "shop.Orders") == {
        "table": "shop.Orders",
        "settings": None,
        "load_status": "delta",
        "job_status": "succeeded",
        "last_run": "2026-11-18T11:06:40Z",
    }
    lines = item(control, "shop.lines")
    assert (lines["load_status"], lines["job_status"], lines["error"]) == ("full", "failed", "shop.lines: no")
    assert item(control, "shop.new") == {}
    assert [*build({"name": control}, RUNTIME).read().content["tables"]] == ["shop.Orders", "shop.lines"]


def test_a_run_writes_back_if_configured(control: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(control, "shop.orders", settings={"key": ["id"]})
    put(control, "shop.lines", settings={"lateness": "soon"})
    put(control, "shop.old", enabled=False)
    put(control, "places", settings={"key": ["id"]})
    store = f"[settings]\nstores = [{{ kind = 'dynamodb', name = '{control}', write_back = true }}]"
    document = run(str(write(tmp_path, MEMORY, store)), log="off")
    assert document["exit_code"] == 4
    assert f"shop.old is left out, as dynamodb table {control}, item shop.old says." in document["warnings"]
    assert (item(control, "shop.orders")["job_status"], item(control, "shop.orders")["load_status"]) == (
        "succeeded",
        "full",
    )
    assert item(control, "shop.lines")["job_status"] == "failed"
    assert "must be a duration" in item(control, "shop.lines")["error"]
    assert "does not name a table" in item(control, "places")["error"]
    assert "job_status" not in item(control, "shop.old")


def test_a_failed_write_back_is_a_warning(control: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(control, "shop.orders", settings={"key": ["id"]})
    store = f"[settings]\nstores = [{{ kind = 'dynamodb', name = '{control}', write_back = true }}]"
    file = write(tmp_path, MEMORY, store)
    for back in ("true", "false"):
        file.write_text(file.read_text("utf-8").replace("write_back = true", f"write_back = {back}"), "utf-8")
        with monkeypatch.context() as patched:
            patched.setattr("lakeward.adapters.settings_stores.dynamodb.WrittenControlTable._update", _refused)
            document = run(str(file), log="off")
        assert document["exit_code"] == 0
        expected = f"could not be written back: dynamodb table {control}, item shop.orders may not be written (AWS"
        assert (expected in json.dumps(document)) is (back == "true")


def test_an_item_that_cannot_be_written_does_not_stop_others(control: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["shop.a", "shop.b", "shop.c", "shop.d"]
    for name in names:
        put(control, name)
    update = WrittenControlTable._update

    def refuse_some(self: WrittenControlTable, client: Any, table: str, status: TableStatus) -> None:
        if table in ("shop.a", "shop.c"):
            _refused()
        update(self, client, table, status)

    monkeypatch.setattr(WrittenControlTable, "_update", refuse_some)
    with pytest.raises(ConfigError, match=r"item shop\.a may not be written") as refused:
        WrittenControlTable(control).write([TableStatus(table=name, at=AT, is_loaded=True) for name in names])
    assert str(refused.value.found).endswith("; 1 other item failed too")
    assert [name for name in names if "job_status" in item(control, name)] == ["shop.b", "shop.d"]


def test_after_a_connection_failure_no_item_is_written(control: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fail(_: object, __: object, table: str, ___: object) -> None:
        tried.append(table)
        raise EndpointConnectionError(endpoint_url="http://nowhere")

    for name in ("shop.a", "shop.b"):
        put(control, name)
    monkeypatch.setattr(WrittenControlTable, "_update", fail)
    statuses = [TableStatus(table=name, at=AT, is_loaded=True) for name in ("shop.a", "shop.b")]
    with pytest.raises(StoreUnreachable, match="cannot be written now"):
        WrittenControlTable(control).write(statuses)
    assert tried == ["shop.a"]


def _refused(*_: object, **__: object) -> None:
    raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "UpdateItem")
