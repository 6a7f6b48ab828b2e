"""Hudi tables that jobs of Spark made, as samples of it do, are taken over and gone on with."""

from __future__ import annotations

from typing import Any

import pytest
from format_project import item, path_of, put, roll_back
from hudi_lake import by_hudi_rs
from project import Project
from pyspark.sql import SparkSession

from lakeward.adapters.formats.hudi.metadata.table_properties import properties_of
from lakeward.adapters.formats.hudi.metadata.timeline import Timeline
from lakeward.adapters.formats.hudi.operations.layout import layout_of
from lakeward.adapters.formats.shared.storage.folder import DiskFolder

pytestmark = [pytest.mark.spark, pytest.mark.hudi]

WRITE = "hoodie.datasource.write."
COLUMNS = 'id = "int", name = "string", part = "string", at = "bigint"'
NAMES = ("id", "name", "part", "at")
ROWS = [(1, "a", "x", 10), (2, "b", "y", 20), (3, "c", "x", 30)]
MERGED_ON_READ = {f"{WRITE}table.type": "MERGE_ON_READ"}
ORDERED = {f"{WRITE}precombine.field": "at"}
COPIED = 'write_mode = "copy-on-write"'
COMPACT = "CALL run_compaction(op => 'run', path => '{}', options => 'hoodie.compact.inline.max.delta.commits=1')"


@pytest.fixture
def shop(project: Project, active: SparkSession) -> Project:
    """Return a project of Hudi; `active` so that formats go by the settings of the tests' session."""
    project.kind = "hudi"
    configure(project)
    return project


def configure(project: Project, more: str = "", key: str = "id") -> None:
    project.configure(item(COLUMNS, more, key))


def upsert(project: Project, rows: list[Any], **options: str) -> None:
    """Write rows as the quick start of Hudi does; an option without a value is none."""
    options = {"hoodie.table.name": "items", f"{WRITE}recordkey.field": "id", **options}
    options = {name: value for name, value in options.items() if value}
    frame = SparkSession.active().createDataFrame(rows, "id int, name string, part string, at bigint")
    frame.write.format("hudi").options(**options).mode("append").save(str(path_of(project)))


def adopt(project: Project, code: int = 0) -> Any:
    ended = project.call("adopt", "shop.item", "--none", "--json")
    assert ended.code == code, ended.out + ended.err
    return ended


def rows(project: Project) -> list[Any]:
    """Return the rows that Spark and hudi-rs find alike."""
    frame = SparkSession.active().read.format("hudi").load(str(path_of(project)))
    found = sorted(map(tuple, frame.select(*NAMES).collect()))
    assert found == sorted(tuple(row[name] for name in NAMES) for row in by_hudi_rs(path_of(project)).to_pylist())
    return found


def goes_on(project: Project) -> None:
    """Adopt the table, then change its rows: an older `at`, a move, a delete, one that comes back."""
    adopt(project)
    assert rows(project) == ROWS
    put(project, 10, "U,1,A,x,5", "D,2,b,y,20", "I,4,d,y,1", "U,3,c,y,30")
    project.run()
    assert rows(project) == [(1, "A", "x", 5), (3, "c", "y", 30), (4, "d", "y", 1)]
    put(project, 11, "U,3,C,x,0", "D,4,d,y,1", "I,2,again,x,0")
    project.run()
    assert rows(project) == [(1, "A", "x", 5), (2, "again", "x", 0), (3, "C", "x", 0)]


@pytest.mark.long
def test_an_ordering_field_does_not_keep_a_row_and_one_that_moves_is_there_once(shop: Project) -> None:
    configure(shop, f'{COPIED}\npartition_by = ["part"]')
    upsert(shop, ROWS, **ORDERED, **{f"{WRITE}partitionpath.field": "part"})
    goes_on(shop)
    properties = properties_of(DiskFolder(path_of(shop)))
    assert properties["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert properties["hoodie.table.metadata.partitions"] == ""


BY_PART, IN_PARTS = {f"{WRITE}partitionpath.field": "part"}, 'partition_by = ["part"]'
COPIED_PARTS = f"{COPIED}\n{IN_PARTS}"
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
RECORD_INDEX = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}
PAYLOAD = {f"{WRITE}payload.class": "org.apache.hudi.common.model.AWSDmsAvroPayload"}
LAYOUTS: dict[str, tuple[str, dict[str, str]]] = {
    "merge-on-read": ("", {**MERGED_ON_READ, **ORDERED}),
    "partitioned logs": (IN_PARTS, {**MERGED_ON_READ, **ORDERED, **BY_PART}),
    "two partitions in hive's style": (
        f'{COPIED}\npartition_by = ["part", "at"]',
        {f"{WRITE}partitionpath.field": "part,at", f"{WRITE}hive_style_partitioning": "true"},
    ),
    "encoded paths": (COPIED_PARTS, {**BY_PART, f"{WRITE}partitionpath.urlencode": "true"}),
    "bloom index": (COPIED, {"hoodie.index.type": "BLOOM", "hoodie.metadata.enable": "false"}),
    "buckets": ("buckets = 3", {**MERGED_ON_READ, **BUCKETS}),
    "record index": (COPIED_PARTS, {**RECORD_INDEX, **BY_PART}),
    "payload for DMS": ("", {**MERGED_ON_READ, **PAYLOAD}),
}


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_of_any_layout_is_gone_on_with(shop: Project, layout: str) -> None:
    settings, options = LAYOUTS[layout]
    configure(shop, settings)
    upsert(shop, ROWS, **options)
    goes_on(shop)
    assert shop.call("maintain", "shop.item", "--json").code == 0
    assert rows(shop) == [(1, "A", "x", 5), (2, "again", "x", 0), (3, "C", "x", 0)]
    (*_, version) = shop.call("rollback", "shop.item", "--json").document["versions"]
    roll_back(shop, version["name"])
    assert rows(shop) == ROWS
    shop.run()
    assert rows(shop) == [(1, "A", "x", 5), (2, "again", "x", 0), (3, "C", "x", 0)]


@pytest.mark.long
def test_a_key_of_several_columns_is_found_by_the_record_key_that_it_has(shop: Project) -> None:
    configure(shop, f'{COPIED}\npartition_by = ["part"]', key="id,name")
    options = {f"{WRITE}recordkey.field": "name,id", f"{WRITE}partitionpath.field": "part"}
    upsert(shop, ROWS, **options)
    adopt(shop)
    put(shop, 10, "U,1,a,y,5", "D,2,b,y,20", 'I,4,"d,id:5",y,1')
    shop.run(3)
    assert rows(shop) == [(1, "a", "y", 5), (3, "c", "x", 30)]
    (entry,) = shop.entries()
    assert "Hudi would take it for another" in entry["detail"]
    layout = layout_of(Timeline(DiskFolder(path_of(shop))).instants(), "shop.item")
    assert layout is not None
    assert layout.theirs[f"{WRITE}recordkey.field"] == "name,id"


@pytest.mark.long
def test_a_table_of_sql_is_gone_on_with_once_its_logs_are_compacted(shop: Project) -> None:
    configure(shop, 'partition_by = ["part"]')
    spark, path = SparkSession.active(), path_of(shop)
    made = "TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'at') PARTITIONED BY (part)"
    columns = "id int, name string, at bigint, part string"
    spark.sql(f"CREATE TABLE adopted ({columns}) USING hudi {made} LOCATION '{path}'")
    try:
        spark.sql("INSERT INTO adopted VALUES (1, 'a', 1, 'x'), (2, 'b', 20, 'y'), (3, 'c', 30, 'x')")
        spark.sql(
            "MERGE INTO adopted t USING (SELECT 1 AS id, 'a' AS name, 10L AS at, 'x' AS part) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET *"
        )
        assert "it has logs, and Hudi merges their rows by `hoodie.record.merge.mode`" in adopt(shop, 1).err
        spark.sql(COMPACT.format(path)).collect()
        goes_on(shop)
    finally:
        spark.sql("DROP TABLE adopted")


@pytest.mark.long
def test_twins_in_two_partitions_are_counted(shop: Project) -> None:
    configure(shop, f'{COPIED}\npartition_by = ["part"]')
    options = {f"{WRITE}partitionpath.field": "part"}
    upsert(shop, ROWS, **options)
    upsert(shop, [(1, "a", "y", 11)], **options)
    assert '1 key stands more than once, ["1"] among them' in adopt(shop, 1).err


@pytest.mark.long
def test_an_older_table_is_refused_and_is_taken_over_once_it_is_upgraded(shop: Project) -> None:
    configure(shop, COPIED)
    older = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}
    upsert(shop, ROWS, **ORDERED, **older)
    assert "it is of table version 6, and lakeward writes 9" in adopt(shop, 1).err
    spark, path = SparkSession.active(), path_of(shop)
    spark.sql(f"CREATE TABLE older USING hudi LOCATION '{path}'")
    try:
        spark.sql("CALL upgrade_table(table => 'older', to_version => 'NINE')").collect()
    finally:
        spark.sql("DROP TABLE older")
    goes_on(shop)


@pytest.mark.long
def test_columns_that_another_job_requires_may_be_null_afterwards(shop: Project) -> None:
    configure(shop, COPIED)
    spark, path = SparkSession.active(), path_of(shop)
    columns = "id int NOT NULL, name string NOT NULL, part string, at bigint"
    spark.sql(f"CREATE TABLE strict ({columns}) USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{path}'")
    try:
        spark.sql("INSERT INTO strict VALUES (1, 'a', 'x', 10)")
    finally:
        spark.sql("DROP TABLE strict")
    adopt(shop)
    put(shop, 10, "U,1,NULL,x,5", "I,2,NULL,NULL,NULL")
    shop.run()
    assert rows(shop) == [(1, None, "x", 5), (2, None, None, None)]


def test_a_table_without_a_key_is_appended_to(shop: Project) -> None:
    configure(shop, COPIED, key="")
    upsert(shop, ROWS, **{f"{WRITE}recordkey.field": "", f"{WRITE}operation": "insert"})
    adopt(shop)
    put(shop, 10, "I,1,a,x,10", "I,4,d,y,1")
    shop.run()
    assert rows(shop) == sorted([*ROWS, (1, "a", "x", 10), (4, "d", "y", 1)])


@pytest.mark.long
@pytest.mark.parametrize("settings", [COPIED, ""], ids=["copy-on-write", "merge-on-read"])
def test_lists_of_an_older_form_and_nested_columns_stay_whole(shop: Project, settings: str) -> None:
    """Hudi writes lists without a level for their elements by default, and lakeward with one."""
    configure(shop, settings)
    options = {} if settings else MERGED_ON_READ
    schema = "id int, name string, part string, at bigint, tags array<string>, pair struct<x: int, of: array<int>>"
    nested = [(["p", "q"], (1, [1, 2])), (None, None), ([], (2, []))]
    wide = [(*row, *more) for row, more in zip(ROWS, nested, strict=True)]
    options = {"hoodie.table.name": "items", f"{WRITE}recordkey.field": "id", **options}
    frame = SparkSession.active().createDataFrame(wide, schema)
    frame.write.format("hudi").options(**options).mode("append").save(str(path_of(shop)))
    adopt(shop)
    put(shop, 10, "U,1,A,x,5", "U,3,C,x,5")
    shop.run()
    assert rows(shop) == [(1, "A", "x", 5), (2, "b", "y", 20), (3, "C", "x", 5)]
    found = SparkSession.active().read.format("hudi").load(str(path_of(shop))).orderBy("id")
    assert [row.tags for row in found.collect()] == [["p", "q"], None, []]
    assert [row.pair and row.pair.of for row in found.collect()] == [[1, 2], None, []]
    by_rs = {row["id"]: row["tags"] for row in by_hudi_rs(path_of(shop)).to_pylist()}
    assert by_rs == {1: ["p", "q"], 2: None, 3: []}
