"""Delta tables through the commands: columns that change, other writers, what the log forgets, and refusals."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_lake import by_delta_rs, by_duckdb
from deltalake import DeltaTable
from format_project import item, path_of, put, roll_back, versions
from project import ITEM, Project
from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta import table as delta
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError

pytestmark = pytest.mark.spark

D = Decimal

QUOTE = '"'
LONG = pytest.mark.long
LAYOUTS = ["", 'write_mode = "copy-on-write"', 'partition_by = ["name"]']


@pytest.fixture
def shop(project: Project) -> Project:
    project.kind = "delta"
    project.configure(source="max_files = 1")
    return project


BOTH = [(2, "y", D("2.50")), (3, "c", D("3.00"))]


def first(project: Project) -> None:
    put(project, 10, "I,1,a,1.00", "I,2,b,2.00", "I,3,c,3.00")
    project.run()


def second(project: Project) -> None:
    put(project, 11, "D,1,a,1.00", "U,2,y,2.50")
    project.run()
    assert project.rows() == BOTH


@pytest.mark.parametrize("layout", [LAYOUTS[0], *[pytest.param(one, marks=LONG) for one in LAYOUTS[1:]]])
def test_columns_are_added_widened_and_renamed_in_the_commit_of_the_rows(shop: Project, layout: str) -> None:
    shop.configure(item('id = "int", name = "string"', layout), source="max_files = 1")
    put(shop, 10, "Op,id,name", "I,1,a", "I,2,b")
    shop.run()
    renamed = 'id = "bigint", title = "string", price = "decimal(8,2)"'
    more = layout.replace("name", "title") + '\nschema.rename = { name = "title" }'
    shop.configure(item(renamed, more), source="max_files = 1")
    put(shop, 11, "Op,id,title,price", f"U,1,c,1.50\nI,{2**40},d,2.00")
    (run,) = shop.run().values()
    assert len(run["batches"]) == 1
    assert shop.rows(columns=("id", "title", "price")) == [(1, "c", D("1.50")), (2, "b", None), (2**40, "d", D(2))]
    told = shop.call("explain", "shop.item", "1", "--json").document
    assert told["stored"]["cells"]["title"] == "c", "a table that delta-rs does not read is explained, too"
    put(shop, 12, "Op,id,title,price", "D,2,b,0.00", "U,1,e,1.75")
    shop.run()
    assert shop.rows(columns=("id", "title")) == [(1, "e"), (2**40, "d")]
    changes = shop.call("status", "--schema", "--json").document["schema_changes"]
    assert {"rename", "widen", "add"} == {change["kind"] for change in changes}


@pytest.mark.long
def test_a_table_with_a_change_data_feed_keeps_the_names_of_its_columns(shop: Project, spark: SparkSession) -> None:
    columns, feed = 'id = "int", name = "string"', '"delta.enableChangeDataFeed"'
    shop.configure(item(columns, f'properties = {{ {feed} = "true" }}'))
    put(shop, 10, "Op,id,name", "I,1,a", "I,2,b")
    shop.run()
    before = DeltaTable(path_of(shop)).version()
    columns = columns.replace("name", "title")
    shop.configure(item(columns, 'schema.rename = { name = "title" }'))
    put(shop, 11, "Op,id,title", "U,1,c")
    said = shop.fails()
    assert "'name' cannot be renamed: the table has a change data feed" in said
    assert DeltaTable(path_of(shop)).version() == before
    switch = f"ALTER TABLE delta.`{path_of(shop)}` SET TBLPROPERTIES ({feed} = '{{}}')"
    spark.sql(switch.format("false"))
    shop.run()
    spark.sql(switch.format("true"))
    shop.configure(item(f'{columns}, "zip code" = "int"'))
    put(shop, 12, "Op,id,title,zip code", "U,2,d,7")
    shop.run()
    assert shop.rows(columns=("id", "title", "zip code")) == [(1, "c", None), (2, "d", 7)]


@pytest.mark.long
def test_a_table_with_a_change_data_feed_gets_columns_of_any_name(shop: Project) -> None:
    feed = 'properties = { "delta.enableChangeDataFeed" = "true" }'
    shop.configure(item('id = "int", name = "string"', feed))
    put(shop, 10, "Op,id,name", "I,1,a", "I,2,b")
    shop.run()
    shop.configure(item('id = "bigint", name = "string", "zip code" = "int"', feed))
    put(shop, 11, "Op,id,name,zip code", "U,1,c,7")
    shop.run()
    assert shop.rows(columns=("id", "name", "zip code")) == [(1, "c", 7), (2, "b", None)]


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_held_keys_follow_a_new_name(shop: Project, layout: str) -> None:
    shop.configure(ITEM.replace("columns", f"{layout}\ncolumns"), source="max_files = 1")
    put(shop, 10, "Op,id,name,price", "I,1,a,1.00", "U,1,b,many", "U,1,c,3.00")
    shop.run(code=3)
    columns = 'no = "int", title = "string", price = "decimal(8,2)"'
    rename = f'{layout}\nschema.rename = {{ id = "no", name = "title" }}'
    shop.configure(item(columns, rename, "no"), source="max_files = 1")
    put(shop, 11, "Op,no,title,price", "U,1,d,4.00", "I,2,c,2.00")
    put(shop, 12, "Op,no,title,price", "U,2,c,2.50")
    assert shop.run(code=3)["shop.item"]["counts"]["waiting"] == 1
    for name in ("item__changes", "item__quarantine"):
        named = [field.name for field in DeltaTable(path_of(shop, name)).schema().fields]
        assert "no" in named
        assert not [name for name in named if "`" in name or name == "id"]
    shop.configure(item(columns, key="no"), source="max_files = 1")
    assert shop.call("quarantine", "discard", "shop.item", "1").code == 0
    assert shop.rows(columns=("no", "title")) == [(1, "d"), (2, "c")]


@pytest.mark.parametrize("layout", [LAYOUTS[0], pytest.param(LAYOUTS[1], marks=LONG)])
def test_two_readers_that_are_not_spark_see_the_same(shop: Project, layout: str) -> None:
    shop.configure(ITEM.replace("columns", f"{layout}\ncolumns"), source="max_files = 1")
    first(shop)
    second(shop)
    found = sorted(by_duckdb(str(path_of(shop))).to_pylist(), key=itemgetter("id"))
    assert sorted(by_delta_rs(DeltaTable(path_of(shop))).to_pylist(), key=itemgetter("id")) == found
    has_vectors = "deletionVectors" in (DeltaTable(path_of(shop)).protocol().reader_features or ())
    assert has_vectors is (not layout)


def test_other_commits_hide_no_progress(shop: Project, spark: SparkSession) -> None:
    first(shop)
    for command in ("OPTIMIZE {}", "REORG TABLE {} APPLY (PURGE)", "ALTER TABLE {} SET TBLPROPERTIES ('a' = 'b')"):
        spark.sql(command.format(f"delta.`{path_of(shop)}`"))
    second(shop)


def test_a_table_is_kept_in_shape(shop: Project) -> None:
    policy = 'maintain = { deleted_rows = 0.3, small_files = 0, snapshots = "1s", orphans = "1d" }'
    shop.configure(ITEM + policy, source="max_files = 1")
    first(shop)
    second(shop)
    (said,) = shop.call("maintain", "--dry-run", "--json").document["tables"]
    assert said["files"] == 1
    assert shop.rows() == BOTH
    (done,) = shop.call("maintain", "--json").document["tables"]
    assert done["files"] == said["files"]
    assert shop.rows() == BOTH
    assert pa.table(DeltaTable(path_of(shop)).deletion_vectors()).num_rows == 0
    assert len(DeltaTable(path_of(shop)).file_uris()) == 2
    shop.configure(ITEM + policy.replace("small_files = 0", "small_files = 2"), source="max_files = 1")
    assert shop.call("maintain", "--json").document["tables"][0]["files"] == 2
    assert len(DeltaTable(path_of(shop)).file_uris()) == 1
    assert shop.run()["shop.item"]["batches"] == []
    put(shop, 12, "D,3,c,3.00")
    shop.run()
    assert shop.rows() == BOTH[:1]


def test_progress_outlives_the_commits_that_the_log_forgets(shop: Project) -> None:
    first(shop)
    log = path_of(shop) / "_delta_log"
    DeltaTable(path_of(shop)).create_checkpoint()
    for commit in log.glob("*.json"):
        commit.unlink()
    for crc in log.glob("*.crc"):
        crc.unlink()
    assert shop.call("status", "--json").document["tables"][0]["batch"] == 1


def test_a_lost_race_is_tried_again(shop: Project, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    first(shop)
    races = []

    class Raced(delta.Change):
        def check(self, table_name: str, batch: int, written: int, removed: int) -> None:
            if len(races) < 2:
                races.append(table_name)
                spark.sql(f"UPDATE delta.`{path_of(shop)}` SET price = price WHERE id = 2")
            super().check(table_name, batch, written, removed)

    monkeypatch.setattr(delta, "Change", Raced)
    second(shop)
    assert len(races) == 2
    kept = {file.rsplit("/", 1)[-1] for file in DeltaTable(path_of(shop)).file_uris()}
    there = {file.name for file in path_of(shop).glob("*.parquet")}
    assert kept <= there
    lost = [line for line in _adds(shop) if line not in there]
    assert lost == [], "no file that was committed was rolled back"


def _adds(project: Project) -> list[str]:
    files = sorted((path_of(project) / "_delta_log").glob("*.json"))
    actions: list[dict[str, Any]] = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [action["add"]["path"] for action in actions if "add" in action]


def test_a_restored_table_is_refused_until_it_is_restored_forward(shop: Project, spark: SparkSession) -> None:
    first(shop)
    second(shop)
    name = f"delta.`{path_of(shop)}`"
    version = DeltaTable(path_of(shop)).version()
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF 1")
    put(shop, 12, "I,4,d,4.00")
    assert "was restored by another writer to what it was at batch 1" in shop.fails()
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {version}")
    shop.run()
    assert shop.rows() == [*BOTH, (4, "d", D("4.00"))]


def test_a_partition_by_an_unknown_column_is_refused_before_a_write(shop: Project) -> None:
    shop.configure('[tables."shop.item"]\nkey = ["id"]\npartition_by = ["nam"]\n', source='format = "parquet"')
    rows = pa.table({"Op": ["I"], "id": [1], "name": ["a"]})
    pq.write_table(rows, shop.put("20261121-100000000.parquet", ""))
    assert "Did you mean 'name'?" in shop.fails()
    assert not (shop.folder / "lake").exists()


@pytest.mark.parametrize("value", ["", pytest.param("__HIVE_DEFAULT_PARTITION__", marks=LONG)])
def test_a_text_that_a_partition_would_make_null_is_held_until_it_is_another(shop: Project, value: str) -> None:
    shop.configure(ITEM.replace("columns", 'partition_by = ["name"]\ncolumns'))
    put(shop, 10, "I,1,a,1.00", "I,2,NULL,2.00")
    shop.run()
    put(shop, 11, f"U,1,{value},1.50", "U,2,b,2.50")
    planned = shop.call("plan", "--json").document["tables"][0]
    assert (planned["way"], planned["rejects"]) == ("core", {"cast": 1})
    shop.run(3)
    assert shop.rows() == [(1, "a", D("1.00")), (2, "b", D("2.50"))]
    [entry] = shop.entries()
    assert "Delta would make it NULL" in entry["detail"]
    fix = shop.folder / "shop.item.fix.toml"
    shop.call("quarantine", "fix", "shop.item", "1")
    head = fix.read_text("utf-8").partition("[row.cells]")[0]
    fix.write_text(f'{head}[row.cells]\nid = "1"\nname = "{value}"\nprice = "1.50"\n', "utf-8")
    assert shop.call("quarantine", "fix", "shop.item", "--from", fix.name).code == 0
    refused = shop.call("quarantine", "replay", "shop.item")
    assert f"as it was mended has {value!r} in 'name'" in refused.err
    fix.write_text(f'{head}[row.cells]\nid = "1"\nname = "c"\nprice = "1.50"\n', "utf-8")
    assert shop.call("quarantine", "fix", "shop.item", "--from", fix.name).code == 0
    assert shop.call("quarantine", "replay", "shop.item").code == 0
    assert shop.rows() == [(1, "c", D("1.50")), (2, "b", D("2.50"))]


def test_files_of_a_failed_commit_are_removed(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    first(shop)
    before = {*path_of(shop).rglob("*.parquet"), *path_of(shop).rglob("*.bin")}

    def fail(*_: object) -> None:
        raise TableError("no more", todo="x")

    monkeypatch.setattr(delta.Change, "commit", fail)
    put(shop, 11, "D,1,a,1.00", "U,2,y,2.50")
    assert "no more" in shop.fails()
    assert {*path_of(shop).rglob("*.parquet"), *path_of(shop).rglob("*.bin")} == before
    monkeypatch.undo()


@pytest.mark.parametrize("mode", ["merge-on-read", pytest.param("copy-on-write", marks=LONG)])
def test_rows_of_partitions_of_any_name_are_found_again(shop: Project, mode: str) -> None:
    more = f'partition_by = ["name"]\nwrite_mode = "{mode}"'
    shop.configure(ITEM.replace("columns", f"{more}\ncolumns"), source="max_files = 1")
    names = ["a b", "a/b", "é+%2F", "x=y", '"', "#?&", "a b "]
    put(shop, 10, *[f'I,{number},"{name.replace(QUOTE, QUOTE * 2)}",1.00' for number, name in enumerate(names)])
    shop.run()
    turned = [*names[1:], names[0]]
    put(shop, 11, *[f'U,{number},"{name.replace(QUOTE, QUOTE * 2)}",2.00' for number, name in enumerate(turned)])
    put(shop, 12, 'D,0,"a/b",2.00', 'D,2,"x=y",2.00')
    shop.run()
    found = [(number, name) for number, name, _ in shop.rows()]
    assert found == [(number, name) for number, name in enumerate(turned) if number not in (0, 2)]


def test_columns_of_any_name_have_a_table(shop: Project) -> None:
    columns = '"zip code" = "string", "a;b" = "int", Id = "int"'
    shop.configure(item(columns, key="Id"))
    put(shop, 10, "I,x,1,1", "I,y,2,2")
    shop.run()
    put(shop, 11, "U,z,3,2", "D,x,1,1")
    shop.run()
    assert shop.rows(columns=("zip code", "a;b", "Id")) == [("z", 3, 2)]


def test_names_that_spark_uses_are_refused(shop: Project) -> None:
    shop.configure(item('id = "int", _metadata = "string"'))
    put(shop, 10, "I,1,a")
    assert "Spark or lakeward use that name" in shop.fails()


def test_files_of_nobody_go_with_age_and_what_the_table_keeps_stays(shop: Project) -> None:
    policy = 'maintain = { deleted_rows = 0, small_files = 0, snapshots = "1d", orphans = "1d" }'
    shop.configure(item('id = "int", name = "string"', policy))
    put(shop, 10, "Op,id,name", "I,1,a", "I,2,b")
    shop.run()
    before = by_duckdb(str(path_of(shop))).num_rows
    folder = path_of(shop)
    old, young = folder / "left-by-a-crash.parquet", folder / "of-six-days.parquet"
    for file, days in ((old, 8), (young, 6)):
        file.write_bytes(b"nothing")
        os.utime(file, (time.time(), time.time() - days * 86_400))
    for arguments in (("--dry-run",), ()):
        assert old.exists()
        (said,) = shop.call("maintain", "--json", *arguments).document["tables"]
        assert [name.rsplit("/", 1)[1] for name in said["orphans"]] == [old.name]
    assert (old.exists(), young.exists()) == (False, True), (
        "a week is what the table keeps, unless it says otherwise"
    )
    assert by_duckdb(str(path_of(shop))).num_rows == before == 2
    assert shop.run()["shop.item"]["batches"] == []
    shop.configure(item('id = "int", name = "string"', policy.replace('orphans = "1d"', 'orphans = "never"')))
    old.write_bytes(b"nothing")
    os.utime(old, (time.time(), time.time() - 8 * 86_400))
    assert shop.call("maintain", "--json").document["tables"][0]["orphans"] == []
    assert old.exists()


def test_a_commit_is_made_apart_from_others_that_commit(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    @contextmanager
    def noted(places: Places, table: TableName) -> Iterator[None]:
        found = places.load(table)
        before = -1 if found is None else found.version()
        yield
        seen.append((before, places.open_version(table).version()))

    monkeypatch.setattr(Places, "apart", noted)
    policy = 'maintain = { deleted_rows = 0.1, small_files = 2, snapshots = "never" }\n'
    shop.configure(ITEM + policy, source="max_files = 1")
    first(shop)
    second(shop)
    assert shop.call("maintain").code == 0
    shop.configure(ITEM + policy + 'cluster_by = ["id"]\n', source="max_files = 1")
    assert shop.call("maintain").code == 0
    roll_back(shop, versions(shop)[1])
    assert [before for before, _ in seen[1:]] == [after for _, after in seen[:-1]], "a version was made by others"
    assert seen[-1][1] == DeltaTable(path_of(shop)).version()
    assert len(seen) == 5


@pytest.mark.long
def test_versions_stay_no_longer_than_the_table_knows_their_files(shop: Project) -> None:
    policy = 'maintain = { deleted_rows = 0, small_files = 0, snapshots = "10d", orphans = "3d" }\n'
    shop.configure(item('id = "int", name = "string"', policy))
    put(shop, 10, "Op,id,name", "I,1,a", "I,2,b")
    shop.run()
    for arguments in (["--dry-run"], []):
        refused = shop.call("maintain", *arguments)
        assert refused.code == 4, refused.out + refused.err
        assert "snapshots of 10 days" in refused.err
        assert "is 7 days" in refused.err
    longer = 'properties = { "delta.deletedFileRetentionDuration" = "interval 10 days" }\n'
    assert longer.strip() in " ".join(refused.err.split())
    shop.configure(item('id = "int", name = "string"', policy + longer))
    for arguments in (["--dry-run"], [], []):
        assert shop.call("maintain", *arguments).code == 0
