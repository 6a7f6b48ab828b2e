"""A mirror and a history of the same source table, through commands."""

from __future__ import annotations

import os
from typing import Any

import pytest
from project import Project, any_kind

from lakeward.entrypoints.runtime import worker

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.item"]
key = ["id"]
mode = ["mirror", "history"]
columns = { id = "int", name = "string" }
history = { first_load = 1900-01-01, type = "date" }
"""
ARCHIVED = 'timestamp_column = "at"\nlanding = "archived"\narchive = "backup"'


def landed_files(project: Project) -> list[str]:
    return sorted(path.name for path in (project.folder / "landing" / "shop" / "item").iterdir())


@any_kind
def test_mirror_and_history_are_independent_and_files_are_archived_once_both_have_them(project: Project) -> None:
    project.configure(TABLE, ARCHIVED)
    project.put("LOAD00000001.csv", "2026-11-01 10:00:00,1,Ann\n2026-11-01 10:00:00,2,Bob\n")
    project.put("20261105-100000000.csv", "U,2026-11-05 10:00:00,1,Eve\nD,2026-11-05 10:00:00,2,Bob\n")
    assert project.call("run", "--once", "shop.item").code == 0
    assert project.rows(columns=("id", "name")) == [(1, "Eve")]
    assert len(landed_files(project)) == 2, "the history has none of them yet"
    status = project.call("status")
    assert "shop.item_history" in status.out
    project.put("20261106-100000000.csv", "U,2026-11-06 10:00:00,1,Ida\nU,2026-11-06 10:00:00,3,one,more\n")
    runs = project.run(code=3)
    assert [*runs] == ["shop.item", "shop.item_history"]
    assert [sum(b["counts"]["read"] for b in run["batches"]) for run in runs.values()] == [2, 6]
    assert landed_files(project) == []
    assert project.rows(columns=("id", "name")) == [(1, "Ida")]
    versions = project.rows("item_history", columns=("id", "name", "is_current"))
    assert versions == [(1, "Ann", False), (1, "Eve", False), (1, "Ida", True), (2, "Bob", False)]
    assert [entry["table"] for entry in project.entries()] == ["shop.item", "shop.item_history"]
    assert "Ida" in project.call("explain", "shop.item_history", "1").out


@any_kind
def test_a_history_added_after_archiving_asks_for_the_files(project: Project) -> None:
    project.configure(TABLE.replace('["mirror", "history"]', '"mirror"').replace("history =", "#"), ARCHIVED)
    project.put("LOAD00000001.csv", "2026-11-01 10:00:00,1,Ann\n")
    project.run()
    project.configure(TABLE, ARCHIVED)
    project.put("20261105-100000000.csv", "U,2026-11-05 10:00:00,1,Eve\n")
    assert project.run(code=4)["shop.item_history"]["error"]["code"] == "LEDGER-006"
    back = project.folder / "landing" / "shop" / "item"
    for file in (project.folder / "backup" / "shop" / "item").iterdir():
        file.rename(back / file.name)
    runs = project.run()
    assert [sum(b["counts"]["read"] for b in run["batches"]) for run in runs.values()] == [0, 2]
    assert project.rows("item_history", columns=("name", "is_current")) == [("Ann", False), ("Eve", True)]
    assert landed_files(project) == []


@any_kind
def test_a_history_added_later_starts_without_the_archive_after_an_acknowledgement(project: Project) -> None:
    project.configure(TABLE.replace('["mirror", "history"]', '"mirror"').replace("history =", "#"), ARCHIVED)
    project.put("LOAD00000001.csv", "2026-11-01 10:00:00,1,Ann\n")
    project.run()
    project.configure(TABLE, ARCHIVED)
    project.put("20261105-100000000.csv", "U,2026-11-05 10:00:00,1,Eve\n")
    project.run(code=4)
    assert project.call("ack", "shop.item_history", "LEDGER-006", "--reason", "it is gone for good").code == 0
    project.run()
    assert project.rows("item_history", columns=("name", "is_current")) == [("Eve", True)]


@any_kind
def test_a_file_that_is_new_to_both_is_read_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """This is for Spark: rows of a small batch are in this process anyway."""
    project.configure(TABLE + "\n[spark]\nsmall_batch = 0\n")
    file = project.folder / "lakeward.toml"
    file.write_text(file.read_text("utf-8").replace("[source]", "parallel = 1\n\n[source]"), "utf-8")
    load = project.put("LOAD00000001.csv", "1,Ann\n2,Bob\n")
    apply_changes = worker.apply_changes

    def and_write_it_anew(*arguments: Any) -> object:
        """The second table would read other rows than the first, and nothing would show it."""
        counts, stood = apply_changes(*arguments), load.stat()
        load.write_text("1,Eve\n2,Ida\n", "utf-8")
        os.utime(load, ns=(stood.st_atime_ns, stood.st_mtime_ns))
        return counts

    monkeypatch.setattr(worker, "apply_changes", and_write_it_anew)
    project.run()
    assert project.rows(columns=("id", "name")) == [(1, "Ann"), (2, "Bob")]
    assert project.rows("item_history", columns=("id", "name")) == [(1, "Ann"), (2, "Bob")]
