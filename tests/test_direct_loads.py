"""Direct loads, through commands. `small_batch = 0` lets Spark read everything."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from project import Project

from lakeward.adapters.formats.shared.operations import direct_load

pytestmark = pytest.mark.spark

BY_SPARK = "\n[spark]\nsmall_batch = 0\n"
DIRECT = "written as it was read"
TABLES = """
[tables."shop.item"]
key = ["id"]
columns = { id = "int", name = "string", born = "date" }

[tables."shop.twin"]
key = ["id"]
columns = { id = "int", name = "string", born = "date" }

[tables."shop.odd"]
key = ["id"]
columns = { id = "int", name = "string", born = "date" }

[tables."shop.wrong"]
key = ["id"]
columns = { id = "int", name = "string", born = "date" } # as it is
"""
COLUMNS = ("id", "name")
AS_IT_IS = ('born = "date" } # as it is', 'born = "date", more = "string" }')


def put_later(file: Path) -> None:
    """Make a file newer than the request of the reload."""
    at = datetime.now(UTC).timestamp() + 60
    os.utime(file, (at, at))


def direct(log: str) -> set[str]:
    """Return the tables with direct loads, according to the log."""
    return {line.split("table=")[1].split()[0] for line in log.splitlines() if "way=" in line and DIRECT in line}


@pytest.mark.parametrize("project", ["iceberg", "delta"], indirect=True)
def test_direct_loads_are_written_as_read_and_all_others_are_resolved(project: Project) -> None:
    project.configure(TABLES + BY_SPARK, 'timestamp_column = "at"')
    at = "2026-11-01 10:00:00"
    for table in ("item", "twin", "odd"):
        project.put("LOAD00000001.csv", f"{at},1,Ann,1990-01-01\n{at},2,Bob,NULL\n", f"shop/{table}")
    project.put("LOAD00000002.csv", f"{at},3,Cem,2001-02-03\n", "shop/item")
    project.put("LOAD00000002.csv", f"{at},1,Eve,2001-02-03\n", "shop/twin")
    project.put("LOAD00000002.csv", f"{at},3,Cem,soon\n", "shop/odd")
    project.put("LOAD00000001.csv", f"{at},1\n{at},2\n", "shop/wrong")
    ran = project.call("run", "--once", "--json")
    assert (ran.code, direct(ran.err)) == (4, {"shop.item"})
    assert project.rows("item", columns=COLUMNS) == [(1, "Ann"), (2, "Bob"), (3, "Cem")]
    assert project.rows("twin", columns=COLUMNS) == [(1, "Eve"), (2, "Bob")]
    assert project.rows("odd", columns=COLUMNS) == [(1, "Ann"), (2, "Bob")]
    assert [table["table"] for table in ran.document["tables"] if table["error"]] == ["shop.wrong"]
    project.put("LOAD00000001.csv", f"{at},1,Ann,1990-01-01,x\n", "shop/wrong")
    project.put("LOAD00000003.csv", f"{at},4,Dea,1990-01-01\n", "shop/item")
    project.put("LOAD00000003.csv", f"{at},2,Rob,1990-01-01\n", "shop/twin")
    project.configure(TABLES.replace(*AS_IT_IS) + BY_SPARK, 'timestamp_column = "at"')
    ran = project.call("run", "--once", "--json")
    assert ran.code == 3, "a row is in quarantine"
    assert direct(ran.err) == {"shop.item", "shop.wrong"}, "no table stood there that could not follow"
    assert project.rows("item", columns=COLUMNS) == [(1, "Ann"), (2, "Bob"), (3, "Cem"), (4, "Dea")]
    assert project.rows("twin", columns=COLUMNS) == [(1, "Eve"), (2, "Rob")], "a row of the load stood there"
    assert project.call("reload", "shop.item").code == 0
    for number in (1, 2, 3):
        put_later(project.put(f"LOAD0000000{number}.csv", f"{at},{number},New,1990-01-01\n", "shop/item"))
    project.call("load-complete", "shop.item")
    assert direct(project.call("run", "--once", "--json").err) == {"shop.item"}
    assert project.rows("item", columns=COLUMNS) == [(1, "New"), (2, "New"), (3, "New")]
    assert project.rows("wrong", columns=(*COLUMNS, "more")) == [(1, "Ann", "x")]


@pytest.mark.parametrize("project", ["iceberg"], indirect=True)
def test_without_its_checks_a_load_stores_a_key_twice(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its checks the rows of the test above would be wrong."""
    for check in ("has_repeated_key", "has_stored_key"):
        monkeypatch.setattr(direct_load, check, lambda *_: False)
    project.configure(TABLES + BY_SPARK, 'timestamp_column = "at"')
    at = "2026-11-01 10:00:00"
    project.put("LOAD00000001.csv", f"{at},1,Ann,1990-01-01\n{at},1,Eve,1990-01-01\n", "shop/twin")
    project.put("LOAD00000001.csv", f"{at},1,Ann,1990-01-01\n", "shop/item")
    project.call("run", "--once")
    project.put("LOAD00000002.csv", f"{at},1,Eve,1990-01-01\n", "shop/item")
    project.call("run", "--once")
    twice = [(1, "Ann"), (1, "Eve")]
    assert (project.rows("twin", columns=COLUMNS), project.rows("item", columns=COLUMNS)) == (twice, twice)
