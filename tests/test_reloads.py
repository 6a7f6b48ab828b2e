"""Reloads through the command line, on Spark and Iceberg: a full load replaces all rows."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from project import ITEM, NOW, Project

from lakeward.entrypoints import container

pytestmark = pytest.mark.spark

FIRST, SECOND = "LOAD00000001.csv", "LOAD00000002.csv"
OLD, LATE, NEW = (f"20261121-{hour}0000000.csv" for hour in (10, 11, 13))


def put(project: Project, name: str, content: str, hour: int) -> None:
    """Deliver a file with an hour of the 21st as its time."""
    at = datetime(2026, 11, 21, hour, tzinfo=UTC).timestamp()
    os.utime(project.put(name, content), (at, at))


NIGHTLY = 'full_loads = "snapshot"\nload_settles = "30m"\n'


def tell(project: Project, hour: int, rows: int) -> None:
    """Let the replication task report that a load of that hour has ended."""
    said = {"SchemaName": "shop", "TableName": "item", "TableState": "Table completed", "FullLoadRows": rows}
    times = {"FullLoadStartTime": f"2026-11-21T{hour:02}:00:00Z", "FullLoadEndTime": f"2026-11-21T{hour:02}:10:00Z"}
    (project.folder / "statistics.json").write_text(json.dumps({"TableStatistics": [{**said, **times}]}), "utf-8")


def load_first_epoch(project: Project) -> None:
    put(project, FIRST, "1,a,1.00\n2,b,2.00\n3,c,3.00\n", 9)
    put(project, OLD, "U,1,x,1.00\nU,2,y,no price\n", 10)
    project.run(3)
    assert project.rows() == [(1, "x", Decimal(1)), (2, "b", Decimal(2)), (3, "c", Decimal(3))]
    assert len(project.entries()) == 1


def awaited_load(project: Project) -> Any:
    status = project.call("status", "--json")
    (table,) = status.document["tables"]
    assert status.code == 3 or table["awaited"] is None
    return table["awaited"]


def test_a_reload_waits_for_the_complete_load_and_replaces_all_rows_at_once(project: Project) -> None:
    load_first_epoch(project)
    said = project.call("reload", "shop.item", "--reason", "a file was lost", "--by", "me", "--json").document
    assert (said["epoch"], said["by"], said["awaited"]["files"]) == (2, "me", 0)
    assert awaited_load(project)["until"].endswith("`lakeward load-complete shop.item`")
    assert "already" in project.call("reload", "shop.item").err
    put(project, FIRST, "1,new,1.00\n", 12)
    assert project.run(3)["shop.item"]["batches"] == []
    put(project, SECOND, "4,new,4.00\n", 12)
    assert project.call("plan", "--json").document["tables"][0]["awaited"]["files"] == 2
    assert project.rows()[0] == (1, "x", Decimal(1))
    put(project, NEW, "U,4,newer,4.00\n", 13)
    batches = project.run()["shop.item"]["batches"]
    assert [(batch["files"], batch["removed"]) for batch in batches] == [([FIRST, SECOND], 3), ([NEW], 1)]
    assert project.rows() == [(1, "new", Decimal(1)), (4, "newer", Decimal(4))]
    assert project.entries() == []
    assert awaited_load(project) is None
    assert project.run()["shop.item"]["batches"] == []
    put(project, "LOAD00000003.csv", "5,late,5.00\n", 14)
    assert project.run(4)["shop.item"]["error"]["code"] == "LEDGER-001"


def test_a_load_written_before_its_reload_separates_the_changes(project: Project) -> None:
    """The load stopped the table. Changes written before it are of the old table, later ones wait for it."""
    load_first_epoch(project)
    put(project, LATE, "U,3,old,3.00\n", 11)
    put(project, FIRST, "1,new,1.00\n3,new,3.00\n", 12)
    assert project.run(4)["shop.item"]["error"]["code"] == "LEDGER-002"
    said = project.call("reload", "shop.item", "--json").document
    assert (said["never_applied"], said["awaited"]["files"]) == ([LATE], 1)
    assert project.run(3)["shop.item"]["batches"] == []
    complete = project.call("load-complete", "shop.item", "--json").document
    assert complete["files"] == [FIRST]
    put(project, SECOND, "6,more,6.00\n", 12)
    assert project.run(3)["shop.item"]["batches"] == [], "it is not what was said to be complete"
    project.call("load-complete", "shop.item")
    project.run()
    assert project.rows() == [(1, "new", Decimal(1)), (3, "new", Decimal(3)), (6, "more", Decimal(6))]


def test_a_reload_can_be_withdrawn(project: Project) -> None:
    load_first_epoch(project)
    assert "does not wait" in project.call("reload", "shop.item", "--withdraw").err
    project.call("reload", "shop.item")
    put(project, LATE, "U,3,z,3.00\n", 11)
    project.run(3)
    assert project.call("reload", "shop.item", "--withdraw").code == 0
    assert awaited_load(project) is None
    project.run(3)
    assert project.rows()[2] == (3, "z", Decimal(3))


def test_a_truncate_that_removed_the_files_empties_the_table(project: Project) -> None:
    """Old rows and their holds are removed. Later files are applied."""
    load_first_epoch(project)
    for file in (project.folder / "landing" / "shop" / "item").iterdir():
        file.unlink()
    assert project.run(4)["shop.item"]["error"]["code"] == "LEDGER-005"
    said = project.call("truncate", "shop.item", "--at", "now", "--json").document
    assert (said["removed"], said["rows"]) == (3, 0)
    assert (project.rows(), project.entries()) == ([], [])
    assert project.run()["shop.item"]["batches"] == []
    put(project, NEW, "I,7,new,7.00\n", 13)
    project.run()
    assert project.rows() == [(7, "new", Decimal(7))]
    assert "cannot be put into the order" in project.call("truncate", "shop.item", "--at", "2026-11-21").err
    said = project.call("truncate", "shop.item", "--at", NEW, "--json").document
    assert (said["removed"], said["rows"]) == (0, 1)


def test_a_nightly_full_load_replaces_the_one_before(project: Project, monkeypatch: Any) -> None:
    """It is applied once it has settled or its task reports the end. A load that is too small stops the table."""
    project.configure(ITEM + NIGHTLY)

    def run(minutes: int, code: int = 0) -> Any:
        monkeypatch.setattr(container, "clock", lambda: NOW + minutes * 60_000_000)
        return project.run(code)["shop.item"]

    put(project, FIRST, "1,a,1.00\n2,b,2.00\n3,c,3.00\n", 1)
    assert run(0)["batches"] == []
    assert len(run(30)["batches"]) == 1
    put(project, FIRST, "2,z,2.00\n3,c,3.00\n", 2)
    assert (run(100)["awaited"]["files"], run(129)["batches"]) == (1, [])
    assert run(130)["progress"]["epoch"] == 2
    assert project.rows() == [(2, "z", Decimal(2)), (3, "c", Decimal(3))]
    put(project, FIRST, "", 3)
    project.call("load-complete", "shop.item")
    assert run(140, 4)["error"]["code"] == "LOAD-001"
    assert project.call("ack", "shop.item", "LOAD-001").code == 0
    assert run(141)["progress"]["rows"] == 0
    assert project.rows() == []

    project.configure(ITEM + NIGHTLY + '[statistics]\nkind = "file"\npath = "statistics.json"\n')
    put(project, FIRST, "5,e,5.00\n6,f,6.00\n", 4)
    tell(project, hour=4, rows=3)
    assert run(150, 4)["error"]["code"] == "LOAD-002"
    tell(project, hour=4, rows=2)
    assert run(151)["progress"]["rows"] == 2
    assert project.rows()[1] == (6, "f", Decimal(6))
