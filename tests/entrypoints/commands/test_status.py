"""How far tables are, read from what their last commit says, without Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import small_lake
from commands import Command
from hypothesis import given
from hypothesis import strategies as st
from projects import write

from lakeward.adapters.formats.hudi import lake as hudi_lake
from lakeward.adapters.ledgers.sqlite import SqliteLedger
from lakeward.core.checks.source_clock import SLACK, Ahead
from lakeward.core.errors import LakewardError, StoreUnreachable, TableError
from lakeward.core.events import Position
from lakeward.core.ledger.objects import Notes
from lakeward.core.progress import Progress
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.failures import Failure
from lakeward.entrypoints.views import documents, terminal


@pytest.fixture(autouse=True)
def lake_settings(tmp_path: Path) -> None:
    """Write settings of a lake with one table."""
    write(tmp_path, small_lake.SETTINGS)


def progress() -> Progress:
    """A table whose newest change is a minute and a half old."""
    now = time.time_ns() // 1000
    return Progress(
        batch=7,
        high_watermark=Position(1, now, 3, 9),
        object="20261121-103107000.csv",
        time=now - 90_000_000,
        rows=10_184,
    )


def test_a_table_says_where_it_is_in_words_and_as_a_document_with_times_in_utc(
    lakeward: Command, tmp_path: Path
) -> None:
    small_lake.commit(small_lake.make(tmp_path), progress())
    ended = lakeward("status")
    assert ended.code == 0
    assert re.search(r"shop\.orders +iceberg +\d{4}-\d\d-\d\d \S+ UTC +1 min +10,184 +0 +7 +\d s ago", ended.out)
    (table,) = lakeward("status", "--json").document["tables"]
    expected = {"table": "shop.orders", "exists": True, "batch": 7, "rows": 10_184, "held": 0}
    assert {**expected, "object": "20261121-103107000.csv"}.items() <= table.items()
    assert table["source_time"].endswith("Z")
    assert table["committed"].endswith("Z")
    assert 90 <= table["lag_seconds"] < 150


def test_times_are_shown_in_the_zone_of_the_user(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = 1_795_257_067_000_000  # 2026-11-21 10:31:07 UTC
    small_lake.commit(small_lake.make(tmp_path), Progress(batch=1, time=moment))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert "2026-11-21 16:01:07 IST" in lakeward("status").out
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("micros", "shown"),
    [(-62_167_219_200_000_000, "0000-01-01 00:00:00"), (2**63 - 1, "294247-01-10 04:00:54.775807")],
)
def test_a_time_of_a_year_that_python_has_not_is_shown(
    lakeward: Command, tmp_path: Path, micros: int, shown: str
) -> None:
    small_lake.commit(small_lake.make(tmp_path), Progress(batch=1, time=micros))
    assert f" {shown} UTC " in lakeward("status").out
    (table,) = lakeward("status", "--json").document["tables"]
    assert table["source_time"] == f"{shown.replace(' ', 'T')}Z"


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time_that_a_table_may_hold_has_a_text(micros: int) -> None:
    assert terminal.local_time(micros, exact=True).count(":") == 2
    assert str(documents.time(micros)).endswith("Z")


def test_an_empty_folder_stays_empty_and_a_source_without_times_is_at_its_last_object(
    lakeward: Command, tmp_path: Path
) -> None:
    before = set(tmp_path.rglob("*"))
    assert "nothing applied yet" in lakeward("status").out
    assert set(tmp_path.rglob("*")) == before
    small_lake.commit(small_lake.make(tmp_path), Progress(batch=1, object="LOAD00000001.csv", rows=3))
    assert re.search(r"shop\.orders +iceberg +LOAD00000001\.csv +– +3 ", lakeward("status").out)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Progress(batch=1, held=2), "2"),
        (Progress(batch=1, inexact_since="LOAD00000001.csv"), "inexact since LOAD00000001.csv"),
    ],
)
def test_what_waits_for_a_person_ends_with_3_and_the_next_step(
    lakeward: Command, tmp_path: Path, found: Progress, said: str
) -> None:
    small_lake.commit(small_lake.make(tmp_path), found)
    ended = lakeward("status")
    assert ended.code == 3
    assert said in ended.out
    assert ended.out.endswith("Next: `lakeward quarantine show shop.orders`\n")


def test_alarms_of_the_last_run_are_shown_and_end_with_3(lakeward: Command, tmp_path: Path) -> None:
    small_lake.commit(small_lake.make(tmp_path), progress())
    ledger = SqliteLedger(tmp_path / "state" / "ledger.db")
    ledger.write("shop.orders", Notes(alarms=[Alarm("LEDGER-005", "it is empty", "nothing", "look")]))
    ended = lakeward("status")
    assert (ended.code, ended.err.splitlines()[0]) == (3, "alarm: it is empty")
    assert ended.out.splitlines()[1].split()[-1] == "failed"
    (table,) = lakeward("status", "--json").document["tables"]
    assert [alarm["code"] for alarm in table["alarms"]] == ["LEDGER-005"]
    ledger.write("shop.orders", Notes(alarms=()))
    assert lakeward("status").code == 0


@pytest.mark.parametrize("retryable", [False, True])
def test_the_error_of_the_last_run_is_shown_and_ends_with_4_until_a_run_succeeds(
    lakeward: Command, tmp_path: Path, retryable: bool
) -> None:
    small_lake.commit(small_lake.make(tmp_path), progress())
    ledger = SqliteLedger(tmp_path / "state" / "ledger.db")
    at = time.time_ns() // 1000 - 150_000_000
    failure = Failure("SourceError", "a.csv cannot be read", "it is cut off", None, retryable, at)
    ledger.write("shop.orders", Notes(has_ended=True, failure=failure))
    ledger.write("shop.orders", Notes(alarms=[Alarm("LEDGER-005", "it is empty", "nothing", "look")]))
    ended = lakeward("status")
    assert (ended.code, ended.out.splitlines()[1].split()[-1]) == (4, "failed")
    assert ended.err.splitlines()[:3] == [
        "error: a.csv cannot be read",
        "  it is cut off",
        "  shop.orders failed 2 min ago; no run of it has ended without an error since.",
    ]
    document = lakeward("status", "--json").document
    error = document["tables"][0]["last_error"]
    assert (document["exit_code"], error["kind"], error["at"]) == (4, "SourceError", documents.time(at))
    ledger.write("shop.orders", Notes(has_ended=True))
    ended = lakeward("status")
    assert (ended.code, "a.csv" in ended.err) == (3, False)


def test_a_time_in_the_future_that_was_let_pass_is_no_alarm(lakeward: Command, tmp_path: Path) -> None:
    ahead = Ahead(time.time_ns() // 1000 + 10 * SLACK, "20261121-103107000.csv")
    small_lake.commit(small_lake.make(tmp_path), replace(progress(), ahead=ahead))
    ended = lakeward("status")
    assert (ended.code, "failed" in ended.out) == (3, False), "it stops nothing"
    acked = {"CLOCK-001": frozenset({ahead.about})}
    SqliteLedger(tmp_path / "state" / "ledger.db").write("shop.orders", Notes(acknowledged=acked))
    assert lakeward("status").code == 0


def test_our_last_commit_is_known_though_others_commit_and_expire_what_is_around_it(
    lakeward: Command, tmp_path: Path
) -> None:
    table = small_lake.make(tmp_path)
    small_lake.commit(table, None)
    small_lake.commit(table, progress())
    small_lake.commit(table, None)
    small_lake.commit(table, None)
    assert lakeward("status", "--json").document["tables"][0]["batch"] == 7
    first, _, third, _ = (snapshot.snapshot_id for snapshot in table.snapshots())
    for snapshot in (first, third):
        table.maintenance.expire_snapshots().by_id(snapshot).commit()
    assert lakeward("status", "--json").document["tables"][0]["batch"] == 7


def test_a_table_of_somebody_else_is_an_error_and_stops_no_other(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, small_lake.SETTINGS, '[tables."shop.lines"]\nkey = ["id"]\n')
    small_lake.commit(small_lake.make(tmp_path), progress())
    small_lake.make(tmp_path, "lines", columns={})
    ended = lakeward("status")
    assert ended.code == 4
    assert "10,184" in ended.out
    assert "error: shop.lines: the lake has a table of that name, and lakeward did not make it" in ended.err
    assert lakeward("status", "--json").document["tables"][1]["error"]["kind"] == "TableError"


def test_a_table_whose_files_are_gone_is_an_error(lakeward: Command, tmp_path: Path) -> None:
    table = small_lake.make(tmp_path)
    Path(table.metadata_location.removeprefix("file://")).unlink()
    ended = lakeward("status")
    assert ended.code == 4
    assert "error: shop.orders: the catalog knows the table, and its files are gone" in ended.err


@pytest.mark.parametrize(
    ("before", "wrong", "said"),
    [
        ("[target]", 'source_zone = "Mars/X"\n[target]', "[source"),
        ("[target]", 'delimiter = ""\n[target]', "[source"),
        ("[target]", 'sequence_column = "Op"\n[target]', "[source"),
        ('"lake/"', '"lake/"\ncatalog = "jdbc"', "'sqlite', 'rest', 'glue' or 'hive'"),
    ],
)
def test_settings_of_source_and_catalog_are_checked_before_anything_is_shown(
    lakeward: Command, tmp_path: Path, before: str, wrong: str, said: str
) -> None:
    """A catalog in another database takes a REST catalog: Spark and PyIceberg would name it by other properties."""
    write(tmp_path, small_lake.SETTINGS.replace(before, wrong))
    ended = lakeward("status")
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err


@pytest.mark.parametrize("table", ["orders", "orders__changes", "orders__quarantine"])
def test_a_namespace_that_makes_one_table_of_two_is_refused(lakeward: Command, tmp_path: Path, table: str) -> None:
    """Also of one, and of what stands beside another."""
    settings = small_lake.SETTINGS.replace('warehouse = "lake/"', 'warehouse = "lake/"\nnamespace = "raw"')
    write(tmp_path, settings, f'[tables."crm.{table}"]\nkey = ["id"]\n')
    ended = lakeward("status")
    assert ended.code == 1
    said = ended.err.splitlines()
    assert said[0] == f"error: shop.orders and crm.{table} would become the same table raw.{table}"
    assert ("side tables" in said[1]) is (table != "orders")


BARE = """
from pyiceberg.catalog import load_catalog
catalog = load_catalog("lake", type="sql", uri="sqlite:///lake/catalog.db")
print(catalog.load_table(("shop", "orders")).current_snapshot())
"""


def seconds_of_work(folder: Path, *command: str | Path) -> float:
    """Run a command where no Java is to be found; return the processor time that it took."""
    before = os.times()
    no_java = {"PATH": "/nowhere", "HOME": str(folder)}
    subprocess.run(command, cwd=folder, env=no_java, capture_output=True, check=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def test_it_needs_no_java_and_little_more_time_than_reading_the_snapshot_takes(tmp_path: Path) -> None:
    small_lake.commit(small_lake.make(tmp_path), progress())
    script = Path(sys.executable).with_name("lakeward")
    ratios: list[float] = []
    while not ratios or (min(ratios) > 1.75 and len(ratios) < 5):
        ours = seconds_of_work(tmp_path, script, "status")
        ratios.append(ours / seconds_of_work(tmp_path, sys.executable, "-c", BARE))
    assert min(ratios) <= 1.75


@pytest.mark.parametrize(("error", "code"), [(StoreUnreachable("no answer"), 75), (TableError("broken"), 4)])
def test_a_table_that_may_be_asked_again_is_told_by_the_code(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: LakewardError, code: int
) -> None:
    small_lake.commit(small_lake.make(tmp_path), progress())

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(SqliteLedger, "account", fails)
    ended = lakeward("status", "--json")
    assert (ended.code, ended.document["exit_code"]) == (code, code)


@pytest.mark.parametrize("command", [("status",), ("status", "--schema"), ("plan",)])
def test_where_hudi_cannot_be_written_it_says_how_far_its_tables_are(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(hudi_lake, "line", lambda: "4.1")
    write(tmp_path, small_lake.SETTINGS.replace("iceberg", "hudi"))
    (tmp_path / "landing").mkdir()
    ended = lakeward(*command)
    refused = "there is no Hudi for Spark 4.1" in ended.err
    assert (ended.code, refused) == ((1, True) if command == ("plan",) else (0, False)), ended.err
