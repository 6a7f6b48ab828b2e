"""What the command line of AWS writes of a replication task, and what it says of full loads."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeward.adapters.sources.dms import build_statistics
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ledger.full_loads import LoadStatus
from lakeward.plugins import Runtime

ORDERS = TableName("shop", "orders")
BEGAN, ENDED = "2026-11-21T12:00:00.125000+00:00", "2026-11-21T13:00:05+01:00"


def micros(*moment: int) -> int:
    return round(datetime(2026, 11, 21, *moment, tzinfo=UTC).timestamp() * 1_000_000)


STATUS = LoadStatus(began=micros(12, 0, 0, 125_000), ended=micros(12, 0, 5), rows=3)


def table(name: str = "orders", **more: Any) -> dict[str, Any]:
    """Return what AWS says of a table; this is an answer as its reference shows it, with less in it."""
    said = {"SchemaName": "shop", "TableName": name, "Inserts": 1, "FullLoadRows": 3, "FullLoadReloaded": False}
    times = {"FullLoadStartTime": BEGAN, "FullLoadEndTime": ENDED, "LastUpdateTime": ENDED}
    return {**said, **times, "TableState": "Table completed", "ValidationState": "Not enabled", **more}


def write(file: Path, *tables: dict[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    document = {"ReplicationTaskArn": "arn:aws:dms:eu-central-1:1:task:T", "TableStatistics": tables}
    file.write_text(json.dumps(document), "utf-8")


def full_load(folder: Path, table: TableName = ORDERS, path: str = "s.json") -> LoadStatus | None:
    return build_statistics({"path": path}, Runtime(lambda: None, folder)).full_load(table)


def test_a_load_that_has_ended_is_told_with_its_times_and_rows(tmp_path: Path) -> None:
    write(tmp_path / "s.json", table("lines", FullLoadRows=9), table())
    assert full_load(tmp_path) == STATUS
    assert full_load(tmp_path, TableName("shop", "other")) is None


def test_the_older_command_line_writes_seconds(tmp_path: Path) -> None:
    seconds = micros(12, 0, 0, 125_000) / 1_000_000
    write(
        tmp_path / "s.json", table(FullLoadStartTime=seconds, FullLoadEndTime=float(micros(12, 0, 5) // 1_000_000))
    )
    assert full_load(tmp_path) == STATUS


@pytest.mark.parametrize(
    "said", [{"TableState": "Full load"}, {"TableState": "Table error"}, {"FullLoadEndTime": None}]
)
def test_a_load_that_goes_on_or_failed_has_no_end(tmp_path: Path, said: dict[str, Any]) -> None:
    write(tmp_path / "s.json", table(**said))
    status = full_load(tmp_path)
    assert status is not None
    assert status.ended is None


def test_a_table_that_was_not_begun_says_nothing(tmp_path: Path) -> None:
    write(tmp_path / "s.json", {"SchemaName": "shop", "TableName": "orders", "TableState": "Before load"})
    assert full_load(tmp_path) is None


def test_names_are_compared_without_case_unless_one_is_exactly_that(tmp_path: Path) -> None:
    write(tmp_path / "s.json", table("ORDERS", FullLoadRows=4))
    assert full_load(tmp_path) == LoadStatus(began=STATUS.began, ended=STATUS.ended, rows=4)
    write(tmp_path / "s.json", table("ORDERS", FullLoadRows=4), table())
    assert full_load(tmp_path) == STATUS


def test_of_the_tasks_in_a_folder_that_counts_which_loaded_last(tmp_path: Path) -> None:
    write(tmp_path / "tasks" / "a.json", table())
    write(tmp_path / "tasks" / "b.json", table(FullLoadStartTime="2026-11-20T12:00:00+00:00", FullLoadRows=9))
    assert full_load(tmp_path, path="tasks") == STATUS


@pytest.mark.parametrize("content", [None, "{", "[]", '{"TableStatistics": [{"TableName": "orders"}]}'])
def test_what_cannot_be_read_is_said_with_the_file(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "s.json").write_text(content, "utf-8")
    with pytest.raises(ConfigError, match=r"s\.json"):
        full_load(tmp_path)


def test_a_wrong_key_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="statistics"):
        build_statistics({"pth": "s.json"}, Runtime(lambda: None, tmp_path))
