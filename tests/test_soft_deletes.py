"""Soft deletes by a setting, through the command line, read by other readers than Spark."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from joined_runs import TIMED, put, run_joined
from project import Project, any_kind

from lakeward.core.dimension import DELETED

pytestmark = pytest.mark.spark

SHOP = """
[defaults]
key = ["id"]

[tables."shop.item"]
deletes = "soft"
columns = { id = "int", name = "string" }

[joined."dw.items".sources.item]
table = "shop.item"
columns = ["id", "name"]
"""
COLUMNS = ("id", "name", DELETED)


def test_soft_deleted_rows_stay_in_their_table_and_leave_joined_tables(project: Project) -> None:
    project.configure(tables=SHOP, source=TIMED)
    put(project, "item", 1, *[f"I,{key},a" for key in (1, 2, 3)])
    run_joined(project)
    put(project, "item", 5, "U,1,b", "D,2,a", "D,9,z")
    run_joined(project)
    assert project.rows(columns=COLUMNS) == [(1, "b", False), (2, "a", True), (3, "a", False)]
    assert project.rows("items", "dw", ("id", "name")) == [(1, "b"), (3, "a")]
    put(project, "item", 3, "U,2,late")
    put(project, "item", 6, "I,2,back", "D,3,a")
    assert run_joined(project)["error"] is None
    assert project.rows(columns=COLUMNS) == [(1, "b", False), (2, "back", False), (3, "a", True)]
    assert project.rows("items", "dw", ("id", "name")) == [(1, "b"), (2, "back")]
    explanation = project.call("explain", "shop.item", "3", "--json").document
    assert [event["operation"] for event in explanation["events"]] == ["insert", "delete"]
    assert explanation["is_whole"] is True, explanation
    assert (explanation["stored"]["cells"], explanation["stored"]["deleted"]) == ({"id": 3, "name": "a"}, True)
    shown = project.call("explain", "shop.item", "3").out
    assert "applied: the row is deleted, and its values stay" in " ".join(shown.split())
    assert "stored now: id 3 · name a · deleted · position 2026-11-06 10:00:00 UTC" in shown


@any_kind
def test_a_truncate_and_a_full_load_keep_the_values_of_deleted_rows(project: Project) -> None:
    project.configure(tables=SHOP.partition("[joined")[0], source=TIMED)
    project.put("LOAD00000001.csv", _rows((1, "a"), (2, "a"), (3, "a")))
    project.run()
    said = project.call("truncate", "shop.item", "--at", "now", "--yes")
    assert "older rows have ended, 0 rows are current, of 3 stored rows" in said.out
    assert project.rows(columns=COLUMNS) == [(1, "a", True), (2, "a", True), (3, "a", True)]
    put(project, "item", 25, "I,1,b", "I,2,b")
    project.run()
    assert project.rows(columns=COLUMNS) == [(1, "b", False), (2, "b", False), (3, "a", True)]
    assert project.call("reload", "shop.item").code == 0
    project.put("LOAD00000001.csv", _rows((1, "c"), (4, "c")))
    assert project.call("load-complete", "shop.item").code == 0
    project.run()
    assert project.rows(columns=COLUMNS) == [(1, "c", False), (2, "b", True), (3, "a", True), (4, "c", False)]
    assert project.call("export", "shop.item", "--to", "out").code == 0
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT * FROM '{project.folder}/out/*.parquet' ORDER BY id").fetchall()
    assert found == [(1, "c", False), (2, "b", True), (3, "a", True), (4, "c", False)]


def _rows(*rows: tuple[Any, ...]) -> str:
    return "".join(f"2026-11-01 10:00:00,{key},{name}\n" for key, name in rows)
