"""The ledger and its alarms through the command line, on Spark and Iceberg."""

from __future__ import annotations

import os
import shutil
from decimal import Decimal
from typing import Any

import pytest
from project import Project

pytestmark = pytest.mark.spark

FIRST, SECOND, THIRD = (f"LOAD0000000{number}.csv" for number in (1, 2, 3))
CHANGES = "20261121-100000000.csv"


def states(project: Project, *arguments: str) -> dict[str, str]:
    listed = project.call("ledger", "list", "shop.item", "--json", *arguments).document["objects"]
    return {item["name"]: item["state"] for item in listed}


def alarm(project: Project) -> Any:
    """Return the alarm that `status` shows. Its exit code must say whether there is one."""
    status = project.call("status", "--json")
    (table,) = status.document["tables"]
    codes = [found["code"] for found in table["alarms"]]
    assert status.code == (3 if codes else 0)
    return codes[0] if codes else None


def test_a_gap_stops_a_new_table_until_it_is_acknowledged(project: Project) -> None:
    """The acknowledgement is stored before the table exists, and is found without the ledger."""
    project.put(FIRST, "1,a,1.00\n")
    project.put(THIRD, "3,c,3.00\n")
    error = project.run(4)["shop.item"]["error"]
    assert (error["code"], error["found"]) == ("LEDGER-004", f"1 file before {THIRD} is missing")
    assert alarm(project) == "LEDGER-004"
    said = project.call("ack", "shop.item", "ledger-004", "--reason", "there were none", "--by", "me", "--json")
    assert {name: said.document[name] for name in ("alarm", "about", "by", "reason")} == {
        "alarm": "LEDGER-004",
        "about": [THIRD],
        "by": "me",
        "reason": "there were none",
    }
    assert alarm(project) is None
    assert project.call("ack", "shop.item", "LEDGER-004").code == 1
    shutil.rmtree(project.folder / "state")
    project.run()
    assert [row[0] for row in project.rows()] == [1, 3]
    project.put(CHANGES, "U,1,b,1.00\nD,3,c,3.00\n")
    project.run()
    assert project.rows() == [(1, "b", Decimal("1.00"))]


def test_a_lost_ledger_is_rebuilt(project: Project) -> None:
    project.put(FIRST, "1,a,1.00\n2,b,2.00\n")
    project.put(CHANGES, "U,1,b,1.00\n")
    project.run()
    listed = project.call("ledger", "list", "shop.item")
    assert (listed.code, "2 applied" in listed.out) == (0, True)
    before = project.call("ledger", "list", "shop.item", "--json").document["objects"]
    assert [(item["name"], item["rows"], item["batch"]) for item in before] == [(FIRST, 2, 1), (CHANGES, 1, 1)]
    assert all(item["etag"] and item["first_seen"] and item["least"] <= item["greatest"] for item in before)
    shutil.rmtree(project.folder / "state")
    assert "lakeward ledger rebuild" in project.call("ledger", "list", "shop.item").out
    assert project.call("ledger", "rebuild").out == "shop.item: 2 files\n"
    after = project.call("ledger", "list", "shop.item", "--json").document["objects"]
    assert after == [{**item, "first_seen": None} for item in before]
    assert project.run()["shop.item"]["batches"] == []


def test_a_file_rewritten_with_its_old_size_differs_from_a_touched_one(project: Project) -> None:
    project.put(FIRST, "1,a,1.00\n")
    applied = project.put(CHANGES, "U,1,b,1.00\n")
    project.run()
    os.utime(applied, (1, 1))
    project.run()
    project.put(CHANGES, "U,1,c,1.00\n")
    error = project.run(4)["shop.item"]["error"]
    assert (error["code"], error["found"]) == ("LEDGER-002", "it has 11 bytes as before, and another content")
    assert states(project) == {FIRST: "applied", CHANGES: "rewritten"}
    assert project.call("ack", "shop.item", "LEDGER-002").code == 0
    project.run()
    assert project.rows() == [(1, "b", Decimal("1.00"))]


def test_an_emptied_folder_stops_its_table_and_no_row_is_lost(project: Project) -> None:
    first = project.put(FIRST, "1,a,1.00\n")
    project.run()
    first.unlink()
    assert project.run(4)["shop.item"]["error"]["code"] == "LEDGER-005"
    first.parent.rmdir()
    assert project.run(4)["shop.item"]["error"]["code"] == "LEDGER-005"
    project.put(CHANGES, "I,2,b,2.00\n")
    shown = project.call("run")
    assert "lakeward ack shop.item LEDGER-005" in shown.err
    assert alarm(project) == "LEDGER-005"
    assert project.call("ack", "shop.item", "LEDGER-005").code == 0
    project.run()
    assert [row[0] for row in project.rows()] == [1, 2]
    assert states(project, "--state", "vanished") == {FIRST: "vanished"}


def test_a_file_that_vanishes_before_it_is_applied_stops_its_table(project: Project) -> None:
    project.put(FIRST, "1,a,1.00\n")
    project.run()
    lost = project.put(CHANGES, "U,2,wrong width\n")
    error = project.run(4)["shop.item"]["error"]
    status = project.call("status", "--json")
    last_error = status.document["tables"][0]["last_error"]
    assert (status.code, {**error, "at": last_error["at"]}) == (4, last_error)
    lost.unlink()
    project.put("20261121-110000000.csv", "I,3,c,3.00\n")
    assert project.run(4)["shop.item"]["error"]["code"] == "LEDGER-003"
    assert alarm(project) == "LEDGER-003"
    assert project.call("ack", "shop.item", "LEDGER-003").code == 0
    project.run()
    assert project.call("status").code == 0
    assert [row[0] for row in project.rows()] == [1, 3]


def test_applied_files_are_archived_and_the_next_run_archives_those_of_a_crash(project: Project) -> None:
    project.configure(source='landing = "archived"')
    first = project.put(FIRST, "1,a,1.00\n")
    project.run()
    archive = project.folder / "backup" / "shop" / "item"
    assert [file.name for file in archive.iterdir()] == [FIRST]
    assert states(project) == {FIRST: "archived"}
    shutil.copy2(archive / FIRST, first)
    changes = project.put(CHANGES, "U,1,b,1.00\nU,x,b,1.00\nU,1,b,dear\n")
    project.run(3)
    assert not first.exists()
    assert not changes.exists()
    assert sorted(file.name for file in archive.iterdir()) == [CHANGES, FIRST]
    shutil.rmtree(project.folder / "state")
    assert project.run(3)["shop.item"]["batches"] == []
    assert project.call("ledger", "rebuild").code == 0
    assert set(states(project).values()) == {"archived"}
    assert project.call("quarantine", "fix", "shop.item", "1").code == 0
    assert "dear" in (project.folder / "shop.item.fix.toml").read_text("utf-8")


def test_a_copy_in_a_table_without_a_key_is_reported_until_the_next_batch(project: Project) -> None:
    """With a key it is not reported, because an upsert may be repeated."""
    columns = 'columns = { id = "int", name = "string", price = "decimal(8,2)" }\n'
    project.configure(f'[tables."shop.item"]\n{columns}[tables."shop.keyed"]\nkey = ["id"]\n{columns}')
    for name in (CHANGES, "20261121-110000000.csv"):
        project.put(name, "I,1,a,1.00\n")
        project.put(name, "I,1,a,1.00\n", "shop/keyed")
    ran = project.run(3)
    found = [alarm["code"] for alarm in ran["shop.item"]["alarms"]]
    assert (found, ran["shop.keyed"]["alarms"], len(project.rows())) == (["COPY-001"], [], 2)
    status = project.call("status")
    assert (status.code, "two files have the same content" in status.err) == (3, True)
    project.put("20261121-120000000.csv", "I,2,b,2.00\n")
    project.run()
    assert project.call("status").code == 0
