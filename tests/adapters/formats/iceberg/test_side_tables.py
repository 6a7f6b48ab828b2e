"""Companion and quarantine are written in one way for few rows and in another for many."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pyarrow as pa
import pytest
from altering import opened
from project import Project
from pyiceberg.table import Table
from pyspark.sql import DataFrame
from resolution_switches import use_spark_in_commands

from lakeward.adapters.formats.iceberg.side_tables import side_table
from lakeward.adapters.formats.iceberg.writes.change import Change
from lakeward.adapters.formats.shared.change_log.entries import KIND
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES
from lakeward.adapters.spark.sql.names import BATCH
from lakeward.core.errors import TableError

pytestmark = pytest.mark.spark


def test_spark_writes_large_side_tables(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_table, "MOST_IN_ARROW", 0)
    project.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n3,c,3.00\n")
    project.put("20261121-100000000.csv", "D,1,a,1.00\nU,2,b,many\nU,2,bb,2.50\n")
    assert project.run(code=3)["shop.item"]["counts"]["waiting"] == 1
    assert project.rows() == [(2, "b", 2), (3, "c", 3)]
    assert [(entry["reason"], entry["waits"]) for entry in project.entries()] == [("cast", 1)]
    assert project.call("quarantine", "discard", "shop.item", "2").code == 0
    assert [name for _, name, _ in project.rows()] == ["bb", "c"]


def test_rows_appended_after_another_process_are_removed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    use_spark_in_commands(monkeypatch)
    monkeypatch.setattr(side_table, "MOST_IN_ARROW", 0)
    project.put("LOAD00000001.csv", "1,a,1.00\n2,a,1.00\n")
    project.run()
    project.put("20261121-100000000.csv", "U,1,b,2.00\nD,2,a,1.00\n")
    combine, met = side_table.IcebergSideTable._combine, list[str]()

    def meanwhile(self: side_table.IcebergSideTable, table: Table, frames: Sequence[DataFrame]) -> DataFrame:
        if self.suffix == CHANGES and not met:
            met.append(CHANGES)
            with opened(project, "shop", "item__changes") as other:
                other.append(pa.Table.from_pylist([{KIND: "of another", BATCH: 0}], other.schema().as_arrow()))
        return combine(self, table, frames)

    monkeypatch.setattr(side_table.IcebergSideTable, "_combine", meanwhile)
    assert project.run()["shop.item"]["counts"]["applied"] == 2
    with opened(project, "shop", "item__changes") as changes:
        found = changes.scan(selected_fields=(KIND, BATCH)).to_arrow().to_pylist()
        appends = [one for one in changes.snapshots() if one.summary and one.summary["lakeward.append"]]
    assert len(appends) == 2
    assert (met, sorted(row[BATCH] for row in found if row[KIND] == "batch")) == ([CHANGES], [1, 2])
    assert [row[BATCH] for row in found if row[KIND] == "of another"] == [0]
    project.put("20261121-110000000.csv", "U,1,c,3.00\n")
    project.run()
    assert [name for _, name, _ in project.rows()] == ["c"]


COLUMNS = '[tables."shop.item"]\nkey = ["id"]\ncolumns = {{ id = "int", name = "string"{} }}\n'


def test_a_column_of_a_crash_may_get_another_type(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table never had it, and what stands beside it has no value of it that counts."""
    project.configure(COLUMNS.format(""))
    project.put("LOAD00000001.csv", "1,a\n2,b\n")
    project.run()
    project.configure(COLUMNS.format(', size = "string", at = "string"'))
    project.put("20261121-100000000.csv", "D,1,a,1,2026-11-20\nU,2,b,7,2026-11-21\n")

    def ends(*_: object) -> None:
        raise TableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Change, "commit", ends)
        project.run(code=4)
    project.configure(COLUMNS.format(', size = "int", at = "date"'))
    project.run()
    project.put("20261121-110000000.csv", "U,2,c,8,2026-11-22\n")
    project.run()
    assert project.rows(columns=("id", "name", "size", "at")) == [(2, "c", 8, date(2026, 11, 22))]
