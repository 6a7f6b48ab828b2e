"""Rows that PyIceberg adds: as it does itself, with fewer copies of the metadata. Small files become one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg import table as module
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from lakeward.adapters.formats.iceberg.side_tables.append import append, compact

ROWS = pa.table({"id": [1, 2], "note": ["a", None]})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    return catalog.create_table("shop.item", ROWS.schema, properties={"commit.retry.num-retries": "0"})


def test_rows_are_added_as_by_pyiceberg_itself(table: Table) -> None:
    append(table, ROWS)
    table.append(ROWS)
    ours, theirs = table.metadata.snapshots
    assert (ours.sequence_number, theirs.sequence_number) == (1, 2)
    assert theirs.parent_snapshot_id == ours.snapshot_id
    summaries = [snapshot.summary for snapshot in (ours, theirs) if snapshot.summary is not None]
    assert {(summary.operation, summary["added-records"]) for summary in summaries} == {(Operation.APPEND, "2")}
    assert table.refresh().scan().to_arrow().to_pylist() == 2 * ROWS.to_pylist()


def test_who_lost_a_race_adds_nothing(table: Table) -> None:
    other = table.catalog.load_table("shop.item")
    append(other, ROWS)
    with pytest.raises(CommitFailedException):
        append(table, ROWS)
    assert table.refresh().scan().count() == len(ROWS)


def test_metadata_is_worked_out_once_for_each_update(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time it copies every snapshot of the table."""
    worked_out = []
    work_out = module.update_table_metadata

    def counted(*given: object) -> object:
        worked_out.append(given)
        return work_out(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "update_table_metadata", counted)
    append(table, ROWS)
    assert len(worked_out) <= 3


def test_files_become_one_with_their_rows_and_others_stay(table: Table) -> None:
    for number in range(3):
        append(table, pa.table({"id": [number], "note": ["a"]}))
    tasks = sorted(table.scan().plan_files(), key=lambda task: task.file.file_path)
    compact(table, tasks[1:])
    files = {task.file.file_path: task.file.record_count for task in table.refresh().scan().plan_files()}
    assert sorted(files.values()) == [1, 2]
    assert files[tasks[0].file.file_path] == 1
    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": number, "note": "a"} for number in range(3)]


def test_files_that_others_have_replaced_meanwhile_stay_as_they_are(table: Table) -> None:
    append(table, ROWS)
    append(table, ROWS)
    other = table.catalog.load_table("shop.item")
    compact(other, [*other.scan().plan_files()])
    with pytest.raises(CommitFailedException):
        compact(table, [*table.scan().plan_files()])
    assert table.refresh().scan().count() == 2 * len(ROWS)
