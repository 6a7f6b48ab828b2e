"""Maintenance of Iceberg tables: files, snapshots and orphans. Rows and progress do not change."""

from __future__ import annotations

import os
import time
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from project import ITEM, Project
from pyiceberg.catalog import load_catalog

from lakeward.adapters.formats.iceberg.operations import maintenance
from lakeward.entrypoints.runtime.locks.pipeline_lock import locked

pytestmark = pytest.mark.spark

D = Decimal
POLICY = ITEM + 'maintain = { deleted_rows = 0.5, small_files = 0, snapshots = "1s", orphans = "1d" }\n'
LOAD = "1,a,1.00\n2,b,2.00\n3,c,3.00\n"
CHANGES = ["U,2,x,2.00\nD,3,c,3.00\n", "U,2,y,9.00\nI,4,d,4.00\n"]
ROWS = [(1, "a", D("1.00")), (2, "y", D("9.00")), (4, "d", D("4.00"))]


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run maintenance ten seconds later: batches take less than the second for which snapshots are kept."""
    clock = SimpleNamespace(time=time.time, time_ns=lambda: time.time_ns() + 10 * 10**9)
    monkeypatch.setattr(maintenance, "time", clock)


def maintain(project: Project, *more: str, code: int = 0) -> dict[str, Any]:
    ended = project.call("maintain", "--json", *more)
    assert ended.code == code, ended.out + ended.err
    return dict(ended.document["tables"][0])


def run_all_files(project: Project) -> None:
    project.configure(tables=POLICY)
    project.put("LOAD00000001.csv", LOAD)
    project.run()
    for number, changes in enumerate(CHANGES):
        project.put(f"20261121-1{number}0000000.csv", changes)
        project.run()


def table(project: Project) -> Any:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{project.folder}/lake/catalog.db")
    return catalog.load_table(("shop", "item"))


def test_maintenance_removes_deleted_rows_old_snapshots_and_orphan_files(project: Project) -> None:
    run_all_files(project)
    folder = project.folder / "lake/shop/item/data"
    old, new = folder / "left-by-a-crash.parquet", folder / "of-another-writer.parquet"
    for file, age in ((old, 2), (new, 0)):
        file.write_bytes(b"nothing")
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - age * 86_400))
    ours = table(project).current_snapshot()
    said = maintain(project, "--dry-run")
    assert (said["files"], said["snapshots"]) == (2, 2), "a file without a live row left with its last one"
    assert [name.rsplit("/", 1)[1] for name in said["orphans"]] == [old.name]
    assert old.exists()
    assert table(project).current_snapshot() == ours
    done = maintain(project)
    assert done["files"] == said["files"]
    assert done["orphans"] == said["orphans"]
    assert (old.exists(), new.exists()) == (False, True)
    kept = table(project)
    assert ours.snapshot_id in [snapshot.snapshot_id for snapshot in kept.snapshots()]
    assert len(kept.snapshots()) <= 3
    assert [task.delete_files for task in kept.scan().plan_files()] == [set()] * len(list(kept.scan().plan_files()))
    assert project.rows() == ROWS
    assert project.run()["shop.item"]["batches"] == []
    project.put("20261121-200000000.csv", "D,4,d,4.00\n")
    project.run()
    assert project.rows() == ROWS[:2]
    assert maintain(project, "--dry-run")["files"] == 0


def test_deleted_rows_stay_where_the_policy_says_so(project: Project) -> None:
    run_all_files(project)
    kept = POLICY.replace("deleted_rows = 0.5, small_files = 0", "deleted_rows = 0, small_files = 50")
    project.configure(tables=kept)
    assert maintain(project, "--dry-run")["files"] == 0


def test_many_small_files_become_one(project: Project) -> None:
    project.configure(tables=POLICY.replace("small_files = 0", "small_files = 3").replace('"1s"', '"never"'))
    for number in range(4):
        project.put(f"20261121-1{number}0000000.csv", f"I,{number},a,1.00\n")
        project.run()
    said = maintain(project)
    assert (said["files"], said["snapshots"]) == (4, 0)
    assert len(list(table(project).scan().plan_files())) == 1
    assert [row[0] for row in project.rows()] == [0, 1, 2, 3]
    assert project.call("rollback", "shop.item").out.count("2026") >= 3


def test_maintenance_does_not_touch_a_running_pipeline(project: Project) -> None:
    run_all_files(project)
    with locked(project.folder / "state"):
        ended = project.call("maintain")
    assert ended.code == 75
    assert "another process runs this pipeline" in ended.err


def test_a_moved_tag_is_restored_before_snapshots_expire(project: Project) -> None:
    run_all_files(project)
    before = table(project)
    ours = before.current_snapshot()
    with before.manage_snapshots() as manage:
        manage.remove_tag("lakeward")
    before.append(before.scan().to_arrow().slice(0, 0))
    found = table(project).metadata_location
    assert maintain(project, "--dry-run")["snapshots"] == 2
    assert table(project).metadata_location == found
    maintain(project)
    assert ours.snapshot_id in [snapshot.snapshot_id for snapshot in table(project).snapshots()]
    assert project.run()["shop.item"]["batches"] == []
    assert project.rows() == ROWS


def test_a_table_that_was_never_written_needs_nothing(project: Project) -> None:
    project.configure(tables=POLICY)
    said = maintain(project)
    assert (said["files"], said["snapshots"], said["orphans"]) == (0, 0, [])
