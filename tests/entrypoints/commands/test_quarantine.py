"""What is in quarantine and what waits for its row, told of a lake that PyIceberg made: no Spark, no Java."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from commands import Command
from explained_lake import SETTINGS, ExplainedLake, event, place, record
from projects import write

from lakeward.adapters.formats.iceberg import table as iceberg
from lakeward.adapters.formats.shared.change_log.entries import BASE, OLD_RECORD, RECORD
from lakeward.adapters.formats.shared.side_tables import quarantine
from lakeward.adapters.spark.sql import names
from lakeward.core.events import LOAD_SEQUENCE, Position
from lakeward.core.progress import Progress
from lakeward.core.schema import parse_type

NINE = 1_795_251_600_000_000  # 2026-11-21 09:00:00 UTC
IN_PART = {
    names.UNSET: parse_type("list<string>"),
    names.OLD: parse_type("struct<id: bigint>"),
    OLD_RECORD: parse_type("string"),
    names.TRANSACTION: parse_type("string"),
}


def at(minutes: int, object_: int, row: int = 1) -> Position:
    return Position(1, NINE + minutes * 60_000_000, object_, row)


@pytest.fixture
def lake(tmp_path: Path) -> ExplainedLake:
    write(tmp_path, SETTINGS, 'key = ["id"]\n', 'columns = { id = "bigint", city = "string" }\n')
    (tmp_path / "landing").mkdir()
    return ExplainedLake(tmp_path)


def change(minutes: int, batch: int, key: int, operation: str = "update", **more: Any) -> dict[str, Any]:
    """An event of the minute, in the object of its batch; `old` is the key that it leaves."""
    old = more.pop("old", None)
    text = {RECORD: f'["{key}"]', OLD_RECORD: None if old is None else f'["{old}"]'}
    kind = "delete" if operation == "delete" else more.pop("kind", "change")
    return {**event(kind, operation, at(minutes, batch, minutes), batch, id=key), **text, **more}


PART = {names.UNSET: ["city"]}


def test_events_that_wait_for_their_row_are_told_from_those_that_have_it(
    lakeward: Command, lake: ExplainedLake
) -> None:
    """By what is remembered of their keys: rows before, whole events, deletes, and changes of a key."""
    lake.table([{"id": 9, "city": "Kiel", **place(at(1, 1), 1)}], Progress(batch=2))
    lake.change_log(
        [
            record(1, {1: "1.csv"}, at=NINE),
            record(2, {2: "2.csv"}, at=NINE + 1),
            change(10, 2, 1, **PART),
            change(0, 2, 2, kind=BASE),
            change(11, 2, 2, **PART),
            change(5, 1, 3, "insert"),
            change(12, 2, 3, **PART),
            change(5, 1, 4, "insert"),
            change(6, 1, 4, "delete"),
            change(13, 2, 4, **PART),
            change(14, 1, 5, **PART),
            change(15, 2, 5, city="whole"),
            change(16, 2, 7, old=6, **PART),
            change(5, 1, 8, "insert"),
            change(17, 2, 80, old=8, **PART),
            change(18, 3, 10, **PART),
        ],
        IN_PART,
    )
    listed = lakeward("quarantine", "list", "--json")
    waiting = listed.document["waiting"]
    assert [(one["key"], one["old_key"], one["object"], one["row"]) for one in waiting] == [
        (["1"], None, "2.csv", 10),
        (["4"], None, "2.csv", 13),
        (["7"], ["6"], "2.csv", 16),
    ]
    assert {(one["state"], one["detail"], one["since"]) for one in waiting} == {
        ("waiting", "not sent: city", "2026-11-21T09:00:00.000001Z")
    }
    assert (listed.code, listed.document["entries"]) == (0, [])
    shown = lakeward("quarantine", "list").out
    assert "Nothing is in quarantine.\nWaiting: events with a part of a row that does not exist yet.\n" in shown
    assert shown.endswith("Next: `lakeward quarantine show shop.orders`\n")
    one = lakeward("quarantine", "show", "shop.orders", "7").out
    assert "These wait for their row:" in one
    assert "6 → 7" in one
    assert lakeward("quarantine", "list", "--reason", "cast", "--json").document["waiting"] == []


@pytest.mark.parametrize("command", [("list",), ("show", "shop.orders"), ("export", "shop.orders", "--to", "a")])
def test_a_run_that_commits_while_the_quarantine_is_read_is_no_rollback(
    lakeward: Command, lake: ExplainedLake, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """It was at batch 1 when it was looked at, and what stands beside it, read after that, is at batch 3."""
    lake.table([{"id": 4, "city": "Bonn", **place(at(1, 1), 1)}], Progress(batch=3, held=1))
    lake.change_log([record(batch, {batch: f"{batch}.csv"}) for batch in (1, 2, 3)])
    held = {names.OPERATION: "update", names.TEXT: "U,x", quarantine.STATE: "held", names.REASON: "cast"}
    since = {quarantine.SINCE: datetime.now(UTC), quarantine.OBJECT_NAME: "3.csv", quarantine.KEY: '["4"]'}
    lake.quarantine([{"id": 4, **held, **since, **place(at(3, 3), 3)}])
    looks, read = [Progress(batch=1)], iceberg.read_table_state

    def looked(*of: Any) -> Any:
        found = read(*of)
        return replace(found, progress=looks.pop()) if looks else found

    monkeypatch.setattr(iceberg, "read_table_state", looked)
    ended = lakeward("quarantine", *command, "--json")
    assert not looks
    assert ended.code == (0 if command[0] == "export" else 3), ended.err
    assert [one["object"] for one in ended.document.get("entries", [])] == ["3.csv"] * (command[0] != "export")


def test_a_row_without_a_commit_time_is_not_said_to_be_of_a_full_load(
    lakeward: Command, lake: ExplainedLake
) -> None:
    """Nor is a full load spoken of where there was none."""
    lake.table([{"id": 4, "city": "Bonn", **place(at(1, 1), 1)}], Progress(batch=1, held=1))
    lake.change_log([record(1, {1: "1.csv"}), event("change", "update", at(1, 1), 1, id=4, city="Bonn")])
    refused = {names.OPERATION: "update", names.TEXT: "U,x", quarantine.STATE: "held", names.REASON: "sequence"}
    since = {quarantine.SINCE: datetime.now(UTC), quarantine.OBJECT_NAME: "1.csv", quarantine.KEY: '["4"]'}
    lake.quarantine([{"id": 4, **refused, **since, **place(Position(1, LOAD_SEQUENCE, 1, 2), 1)}])
    out = lakeward("explain", "shop.orders", "4").out
    assert "no commit time" in out
    assert "full load" not in out
