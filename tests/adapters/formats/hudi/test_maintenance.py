"""Hudi tables are kept in shape: logs, and files of old commits; their rows and their progress stay."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from format_project import maintain, path_of
from project import ITEM, Project

from lakeward.adapters.formats.hudi.java import Jvm
from lakeward.adapters.formats.hudi.metadata.timeline import Timeline
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.hudi.session import ready
from lakeward.adapters.formats.hudi.writes import write_options
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Schema
from lakeward.entrypoints.runtime.locks.pipeline_lock import locked

pytestmark = [pytest.mark.spark, pytest.mark.hudi]

D = Decimal
POLICY = 'maintain = {{ deleted_rows = {}, small_files = {}, snapshots = "{}" }}\n'
LAYOUTS = ["", 'write_mode = "copy-on-write"\n', 'partition_by = ["name"]\nbuckets = 2\n']
BATCHES = [["I,1,a,1.00", "I,2,b,2.00", "I,3,c,3.00"], ["U,2,x,2.00", "D,3,c,3.00"], ["U,2,y,9.00", "I,4,d,4.00"]]
ROWS = [(1, "a", D("1.00")), (2, "y", D("9.00")), (4, "d", D("4.00"))]


@pytest.fixture
def shop(project: Project) -> Project:
    project.kind = "hudi"
    return project


def configure(shop: Project, deleted: float = 0.5, small: int = 0, age: str = "1s", more: str = "") -> None:
    policy = POLICY.format(deleted, small, age)
    shop.configure(ITEM.replace("columns", f"{more}columns") + policy, source="max_files = 1")


def run_batches(shop: Project, batches: Sequence[Sequence[str]] = BATCHES) -> None:
    for number, lines in enumerate(batches):
        shop.put(f"20261121-1{number}0000000.csv", "".join(f"{line}\n" for line in lines))
    shop.run()


def files(shop: Project) -> set[str]:
    """Return the files of rows and logs, but Hudi's own checksums."""
    found = (file for file in path_of(shop).rglob("*") if ".hoodie" not in file.parts and file.is_file())
    return {file.name for file in found if ".log." in file.name or file.suffix == ".parquet"} - {
        file.name for file in path_of(shop).rglob("*.crc")
    }


@pytest.mark.parametrize(
    "layout", [LAYOUTS[0], *[pytest.param(layout, marks=pytest.mark.long) for layout in LAYOUTS[1:]]]
)
def test_logs_and_files_of_old_commits_go_and_the_next_batch_follows(shop: Project, layout: str) -> None:
    configure(shop, more=layout)
    run_batches(shop)
    before, has_logs = files(shop), "copy-on-write" not in layout
    report = maintain(shop, "--dry-run")
    assert bool(report["files"]) is has_logs
    assert files(shop) == before
    done = maintain(shop)
    assert (done["files"], done["bytes"], done["orphans"]) == (report["files"], report["bytes"], [])
    assert shop.rows() == ROWS
    again = maintain(shop, "--dry-run")
    assert (again["files"], again["snapshots"]) == (0, 0)
    assert shop.run()["shop.item"]["batches"] == []
    shop.put("20261121-200000000.csv", "D,4,d,4.00\nU,1,moved,1.00\n")
    shop.run()
    after = [(1, "moved", D("1.00")), ROWS[1]]
    assert shop.rows() == after
    assert maintain(shop)["snapshots"] > 0
    assert not before <= files(shop), "Hudi keeps one version from before the oldest commit that is kept"
    assert shop.rows() == after


def test_logs_are_compacted_once_they_are_so_many_and_files_of_young_commits_stay(shop: Project) -> None:
    configure(shop, deleted=0, small=50, age="1d")
    run_batches(shop)
    before, newest = files(shop), Timeline(DiskFolder(path_of(shop))).newest()
    report = maintain(shop)
    assert (report["files"], report["snapshots"]) == (0, 0)
    assert (files(shop), Timeline(DiskFolder(path_of(shop))).newest()) == (before, newest)
    configure(shop, deleted=0, small=2, age="1d")
    assert maintain(shop)["files"] > 0
    assert before < files(shop)
    assert maintain(shop, "--dry-run")["files"] == 0


def test_a_compaction_that_a_crash_cut_off_is_carried_out(shop: Project, spark: Any) -> None:
    configure(shop)
    run_batches(shop)
    jvm, timeline = Jvm(ready(spark)), Timeline(DiskFolder(path_of(shop)))
    dimension = Dimension(name=TableName("shop", "item"), schema=Schema(()), key=("id",))
    options = {
        **write_options.options_of(dimension, TableOptions()),
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    with jvm.client(str(path_of(shop)), timeline.schema() or "", options) as client:
        planned = client.scheduleCompaction(jvm.none).get()
    assert maintain(shop)["files"] > 0
    newest = Timeline(DiskFolder(path_of(shop))).newest()
    assert newest is not None
    assert (newest.requested, shop.rows()) == (planned, ROWS)
    assert shop.run()["shop.item"]["batches"] == []


def test_a_batch_that_was_not_completed_is_taken_back_first(shop: Project) -> None:
    configure(shop)
    run_batches(shop)
    timeline = Timeline(DiskFolder(path_of(shop)))
    newest = timeline.newest()
    assert newest is not None
    for file in path_of(shop).glob(f".hoodie/timeline/*{newest.requested}_{newest.completed}.*"):
        file.unlink()
    assert maintain(shop)["files"] > 0
    assert shop.rows() == [(1, "a", D("1.00")), (2, "x", D("2.00"))]
    assert [batch["batch"] for batch in shop.run()["shop.item"]["batches"]] == [3]
    assert shop.rows() == ROWS


def test_a_pipeline_that_runs_is_left_alone(shop: Project) -> None:
    configure(shop)
    with locked(shop.folder / "state"):
        assert shop.call("maintain").code == 75
