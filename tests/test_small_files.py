"""Small files are merged between batches of a run that follows. Rows, progress and earlier states stay."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from project import ITEM, Project
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import ManifestContent

from lakeward.adapters.formats.iceberg.metadata.progress import properties_of
from lakeward.adapters.formats.iceberg.operations import file_merge
from lakeward.adapters.formats.iceberg.operations.maintenance import _NOTE
from lakeward.core.operations import small_files
from lakeward.entrypoints.runtime import pipeline_run, worker
from lakeward.entrypoints.runtime.worker import TableWorker
from lakeward.plugins.testing.player import Crash

pytestmark = pytest.mark.spark

BATCHES = 11
SMALL = "maintain = { small_files = 3, deleted_rows = 0 }\n"


def rows_after(batches: int) -> list[tuple[int, str, Decimal]]:
    """Return the rows after some batches: each inserts two rows, and changes the first of the last batch."""
    changed = [(2 * batch, "b", Decimal(batch)) for batch in range(batches - 1)]
    inserted = [(2 * batch + 1, "a", Decimal(batch)) for batch in range(batches)]
    return sorted([*changed, *inserted, (2 * batches - 2, "a", Decimal(batches - 1))])


ROWS = rows_after(BATCHES)


@pytest.fixture(autouse=True)
def after_each_third_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run that does not follow merge as one that does, after each third batch."""
    monkeypatch.setattr(small_files, "BATCH_INTERVAL", 3)
    monkeypatch.setattr(pipeline_run, "TableWorker", partial(TableWorker, merges=True))


def put_changes(project: Project, tables: str) -> None:
    project.configure(tables=tables, source="max_files = 1")
    for batch in range(BATCHES):
        change = f"U,{2 * batch - 2},b,{batch - 1}.00\n" if batch else ""
        inserts = "".join(f"I,{key},a,{batch}.00\n" for key in (2 * batch, 2 * batch + 1))
        project.put(f"20261121-10{batch:02}00000.csv", change + inserts)


def table(project: Project) -> Any:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{project.folder}/lake/catalog.db")
    return catalog.load_table(("shop", "item"))


def count_files(project: Project) -> int:
    return len(list(table(project).scan().plan_files()))


def test_small_batches_leave_a_bounded_number_of_files(project: Project) -> None:
    put_changes(project, ITEM + SMALL)
    assert project.run()["shop.item"]["batch_count"] == BATCHES
    assert count_files(project) <= 4
    assert project.rows() == ROWS
    assert project.run()["shop.item"]["batches"] == []


@pytest.mark.parametrize("options", ["format_version = 3\n", 'partition_by = ["bucket(2, id)"]\n'])
def test_files_that_this_process_cannot_merge_are_left_to_iceberg(project: Project, options: str) -> None:
    put_changes(project, ITEM + options + SMALL)
    project.run()
    assert count_files(project) <= 8
    assert project.rows() == ROWS


def test_a_merge_replaces_files_and_their_deletes_as_they_were_when_it_began(project: Project) -> None:
    """The rows keep the age of the snapshot that was read: a later delete by value must still be of them."""
    put_changes(project, ITEM + SMALL)
    project.run()
    merged = [snapshot for snapshot in table(project).snapshots() if _NOTE[0] in properties_of(snapshot)][-1]
    names = ("total-data-files", "total-delete-files", "total-position-deletes", "total-records")
    assert [merged.summary[name] for name in names] == ["1", "0", "0", "18"]
    io = table(project).io
    manifests = [one for one in merged.manifests(io) if one.content == ManifestContent.DATA]
    [age] = [entry.sequence_number for manifest in manifests for entry in manifest.fetch_manifest_entry(io)]
    assert age == merged.sequence_number - 1


def test_no_small_file_is_merged_where_the_settings_forbid_it(project: Project) -> None:
    put_changes(project, ITEM + SMALL.replace("small_files = 3", "small_files = 0"))
    project.run()
    assert count_files(project) == BATCHES
    assert project.rows() == ROWS


def test_killed_between_a_merge_and_the_next_batch_it_continues(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_changes(project, ITEM + SMALL)

    def end_after(*of: Any) -> None:
        assert small_files.merge_small_files(*of).files
        raise Crash("the process ends here")

    with monkeypatch.context() as patch:
        patch.setattr(worker, "merge_small_files", end_after)
        with pytest.raises(Crash):
            project.run()
    assert count_files(project) == 1
    assert project.rows() == rows_after(3)
    assert project.run()["shop.item"]["batch_count"] == BATCHES - 3
    assert project.rows() == ROWS


def test_a_merge_that_fails_fails_no_batch(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    put_changes(project, ITEM + SMALL)

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(file_merge._FileMerge, "commit", fail)
    ran = project.call("run", "--once", "--json", "--log", "json")
    assert ran.code == 0
    assert "small files were not merged" in ran.err
    assert count_files(project) == BATCHES
    assert project.rows() == ROWS
    written = {file.name for file in (project.folder / "lake/shop/item/data").glob("*.parquet")}
    assert len([name for name in written if "deletes" not in name]) == BATCHES, "a merged file was left"


def test_a_table_is_rolled_back_to_a_batch_before_a_merge(project: Project) -> None:
    put_changes(project, ITEM + SMALL)
    project.run()
    version = project.call("rollback", "shop.item", "--json").document["versions"][-2]
    assert version["batch"] == 2
    assert project.call("rollback", "shop.item", "--to", version["name"], "--yes").code == 0
    assert project.rows() == rows_after(2)
