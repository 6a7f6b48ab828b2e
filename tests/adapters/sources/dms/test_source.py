"""A folder of DMS files as a source: what a batch takes, and in how many reads."""

from __future__ import annotations

from typing import Any

import pytest
from project import Project
from pyspark.sql import DataFrame

from lakeward.adapters.sources.dms import source
from lakeward.adapters.sources.dms.source import DmsSource
from lakeward.core.pipeline.job import PreparedBatch
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.settings.configuration import load
from lakeward.entrypoints.settings.patterns import table_name

pytestmark = pytest.mark.spark


def test_many_files_of_one_layout_are_one_read(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    frame_of = DmsSource._read_in_spark

    def watched(self: DmsSource, *arguments: object) -> DataFrame:
        frame: DataFrame = frame_of(self, *arguments)  # type: ignore[arg-type]
        seen.append(str(frame._jdf.queryExecution().executedPlan().toString()))
        return frame

    monkeypatch.setattr(DmsSource, "_frame", watched)
    project.put("LOAD00000001.csv", "1,a,1.00\n")
    for second in range(20):
        project.put(f"20261121-1000{second:02d}000.csv", f"I,{second + 2},b,2.00\n")
    configured = load(project.folder / "lakeward.toml")
    prepared = prepare_next_batch(Container(configured=configured).job(table=table_name("shop.item")))
    assert isinstance(prepared, PreparedBatch)
    prepared.close()
    [plan] = seen
    assert plan.count("FileScan") == 2, "one for the load, which has no Op column, and one for all the changes"


def test_growing_files_are_left_for_the_next_batch(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.put("LOAD00000001.csv", "1,a,1.00\n")
    growing = project.put("20261121-100000000.csv", "U,1,b,2.00\n")
    project.put("20261121-100000001.csv", "U,1,c,3.00\n")
    surveyed = source.survey_frame
    read = []

    def grown(*arguments: Any) -> object:
        found = surveyed(*arguments)
        if not read:
            growing.write_text("U,1,b,2.00\nU,1,bb,2.50\n")
        read.append(found)
        return found

    monkeypatch.setattr(source, "survey_frame", grown)
    batches = project.run()["shop.item"]["batches"]
    assert [batch["files"] for batch in batches] == [
        ["LOAD00000001.csv"],
        ["20261121-100000000.csv", "20261121-100000001.csv"],
    ]
    assert [name for _, name, _ in project.rows()] == ["c"]
    assert batches[1]["counts"]["read"] == 3


def test_batches_are_bounded_by_files_and_by_bytes(project: Project) -> None:
    for second in range(5):
        project.put(f"20261121-10000{second}000.csv", f"I,{second},{'x' * 1000},2.00\n")
    project.configure(source="max_files = 2")
    assert [len(batch["files"]) for batch in project.run()["shop.item"]["batches"]] == [2, 2, 1]
    for second in range(5, 10):
        project.put(f"20261121-10000{second}000.csv", f"I,{second},{'x' * 1000},2.00\n")
    project.configure(source='max_bytes = "2.5KB"')
    assert [len(batch["files"]) for batch in project.run()["shop.item"]["batches"]] == [2, 2, 1]
    assert len(project.rows()) == 10


def test_header_op_and_line_ends_are_found_file_by_file(project: Project) -> None:
    project.configure(source='timestamp_column = "ts"')
    project.put("LOAD00000001.csv", "id,name,price,ts\n1,a,1.00,2026-11-21 09:00:00.000000\n")
    project.put("LOAD00000002.csv", "I,2026-11-21 09:00:00.000000,2,b,2.00\n")
    project.put("20261121-100000000.csv", "D,2026-11-21 10:00:01.000000,2,b,2.00\n")
    project.put("20261121-100000001.csv", "Op,ts,price,name,id\r\nU,2026-11-21 10:00:00.000000,9.00,z,1\r\n")
    assert project.run()["shop.item"]["counts"]["read"] == 4
    assert [(key, name) for key, name, _ in project.rows()] == [(1, "z")]


def test_the_commit_time_orders_and_rows_of_one_commit_are_in_the_order_of_the_file(project: Project) -> None:
    project.configure(source='timestamp_column = "ts"')
    project.put("20261121-100000000.csv", "I,2026-11-21 10:00:05,1,new,1.00\n")
    project.run()
    project.put("20261121-100000001.csv", "U,2026-11-21 10:00:04,1,old,1.00\n")
    assert project.run()["shop.item"]["counts"]["stale"] == 1
    project.put(
        "20261121-100000002.csv", "U,2026-11-21 10:00:06,1,first,1.00\nU,2026-11-21 10:00:06,1,second,1.00\n"
    )
    assert project.run()["shop.item"]["counts"]["ties"] == 1
    assert [name for _, name, _ in project.rows()] == ["second"]


def test_times_are_in_the_zone_of_the_source(project: Project) -> None:
    columns = 'columns = { id = "int", at = "timestamp" }'
    project.configure(f'[tables."shop.item"]\nkey = ["id"]\n{columns}\n', source='source_zone = "America/New_York"')
    project.put("LOAD00000001.csv", "1,2026-07-01 08:00:00\n")
    project.run()
    [(_, at)] = project.rows(columns=("id", "at"))
    assert at.isoformat() == "2026-07-01T12:00:00+00:00"
