"""What became of a key, told of a lake that PyIceberg made: no Spark, no Java."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands import Command
from explained_lake import SETTINGS, ExplainedLake, event, place, record
from projects import write

from lakeward.adapters.formats.iceberg import lake as lakes
from lakeward.adapters.formats.iceberg.operations import key_state
from lakeward.adapters.formats.shared.change_log.entries import BASE
from lakeward.adapters.formats.shared.operations.key_state import values_of
from lakeward.adapters.formats.shared.side_tables import quarantine
from lakeward.adapters.spark.sql import names
from lakeward.core.events import LOAD_SEQUENCE, Position
from lakeward.core.progress import Progress
from lakeward.core.schema import parse_type
from lakeward.core.text.literals import value_of

NINE = 1_795_251_600_000_000  # 2026-11-21 09:00:00 UTC
KEYED = 'key = ["id"]\n'


def at(minutes: int, object_: int, row: int = 1) -> Position:
    return Position(1, NINE + minutes * 60_000_000, object_, row)


@pytest.fixture
def lake(tmp_path: Path) -> ExplainedLake:
    write(tmp_path, SETTINGS, KEYED)
    return ExplainedLake(tmp_path)


def explanation(lakeward: Command, *arguments: str) -> Mapping[str, Any]:
    document: Mapping[str, Any] = lakeward("explain", "--json", "shop.orders", *arguments).document
    return document


def test_columns_that_only_a_later_companion_has_are_read(lakeward: Command, lake: ExplainedLake) -> None:
    """Cells that were not sent, a key change, and the row before the first event."""
    lake.table(
        [{"id": 5, "city": "Kiel", **place(at(3, 3), 3)}], Progress(batch=3, low_watermark=at(0, 0).source_order)
    )
    later = {names.UNSET: parse_type("list<string>"), names.OLD: parse_type("struct<id: bigint>")}
    lake.change_log(
        [
            record(1, {1: "1.csv"}),
            record(2, {2: "2.csv"}),
            record(3, {3: "3.csv"}),
            event(BASE, "update", at(0, 1), 1, id=4, city="Bonn"),
            event("change", "update", at(2, 2), 2, id=4, **{names.UNSET: ["city"]}),
            event("change", "update", at(3, 3), 3, id=5, city="Kiel", **{names.OLD: {"id": 4}}),
            event("change", "update", at(4, 4), 4, id=4, city="left by a crash"),
        ],
        later,
    )
    shown = lakeward("explain", "shop.orders", "4").out.splitlines()
    assert [" ".join(line.split()) for line in shown[1:5]] == [
        "– before id 4 · city Bonn",
        "1 update 2026-11-21 09:02:00 UTC 2 2.csv:1 applied: nothing changed · not sent: city",
        "2 update 2026-11-21 09:03:00 UTC 3 3.csv:1 applied: the row moves to key 5",
        "stored now: no row",
    ]
    assert "Events up to 2026-11-21 09:00:00 UTC are folded into the row" in shown[-1]
    moved = explanation(lakeward, "5")
    assert [(one["old_key"], one["key"], one["verdict"]) for one in moved["events"]] == [([4], [5], "applied")]
    assert moved["stored"]["cells"] == {"id": 5, "city": "Kiel"}
    assert explanation(lakeward, "4")["before"]["row"]["cells"]["city"] == "Bonn"


def test_a_run_that_commits_while_a_key_is_looked_up_takes_nothing_away(
    lakeward: Command, lake: ExplainedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It trims what stands beside the table, too, so that a file may be gone that was about to be read."""
    lake.table([{"id": 4, "city": "Bonn", **place(at(1, 1), 1)}], Progress(batch=32))
    lake.change_log([record(batch, {batch: f"{batch}.csv"}) for batch in range(1, 33)])
    looks, read, find = [Progress(batch=31)], lakes.read_table_state, key_state.read_key_state

    def looked(*of: Any) -> Any:
        found = read(*of)
        return replace(found, progress=looks.pop()) if looks else found

    def gone(*_: Any) -> Any:
        monkeypatch.setattr(key_state, "read_key_state", find)
        raise FileNotFoundError("part-1.parquet")

    monkeypatch.setattr(lakes, "read_table_state", looked)
    monkeypatch.setattr(key_state, "read_key_state", gone)
    assert explanation(lakeward, "4")["stored"]["cells"] == {"id": 4, "city": "Bonn"}


def test_copies_and_what_waits_for_a_load_are_told_apart(lakeward: Command, lake: ExplainedLake) -> None:
    lake.table([{"id": 4, "city": "Kiel", **place(at(2, 3), 3)}], Progress(batch=3))
    lake.change_log(
        [
            *[record(batch, {batch: f"{batch}.csv"}) for batch in (1, 2, 3)],
            event("change", "insert", at(2, 1), 1, id=4, city="Kiel"),
            event("change", "insert", at(2, 1), 2, id=4, city="Kiel"),
            event("change", "delete", at(1, 2), 2, id=4),
            event("change", "insert", at(2, 3), 3, id=4, city="Kiel"),
            event("waiting", "update", at(0, 3, 2)._replace(epoch=2), 3, id=4, city="Ulm"),
        ]
    )
    lines = lakeward("explain", "shop.orders", "4").out.splitlines()[1:6]
    assert [re.split(r"\d\.csv:\d +", line.rstrip())[1] for line in lines] == [
        "applied: city Kiel",
        "stale: 1 is newer, and was applied before",
        "duplicate of 1",
        "applied, the same change as 1 again: nothing changed",
        "waiting for its full load to be complete: city Ulm",
    ]


def test_what_is_in_quarantine_and_what_waits_behind_it(lakeward: Command, lake: ExplainedLake) -> None:
    lake.table([{"id": 4, "city": "Bonn", **place(at(1, 1), 1)}], Progress(batch=2, held=1, inexact_since="0.csv"))
    lake.change_log(
        [
            record(1, {1: "1.csv"}),
            record(2, {2: "2.csv"}),
            event("waiting", "update", at(3, 2, 2), 2, id=4, city="Kiel"),
        ]
    )
    refused = {names.OPERATION: "update", names.DETAIL: "no [bold]date", names.TEXT: "U,x"}
    since = {quarantine.SINCE: datetime.now(UTC), quarantine.OBJECT_NAME: "2.csv"}
    lake.quarantine(
        [
            {"id": 4, quarantine.STATE: "held", names.REASON: "cast", **refused, **since, **place(at(2, 2), 2)},
            {"id": 4, quarantine.STATE: "held", names.REASON: "cast", **refused, **since, **place(at(0, 1, 2), 1)},
            {quarantine.STATE: quarantine.GIVEN_UP, **since, **place(at(0, 1, 2), 2)},
        ]
    )
    ended = lakeward("explain", "shop.orders", "4")
    assert ended.code == 3
    assert "discarded in batch 2: cast: no [bold]date" in ended.out
    assert "in quarantine, the key waits for it: cast: no [bold]date" in ended.out
    assert "waiting for 3: city Kiel" in ended.out
    assert "inexact since 0.csv" in ended.out
    assert ended.out.endswith("Next: `lakeward quarantine show shop.orders 4`\n")
    assert explanation(lakeward, "4")["held"] is True


def test_what_data_holds_reaches_neither_terminal_nor_shell(lakeward: Command, tmp_path: Path) -> None:
    """Control sequences are shown as words; a command that is to be pasted has its key whole, and in quotes."""
    write(tmp_path, SETTINGS, KEYED, 'columns = { id = "string", city = "string" }\n')
    (tmp_path / "landing").mkdir()
    lake, key = ExplainedLake(tmp_path, {"id": "string", "city": "string"}), f"a b; touch {'x' * 80} -"
    lake.table([{"id": key, "city": "\x1b[2JBonn", **place(at(1, 1), 1)}], Progress(batch=1, held=1))
    lake.change_log([record(1, {1: "\x1b]0;x\x07.csv"})])
    refused = {names.OPERATION: "update", names.REASON: "cast", names.DETAIL: "no \x9bdate", names.TEXT: "\x1bc"}
    since = {quarantine.SINCE: datetime.now(UTC), quarantine.OBJECT_NAME: "\x1b.csv", quarantine.STATE: "held"}
    held = {quarantine.KEY: json.dumps([key])}
    lake.quarantine([{"id": key, **refused, **since, **held, **place(at(2, 2), 1)}])
    outs = [lakeward(*command, "shop.orders", key).out for command in (["explain"], ["quarantine", "show"])]
    assert f"Next: `lakeward quarantine show shop.orders '{key}'`\n" in outs[0]
    assert "city \\u001b[2JBonn" in outs[0]
    assert "\\u001bc" in outs[1]
    assert all(c.isprintable() for out in outs for line in out.split("\n") for c in line)


KEYS = {
    "bigint": ("-5", -5),
    "decimal(8,2)": ("1.5", "1.50"),
    "double": ("nan", "NaN"),
    "boolean": ("TRUE", True),
    "date": ("2026-11-21", "2026-11-21"),
    "timestamp": ("2026-11-21 10:00:00+01:00", "2026-11-21T09:00:00Z"),
    "timestamp_ntz": ("2026-11-21T09:00:00.5", "2026-11-21T09:00:00.500000"),
    "binary": ("0xca", "0xca"),
    "string": ("a b", "a b"),
}


def test_a_key_of_any_type_is_found(lakeward: Command, tmp_path: Path) -> None:
    columns = {f"k{number}": type_ for number, type_ in enumerate(KEYS)}
    write(tmp_path, SETTINGS, f"key = {list(columns)}\n")
    values = [value_of(text, parse_type(type_)) for type_, (text, _) in KEYS.items()]
    row = dict(zip(columns, values, strict=True))
    ExplainedLake(tmp_path, columns).table(
        [{**row, **place(Position(1, LOAD_SEQUENCE, 1, 7), 1)}], Progress(batch=1)
    )
    document = explanation(lakeward, "--", *[text for text, _ in KEYS.values()])
    assert document["key"] == [shown for _, shown in KEYS.values()]
    assert document["events"][0]["row"] == 7


def test_a_swap_is_told_with_its_transaction(lakeward: Command, lake: ExplainedLake) -> None:
    """Without it, the row would be told to come back with the cells that it left with."""
    lake.table(
        [{"id": 4, "city": "Ulm", **place(at(3, 1, 3), 1)}], Progress(batch=1, low_watermark=at(0, 0).source_order)
    )
    later = {names.UNSET: parse_type("list<string>"), names.OLD: parse_type("struct<id: bigint>")}
    swap = {names.UNSET: ["city"], names.TRANSACTION: "1"}
    lake.change_log(
        [
            record(1, {1: "1.csv"}),
            event(BASE, "update", at(0, 1), 1, id=4, city="Bonn"),
            event("change", "update", at(2, 1, 1), 1, id=5, **swap, **{names.OLD: {"id": 4}}),
            event("change", "update", at(2, 1, 2), 1, id=4, **swap, **{names.OLD: {"id": 5}}),
            event("change", "update", at(3, 1, 3), 1, id=4, city="Ulm"),
        ],
        {**later, names.TRANSACTION: parse_type("string")},
    )
    _, back, then = explanation(lakeward, "4")["events"]
    assert (back["changes"], then["changes"]) == ({"id": {"after": 4}}, {"city": {"after": "Ulm"}})


def test_times_of_years_that_python_has_not_are_told(lakeward: Command, tmp_path: Path) -> None:
    """A commit time of the year 0, and a cell that an earlier version applied."""
    write(tmp_path, SETTINGS, KEYED)
    lake = ExplainedLake(tmp_path, {"id": "bigint", "city": "string"})
    never = Position(1, -62_167_219_200_000_000, 1, 1)
    lake.table([{"id": 1, "city": "Bonn", **place(never, 1)}], Progress(batch=1))
    lake.change_log([record(1, {1: "1.csv"}), event("change", "update", never, 1, id=1, city="Bonn")])
    document = explanation(lakeward, "1")
    assert document["events"][0]["time"] == "0000-01-01T00:00:00Z"
    assert "0000-01-01 00:00:00 UTC" in lakeward("explain", "shop.orders", "1").out
    cells = pa.chunked_array([pa.array([never.sequence, 0, None], pa.timestamp("us", "UTC"))])
    assert values_of(cells) == ["0000-01-01 00:00:00.000000Z", "1970-01-01 00:00:00.000000Z", None]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (["x"], "error: shop.orders: 'x' is no value of the key column id\n  its type is bigint\n"),
        (["1", "2"], "error: shop.orders: 2 values given, and a key has 1 value\n  it is made of id (bigint)\n"),
        (["77"], "error: shop.orders: the key 77 is unknown\n"),
    ],
)
def test_a_key_that_cannot_be_told_of_is_a_mistake(
    lakeward: Command, lake: ExplainedLake, key: list[str], said: str
) -> None:
    watermark = at(9, 0).source_order
    lake.table([{"id": 9, "city": "Bonn", **place(at(1, 1), 1)}], Progress(batch=1, low_watermark=watermark))
    lake.change_log([record(1, {1: "1.csv"}), event("change", "insert", at(1, 1), 1, id=4, city="Ulm")])
    ended = lakeward("explain", "shop.orders", *key)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(said)
    assert lakeward("explain", "shop.orders", *key, "--json").document["exit_code"] == 1
    forgotten = "stored now: no row\nThe events that led to this row are no longer remembered."
    assert forgotten in lakeward("explain", "shop.orders", "4").out, "it went for a reason that is forgotten"


def test_a_table_without_a_key_or_without_rows_has_no_story(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, SETTINGS)
    assert "nothing was applied yet" in lakeward("explain", "shop.orders", "1").err
    ExplainedLake(tmp_path).table([{"id": 9, "city": "Bonn", **place(at(1, 1), 1)}], Progress(batch=1))
    assert "shop.orders has no key\n" in lakeward("explain", "shop.orders", "1").err


def test_what_stands_became_visible_with_the_commit_of_its_batch_and_fits_a_narrow_terminal(
    lakeward: Command, lake: ExplainedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.table([{"id": 4, "city": "Bonn " * 30, **place(at(1, 1), 1)}], Progress(batch=1))
    lake.change_log([record(1, {1: "1.csv"}, at=NINE)])
    document = explanation(lakeward, "4")
    assert (document["visible"]["batch"], document["visible"]["commit"].isdigit()) == (1, True)
    (only,) = document["events"]
    assert (only["operation"], only["object"]) == (None, "1.csv"), "nothing but the row tells of it"
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = re.sub(r"\x1b\[\d*m", "", lakeward("explain", "shop.orders", "4").out)
    assert max(map(len, out.splitlines())) <= 60
