"""Hudi tables through the commands: columns that change, rows that move, other writers, and refusals."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet
from format_project import item, path_of, put
from hudi_lake import by_hudi_rs
from project import Project
from pyspark.sql import SparkSession

from lakeward.adapters.formats.hudi import table as hudi
from lakeward.adapters.formats.hudi.metadata.timeline import Timeline
from lakeward.adapters.formats.hudi.writes import write_options
from lakeward.adapters.formats.shared.storage.folder import DiskFolder

pytestmark = [pytest.mark.spark, pytest.mark.hudi]

D = Decimal

LAYOUTS = ["", 'write_mode = "copy-on-write"', 'partition_by = ["name"]\nbuckets = 2']
ITEM = 'id = "int", name = "string", price = "decimal(8,2)"'


def _long(layout: str) -> ParameterSet:
    return pytest.param(layout, marks=pytest.mark.long)


@pytest.fixture
def shop(project: Project) -> Project:
    project.kind = "hudi"
    project.configure(item(ITEM), source="max_files = 1")
    return project


def rows(project: Project) -> pa.Table:
    return by_hudi_rs(path_of(project))


def record_key(row: Mapping[str, Any]) -> str:
    """Return what Hudi's key of a row has before that of lakeward, as the page of Hudi says."""
    before, key, after = row["_hoodie_record_key"].rpartition(row["_lakeward_key"])
    assert (key, after) == (row["_lakeward_key"], "")
    return str(before)


@pytest.mark.parametrize("layout", [_long(LAYOUTS[0]), _long(LAYOUTS[1]), LAYOUTS[2]])
def test_rows_that_move_are_deleted_and_come_back_stand_once(shop: Project, layout: str) -> None:
    shop.configure(item(ITEM, layout), source="max_files = 1")
    put(shop, 10, "I,1,a,1.00", "I,2,b,2.00", "I,3,c,3.00")
    put(shop, 11, "U,1,moved,1.50", "D,2,b,2.00", "D,9,none,0.00")
    put(shop, 12, "I,2,again,2.50", "U,1,a,1.75", "D,3,c,3.00", "I,3,c,3.50")
    shop.run()
    assert shop.rows() == [(1, "a", D("1.75")), (2, "again", D("2.50")), (3, "c", D("3.50"))]
    assert {record_key(row) for row in rows(shop).to_pylist()} == {""}
    assert "'a'" in str(shop.call("explain", "shop.item", "1", "--json").document)
    put(shop, 13, "D,1,a,0.00", "D,2,a,0.00", "D,3,a,0.00")
    shop.run()
    assert shop.rows() == []
    explained = shop.call("explain", "shop.item", "3", "--json").document
    assert [event["operation"] for event in explained["events"]] == ["delete"]


@pytest.mark.parametrize("layout", [_long(LAYOUTS[0]), LAYOUTS[1], _long(LAYOUTS[2])])
def test_columns_are_added_made_wider_and_renamed(shop: Project, layout: str) -> None:
    layout = layout.replace('"name"', '"id"')
    shop.configure(item('id = "int", name = "string", n = "int"', layout), source="max_files = 1")
    put(shop, 10, "I,1,a,1", "I,2,b,2", "I,3,c,3")
    shop.run()
    wider = 'id = "int", name = "string", n = "bigint", new = "string"'
    shop.configure(item(wider, layout), source="max_files = 1")
    put(shop, 11, f"U,1,a,{2**40},x", "U,2,b,2,y")
    shop.run()
    columns = ("id", "name", "n", "new")
    assert shop.rows(columns=columns) == [(1, "a", 2**40, "x"), (2, "b", 2, "y"), (3, "c", 3, None)]
    renamed = 'id = "int", title = "string", n = "bigint", new = "string"'
    settings = item(renamed, layout) + '[tables."shop.item".schema]\nrename = { name = "title" }\n'
    shop.configure(settings, source="max_files = 1")
    put(shop, 12, "D,1,a,1,x", "U,2,B,2,y", "I,4,d,4,z")
    shop.run()
    columns = ("id", "title", "n", "new")
    assert shop.rows(columns=columns) == [(2, "B", 2, "y"), (3, "c", 3, None), (4, "d", 4, "z")]
    assert "name" not in rows(shop).column_names
    put(shop, 13, "U,3,C,5,w")
    shop.run()
    assert shop.rows(columns=columns) == [(2, "B", 2, "y"), (3, "C", 5, "w"), (4, "d", 4, "z")]


def test_keys_whose_texts_hudi_would_mix_up_stay_apart(shop: Project) -> None:
    shop.configure(item('a = "string", b = "string", n = "int"', key="a,b"), source="max_files = 1")
    put(shop, 10, 'I,"x,b:y",z,1', 'I,x,"y,b:z",2', 'I,"",q,3', 'I,q,"",4')
    put(shop, 11, 'U,"x,b:y",z,10', 'D,q,"",4')
    shop.run()
    assert shop.rows(columns=("a", "b", "n")) == [("", "q", 3), ("x", "y,b:z", 2), ("x,b:y", "z", 10)]


def test_a_key_whose_text_changes_with_its_type_finds_its_row(shop: Project) -> None:
    shop.configure(item('f = "float", n = "int"', key="f"), source="max_files = 1")
    put(shop, 10, "I,0.1,1", "I,0.5,2")
    shop.run()
    shop.configure(item('f = "double", n = "int"', key="f"), source="max_files = 1")
    put(shop, 11, "U,0.10000000149011612,3", "D,0.5,2")
    shop.run()
    assert shop.rows(columns=("n",)) == [(3,)]


def test_a_first_commit_that_was_incomplete_is_undone(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    put(shop, 10, "I,1,a,1.00")
    with monkeypatch.context() as broken:
        unknown = {"hoodie.parquet.compression.codec": "none of them"}
        broken.setattr(write_options, "_ALWAYS", {**write_options._ALWAYS, **unknown})
        shop.fails()
    assert (path_of(shop) / ".hoodie").is_dir()
    shop.run()
    assert [row[0] for row in shop.rows()] == [1]


@pytest.mark.parametrize("layout", ["", _long('partition_by = ["p"]'), 'partition_by = ["p", "q"]\nbuckets = 2'])
def test_keys_with_colons_and_several_partitions(shop: Project, layout: str) -> None:
    """Hudi 1.2 reads such keys for ever, if they are left to it as they are."""
    columns = 'a = "string", b = "string", n = "int", p = "decimal(4,1)", q = "date"'
    shop.configure(item(columns, layout, key="a,b"), source="max_files = 1")
    keys = ["7,2026-01-01 10:00:00", "00:1A:2B,x", "arn:aws:s3,x", '"https://h:80/?a,b",::']
    put(shop, 10, *[f"I,{key},1,1.0,2026-01-01" for key in keys])
    put(shop, 11, *[f"U,{key},2,2.5,NULL" for key in keys[:3]], f"D,{keys[3]},1,1.0,2026-01-01")
    put(shop, 12, f"U,{keys[0]},3,NULL,2026-01-02")
    shop.run()
    assert shop.rows(columns=("a", "b", "n")) == [
        ("00:1A:2B", "x", 2),
        ("7", "2026-01-01 10:00:00", 3),
        ("arn:aws:s3", "x", 2),
    ]
    several = "_lakeward_key:" if '"p", "q"' in layout else ""
    assert {record_key(row) for row in rows(shop).to_pylist()} == {several}


def test_a_row_of_which_a_partition_does_not_keep_a_text_goes_into_quarantine(shop: Project) -> None:
    shop.configure(item(ITEM, 'partition_by = ["name"]'), source="max_files = 1")
    put(shop, 10, "I,1,a,1.00", 'I,2,"",2.00', "I,3,NULL,3.00")
    put(shop, 11, "U,2,b,2.50", "U,1,b,1.50", 'D,3,"",3.00')
    shop.run(3)
    assert shop.rows() == [(1, "b", D("1.50"))]
    [entry] = shop.entries()
    assert (entry["reason"], entry["row"], entry["waits"]) == ("cast", 2, 1)
    assert "Hudi would make it NULL" in entry["detail"]
    assert shop.call("quarantine", "discard", "shop.item", "2").code == 0
    assert shop.rows() == [(1, "b", D("1.50")), (2, "b", D("2.50"))]


def test_compactions_hide_no_progress_and_bring_nothing_back(shop: Project) -> None:
    properties = 'properties = { "hoodie.compact.inline.max.delta.commits" = "2" }'
    shop.configure(item(ITEM, properties), source="max_files = 1")
    put(shop, 10, "I,1,a,1.00", "I,2,b,2.00")
    put(shop, 11, "D,1,a,1.00")
    put(shop, 12, "U,2,c,3.00")
    shop.run()
    timeline = Timeline(DiskFolder(path_of(shop)))
    assert {instant.progress() is None for instant in timeline.instants()} == {True, False}
    assert shop.rows() == [(2, "c", D("3.00"))]
    assert shop.run()["shop.item"]["batches"] == []


def test_a_compaction_that_is_completed_behind_a_later_batch_hides_none_of_it(shop: Project) -> None:
    """So it is where a process is killed in a compaction: the next batch comes first, and then completes it."""

    def with_compaction(inline: str, schedule: str, after: int) -> None:
        options = {"inline": inline, "schedule.inline": schedule, "inline.max.delta.commits": str(after)}
        properties = ", ".join(f'"hoodie.compact.{name}" = "{value}"' for name, value in options.items())
        shop.configure(item(ITEM, f"properties = {{ {properties} }}"), source="max_files = 1")

    with_compaction("false", "true", 1)
    put(shop, 10, "I,1,a,1.00", "I,2,b,2.00")
    put(shop, 11, "U,1,b,1.50")
    shop.run()
    with_compaction("true", "false", 100)
    put(shop, 12, "I,3,c,3.00", "U,1,c,1.75")
    shop.run()
    timeline = Timeline(DiskFolder(path_of(shop)))
    newest = timeline.newest()
    assert newest is not None
    assert newest.requested < timeline.greatest()
    put(shop, 13, "D,3,c,3.00", "U,1,d,2.00")
    shop.run()
    assert shop.rows() == [(1, "d", D("2.00")), (2, "b", D("2.00"))]


def test_a_commit_with_a_failed_compaction_is_made_once(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    put(shop, 10, "I,1,a,1.00")
    with monkeypatch.context() as broken:
        unknown = {"hoodie.compact.inline.trigger.strategy": "NONE"}
        broken.setattr(write_options, "_LOGS", {**write_options._LOGS, **unknown})
        assert "did not say whether the commit was made" in shop.fails()
    assert shop.run()["shop.item"]["batches"] == []
    assert [row[0] for row in shop.rows()] == [1]


def test_a_commit_of_others_is_met(shop: Project, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    put(shop, 10, "I,1,a,1.00", "I,2,b,2.00")
    shop.run()
    commit, others = hudi.HudiTable.commit, [1]

    def after_another(self: hudi.HudiTable, *arguments: Any) -> Any:
        if others.pop() if others else 0:
            table = spark.read.format("hudi").load(self.path).where("id = 2")
            table = table.drop(*[name for name in table.columns if name.startswith("_hoodie")])
            options = write_options.options_of(self.dimension, self.options)
            table.write.format("hudi").options(**options).mode("append").save(self.path)
        return commit(self, *arguments)

    monkeypatch.setattr(hudi.HudiTable, "commit", after_another)
    put(shop, 11, "U,1,c,3.00")
    shop.run()
    assert shop.rows() == [(1, "c", D("3.00")), (2, "b", D("2.00"))]


def test_a_batch_waits_for_a_java_whose_python_was_killed(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be in the midst of its commit: of a table without a key each row would be there twice."""
    shop.configure(f'[tables."shop.item"]\ncolumns = {{ {ITEM} }}\n')
    put(shop, 10, "I,1,a,1.00")
    shop.run()
    put(shop, 11, "I,2,b,2.00")
    lock, records, held = path_of(shop).with_name(".item.java.lock"), hudi.HudiTable._records, []

    def look(self: hudi.HudiTable, *arguments: Any) -> Any:
        with lock.open("w") as file, pytest.raises(BlockingIOError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held.append(self)
        return records(self, *arguments)

    with monkeypatch.context() as impatient, lock.open("w") as file:
        impatient.setattr(hudi, "_PATIENCE", 0)
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert "another process is committing to the table" in shop.fails()
    monkeypatch.setattr(hudi.HudiTable, "_records", look)
    shop.run()
    assert held
    assert [row[0] for row in shop.rows()] == [1, 2]


def test_a_folder_of_something_else_is_left_as_it_is(shop: Project) -> None:
    path_of(shop).mkdir(parents=True)
    (path_of(shop) / "thesis.doc").touch()
    put(shop, 10, "I,1,a,1.00")
    assert "is no Hudi table, and not empty" in shop.fails()
    assert [file.name for file in path_of(shop).iterdir()] == ["thesis.doc"]
