"""Late files through commands: they are applied at their position, too late, or stop the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from project import NOW, Project

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.adapters.formats.iceberg.side_tables import side_table
from lakeward.adapters.formats.iceberg.side_tables.side_table import IcebergSideTable
from lakeward.adapters.formats.shared.change_log import entries, retention
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES
from lakeward.core.dimension import TableName
from lakeward.entrypoints import container

pytestmark = pytest.mark.spark

TIMED = 'timestamp_column = "at"\nmax_files = 1'
ITEM = """
[tables."shop.item"]
key = ["id"]
lateness = "1h"
columns = { id = "int", name = "string", price = "decimal(8,2)" }
"""


@pytest.fixture
def late(project: Project) -> Project:
    """A table with a lateness of one hour."""
    project.configure(tables=ITEM, source=TIMED)
    return project


def put(project: Project, file: str, *rows: str) -> None:
    project.put(f"20261121-{file}.csv", "".join(f"{row}\n" for row in rows))


def change(operation: str, clock: str, key: int, name: str) -> str:
    return f"{operation},2026-11-21 {clock}:00,{key},{name},1.00"


def test_a_late_file_is_applied_at_its_position(late: Project) -> None:
    """It overwrites nothing newer, and restores nothing that was deleted since."""
    put(late, "100000000", change("I", "10:00", 1, "first"), change("I", "10:00", 2, "first"))
    put(late, "103000000", change("U", "10:30", 1, "newest"), change("D", "10:30", 2, "gone"))
    late.run()
    put(late, "101500000", change("U", "10:15", 1, "late"), change("U", "10:15", 2, "late"))
    put(late, "101600000", change("I", "10:16", 3, "late and new"))
    planned = late.call("plan", "--json").document["tables"][0]
    assert planned["late"] == ["20261121-101500000.csv"]
    assert any("comes late" in warning for warning in planned["warnings"])
    counts = late.run()["shop.item"]["counts"]
    assert (counts["stale"], counts["applied"]) == (2, 1)
    assert [name for _, name, _ in late.rows()] == ["newest", "late and new"]


@pytest.mark.long
def test_a_late_file_completes_columns_that_newer_files_lack(project: Project) -> None:
    """With a new column or field, the table is the same in both orders of the files."""
    project.configure(
        tables="".join(f'[tables."shop.{name}"]\nkey = ["id"]\nlateness = "1h"\n' for name in ("late", "in_order")),
        source='timestamp_column = "at"',
    )
    whole = pa.struct([("a", pa.string()), ("b", pa.string())])
    shorter = {"one": pa.struct([("a", pa.string())])}
    both = {"name": pa.string(), "one": whole}
    load = [("I", 1, 0, {"name": "n0", "one": {"a": "a0", "b": "b0"}})]
    newer = [("U", key, 30, {"one": {"a": "a30"}}) for key in (1, 2)]
    older = [(op, key, 20, {"name": "n20", "one": {"a": "a20", "b": "b20"}}) for op, key in ("U1", "I2")]
    for table, deliveries in (
        ("late", [(load, both), (newer, shorter), (older, both)]),
        ("in_order", [(load, both), (older, both), (newer, shorter)]),
    ):
        for number, (changes, columns) in enumerate(deliveries):
            deliver(project, table, number, changes, columns)
            project.run()
        rows = project.rows(table, columns=("id", "name", "one"))
        assert rows == [(1, "n20", {"a": "a30", "b": "b20"}), (2, "n20", {"a": "a30", "b": "b20"})]
    explanation = project.call("explain", "shop.late", "1").out
    assert "not sent: name, one.b" in explanation


def deliver(
    project: Project, table: str, number: int, changes: Sequence[Any], columns: Mapping[str, pa.DataType]
) -> None:
    """Write a file of changes with these columns. Commit times are minutes of an hour."""
    own = {"Op": pa.string(), "id": pa.int32(), "at": pa.timestamp("us"), **columns}
    start = datetime(2026, 11, 21, 10)
    rows = [
        {"Op": op, "id": int(key), "at": start + timedelta(minutes=at), **cells} for op, key, at, cells in changes
    ]
    folder = project.folder / "landing/shop" / table
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist(rows, pa.schema(own.items())), folder / f"20261121-10000000{number}.parquet"
    )


def test_a_change_at_or_below_the_low_watermark_is_too_late(late: Project) -> None:
    """The low watermark is the greatest commit time that is too late: exactly one hour is in time."""
    put(late, "100000000", change("I", "10:00", 1, "first"))
    put(late, "110000000", change("I", "11:00", 2, "an hour on"))
    put(late, "110100000", change("I", "11:01", 3, "a minute more"))
    run = late.run()["shop.item"]
    assert run["progress"]["mark"] == "2026-11-21T10:00:00Z"
    put(late, "110200000", change("U", "10:00", 1, "too late"), change("U", "10:01", 1, "in time"))
    assert late.call("plan", "--json").document["tables"][0]["rejects"] == {"too_late": 1}
    run = late.run(code=3)["shop.item"]
    assert (run["counts"]["quarantined"], run["counts"]["applied"]) == (1, 1)
    (alarm,) = run["alarms"]
    assert (alarm["code"], alarm["found"].split()[0]) == ("SEQUENCE-001", "20261121-110200000.csv")
    assert late.rows()[0][1] == "in time"
    (entry,) = late.entries()
    assert (entry["reason"], entry["row"]) == ("too_late", 1)
    shown = late.call("quarantine", "show", "shop.item").out
    assert "too late" in shown
    assert '"_lakeward_operation":"update"' in shown
    assert late.call("status").code == 3
    put(late, "110300000", change("I", "11:03", 4, "all is well"))
    assert [found["alarms"] for found in late.run().values()] == [[]], "it holds nothing"
    assert late.call("status").code == 0


def test_a_file_whose_commit_times_run_backwards_raises_an_alarm(late: Project) -> None:
    """They must run back by more than the lateness. Each change is applied at its position."""
    put(late, "100000000", change("I", "10:00", 1, "a"), change("U", "12:00", 1, "b"), change("U", "11:00", 1, "c"))
    assert late.run()["shop.item"]["alarms"] == []
    put(late, "130000000", change("U", "13:00", 1, "d"), change("I", "14:01", 2, "e"), change("U", "13:00", 1, "f"))
    (planned,) = late.call("plan", "--json").document["tables"]
    assert [alarm["code"] for alarm in planned["alarms"]] == ["SEQUENCE-001"]
    assert any("the order of the source runs backwards" in warning for warning in planned["warnings"])
    run = late.run(code=3)["shop.item"]
    assert run["progress"]["backwards"] == {"file": "20261121-130000000.csv", "row": 3}
    assert [name for _, name, _ in late.rows()] == ["f", "e"]
    status = late.call("status")
    assert (status.code, "goes back in row 3" in status.err) == (3, True)


def test_a_file_below_the_low_watermark_stops_the_table(late: Project) -> None:
    for clock in ("10:00", "11:00", "12:00", "13:00"):
        put(late, f"{clock.replace(':', '')}00000", change("I", clock, int(clock[:2]), clock))
    late.run()
    put(late, "105900000", change("I", "10:59", 1, "who knows"))
    said = late.fails()
    assert "1 file appeared below the low watermark" in said
    assert "20261121-105900000.csv; nothing may come before 20261121-110000000.csv any more" in said
    assert len(late.rows()) == 4


def test_a_commit_time_in_the_future_raises_an_alarm_and_moves_no_watermark(late: Project) -> None:
    """Later events are in time. The row itself waits until its time has come."""
    put(late, "100000000", change("I", "10:00", 1, "first"), "I,9999-12-31 23:59:59.999999,2,for ever,1.00")
    (planned,) = late.call("plan", "--json").document["tables"]
    assert [alarm["code"] for alarm in planned["alarms"]] == ["CLOCK-001"]
    assert any("a commit time lies in the future" in warning for warning in planned["warnings"])
    put(late, "103000000", change("U", "10:30", 1, "next"), change("U", "10:30", 2, "not newer"))
    run = late.run(code=3)["shop.item"]
    assert [alarm["code"] for alarm in run["alarms"]] == ["CLOCK-001"]
    assert run["counts"]["quarantined"] == 0
    assert run["progress"]["mark"] is None
    assert run["progress"]["source_time"] == "2026-11-21T10:30:00Z"
    assert run["progress"]["ahead"] == {"time": "9999-12-31T23:59:59.999999Z", "file": "20261121-100000000.csv"}
    assert [name for _, name, _ in late.rows()] == ["next", "for ever"]
    status = late.call("status", "--json")
    (alarm,) = status.document["tables"][0]["alarms"]
    assert (status.code, alarm["code"]) == (3, "CLOCK-001")
    assert alarm["found"].startswith("20261121-100000000.csv has one 2,9")
    shown = late.call("status")
    assert (shown.code, "alarm: shop.item: a commit time lies in the future" in shown.err) == (3, True)
    put(late, "120000000", change("U", "12:00", 1, "last"))
    assert late.run(code=3)["shop.item"]["progress"]["mark"] == "2026-11-21T10:30:00Z"


def test_an_alarm_of_a_future_time_ends_at_that_time(late: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    put(late, "100000000", "I,2026-12-01 02:00:00,1,soon,1.00")
    assert late.call("run").code == 3
    monkeypatch.setattr(container, "clock", lambda: NOW + 3600 * 1_000_000)
    assert late.call("status").code == 0
    assert late.call("run").code == 0


def test_a_lateness_without_commit_times_is_unbounded(project: Project) -> None:
    project.configure(tables=ITEM, source="max_files = 1")
    for hour in (10, 12, 14):
        put(project, f"{hour}0000000", f"I,{hour},a,1.00", f"U,1,{hour},1.00")
    assert project.run()["shop.item"]["progress"]["mark"] is None
    put(project, "090000000", "I,9,a,1.00", "U,1,late,1.00")
    counts = project.run()["shop.item"]["counts"]
    assert (counts["applied"], counts["stale"]) == (1, 1)
    assert project.rows()[0] == (1, "14", 1)


@pytest.mark.long
def test_changes_below_the_low_watermark_are_trimmed_and_few_files_remain(
    late: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes below the low watermark are trimmed, others stay. Batch records stay for ever, in few files."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 10)
    monkeypatch.setattr(side_table, "HOURS_KEPT", 0)
    for minute in range(0, 100, 5):
        at = f"{10 + minute // 60}:{minute % 60:02}"
        put(late, f"{at.replace(':', '')}00000", change("I", at, minute, "x"), change("D", at, minute, "x"))
    assert len(late.run()["shop.item"]["batches"]) == 20
    item = TableName("shop", "item")
    kept = IcebergSideTable(catalog_of(late), item, None, CHANGES, {}, tuple)  # type: ignore[arg-type]
    assert kept.rows(f"{entries.KIND} = 'batch'", (entries.KIND,)).num_rows == 20
    for kind in ("delete", "change"):
        found = kept.rows(f"{entries.KIND} = '{kind}'", ("id", "name"))
        assert sorted(found["id"].to_pylist()) == list(range(35, 100, 5))
        assert set(found["name"].to_pylist()) == {"x"}
    table = kept.load()
    assert table is not None
    assert len(list(table.scan().plan_files())) == 3
    assert len(table.snapshots()) == 3, "the last, and what was there before it was trimmed, twice"
    late.put("20261121-113600000.csv", change("I", "11:36", 95, "back") + "\n")
    late.run()
    assert late.rows() == [(95, "back", 1)]


def catalog_of(project: Project) -> IcebergCatalog:
    return IcebergCatalog(IcebergOptions(warehouse="lake"), project.folder)
