"""What Spark does for a usual batch: the table is streamed past the batch and never moved."""

from __future__ import annotations

import re

import pytest
from project import ITEM, Project
from pyspark.sql import DataFrame

from lakeward.adapters.tables import rows
from lakeward.adapters.tables.rows import Rows

pytestmark = pytest.mark.spark

SCAN = re.compile(r"BatchScan \S*\.item\S*\[")


def plan_of(frame: DataFrame) -> list[str]:
    """Return the lines of the plan that would be carried out, the top one first."""
    return str(frame._jdf.queryExecution().executedPlan().toString()).splitlines()


def depth(line: str) -> int:
    return len(line) - len(line.lstrip(" :+-*()0123456789"))


def above(lines: list[str], index: int) -> list[str]:
    """Return the lines of what a line's rows go through, up to the top."""
    found, level = [], depth(lines[index])
    for line in reversed(lines[:index]):
        if depth(line) < level:
            found.append(line)
            level = depth(line)
    return found


def above_the_scan(project: Project, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[str]]:
    """Run two batches; return the scan of the table in the second, and what its rows go through."""
    seen = []
    found = Rows.found

    def watched(self: Rows, *arguments: object) -> DataFrame:
        frame: DataFrame = found(self, *arguments)  # type: ignore[arg-type]
        seen.append(plan_of(frame))
        return frame

    monkeypatch.setattr(Rows, "found", watched)
    project.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n3,c,3.00\n")
    project.put("20261121-100000000.csv", "U,2,x,2.00\nU,3,y,3.00\n")
    project.run()
    [lines] = seen
    [scan] = [index for index, line in enumerate(lines) if SCAN.search(line)]
    return lines[scan], above(lines, scan)


def test_the_table_is_not_moved_and_only_read_where_the_keys_lie(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.configure(source="max_files = 1")
    scan, higher = above_the_scan(project, monkeypatch)
    assert "id >= 2" in scan
    assert "id <= 3" in scan
    assert higher
    assert not [line for line in higher if "Exchange" in line]


def test_a_table_that_is_moved_would_be_seen(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail."""
    monkeypatch.setattr(rows, "SMALL", -1)
    project.configure(
        ITEM + '[spark.settings]\n"spark.sql.autoBroadcastJoinThreshold" = "-1"\n', source="max_files = 1"
    )
    _, higher = above_the_scan(project, monkeypatch)
    assert [line for line in higher if "Exchange" in line]
