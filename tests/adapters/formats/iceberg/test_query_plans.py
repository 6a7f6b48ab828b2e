"""What Spark does for a usual batch: the table is streamed past the batch and never moved."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from project import ITEM, Project
from pyspark.sql import DataFrame
from resolution_switches import use_spark_in_commands

from lakeward.adapters.formats.shared.rows import table_rows
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.spark.merge.fold import batch_fold

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Spark work out the batches, whose plans these tests look at."""
    use_spark_in_commands(monkeypatch)


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


@dataclass(frozen=True)
class Way:
    """How a table is kept, what returns the rows that stand of a batch's keys, and where it says what is small."""

    settings: str
    reads: tuple[Any, str]
    module: ModuleType


WAYS = {
    "mirror": Way(ITEM, (Rows, "find_stored"), table_rows),
    "history": Way(f'{ITEM}mode = "history"\n', (batch_fold, "_with_fold_start"), batch_fold),
}
any_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def up_to_the_keys(project: Project, monkeypatch: pytest.MonkeyPatch, way: Way) -> tuple[str, list[str], str]:
    """Run two batches; return the scan of the table in the second, what its rows go through, and what they meet.

    That is the batch's keys: behind it, as where versions are put together, are rows of these alone.
    """
    seen = []
    reads = getattr(*way.reads)

    def watched(*arguments: object) -> DataFrame:
        frame: DataFrame = reads(*arguments)
        seen.append(plan_of(frame))
        return frame

    monkeypatch.setattr(*way.reads, watched)
    project.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n3,c,3.00\n")
    project.put("20261121-100000000.csv", "U,2,x,2.00\nU,3,y,3.00\n")
    project.run()
    [(lines, scan)] = [(lines, n) for lines in seen for n, line in enumerate(lines) if SCAN.search(line)]
    higher = above(lines, scan)
    [meets, *_] = [n for n, line in enumerate(higher) if "Join" in line]
    return lines[scan], higher[:meets], higher[meets]


@any_way
def test_only_files_with_the_keys_are_read(project: Project, monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    project.configure(way.settings, source="max_files = 1")
    scan, through, meeting = up_to_the_keys(project, monkeypatch, way)
    assert "id >= 2" in scan
    assert "id <= 3" in scan
    assert "BroadcastHashJoin [id" in meeting
    assert "LeftSemi, BuildRight" in meeting
    assert not [line for line in through if "Exchange" in line]


@pytest.mark.parametrize("way", [WAYS["mirror"], pytest.param(WAYS["history"], marks=pytest.mark.long)], ids=WAYS)
def test_a_table_that_is_moved_would_be_seen(project: Project, monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    monkeypatch.setattr(way.module, "SMALL", -1)
    spark = '[spark.settings]\n"spark.sql.autoBroadcastJoinThreshold" = "-1"\n'
    project.configure(way.settings + spark, source="max_files = 1")
    _, through, meeting = up_to_the_keys(project, monkeypatch, way)
    assert "BroadcastHashJoin" not in meeting
    assert [line for line in through if "Exchange" in line]
