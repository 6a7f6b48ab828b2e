"""`lakeward maintain` changes the layout of a table with rows, or refuses it. No row changes."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from deltalake import DeltaTable
from project import ITEM, Project
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

D = Decimal
ROWS = [(1, "z", D("1.00")), (3, "c", D("3.00")), (4, "x", D("4.00"))]


@pytest.fixture
def small_table(project: Project) -> Project:
    """A table of three rows, one of them deleted, with the default layout."""
    project.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n3,c,3.00\n")
    project.put("20261121-100000000.csv", "D,2,b,2.00\n")
    return project


def configure_layout(project: Project, *options: str) -> None:
    project.configure(tables=ITEM + "\n".join(options) + "\n")


def maintain(project: Project, *more: str) -> list[tuple[str, str, str]]:
    ended = project.call("maintain", "--json", *more)
    assert ended.code == 0, ended.out + ended.err
    return [tuple(change.values()) for change in ended.document["tables"][0]["layout"]]


def apply_more_changes(project: Project) -> None:
    """Update an existing row and add one."""
    project.put("20261121-110000000.csv", "U,1,z,1.00\nI,4,x,4.00\n")
    project.run()
    assert project.rows() == ROWS


def table(project: Project) -> Any:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{project.folder}/lake/catalog.db")
    return catalog.load_table(("shop", "item"))


def test_iceberg_changes_partitions_order_version_and_properties_without_writing_rows(small_table: Project) -> None:
    small_table.run()
    configure_layout(
        small_table,
        'partition_by = ["bucket( 4, id )", "name"]',
        'sort_by = ["price desc"]',
        "format_version = 3",
        'write_mode = "copy-on-write"',
        'properties = { "write.parquet.compression-codec" = "gzip" }',
    )
    expected = [
        ("partition_by", "none", "bucket(4, id), name"),
        ("sort_by", "none", "price desc"),
        ("format_version", "2", "3"),
        ("write_mode", "merge-on-read", "copy-on-write"),
        ("write.parquet.compression-codec", "zstd", "gzip"),
    ]
    (planned,) = small_table.call("plan", "--json").document["tables"]
    assert [words.split(" is ")[0] for words in planned["warnings"]] == [option for option, *_ in expected]
    assert all("lakeward maintain" in words for words in small_table.run()["shop.item"]["warnings"])
    before = table(small_table)
    assert maintain(small_table, "--dry-run") == expected
    assert table(small_table).metadata == before.metadata
    assert maintain(small_table) == expected
    after = table(small_table)
    assert after.current_snapshot() == before.current_snapshot()
    assert [str(field.transform) for field in after.spec().fields] == ["bucket[4]", "identity"]
    assert after.format_version == 3
    assert maintain(small_table, "--dry-run") == []
    assert small_table.run()["shop.item"]["warnings"] == []
    apply_more_changes(small_table)
    files = {task.file.file_path: task.file.spec_id for task in table(small_table).scan().plan_files()}
    assert after.spec().spec_id in files.values()


def test_iceberg_drops_partitions_and_replaces_position_deletes_by_vectors(small_table: Project) -> None:
    configure_layout(small_table, 'partition_by = ["name"]')
    small_table.run()
    configure_layout(small_table, "partition_by = []", "format_version = 3")
    assert [option for option, *_ in maintain(small_table)] == ["partition_by", "format_version"]
    assert table(small_table).spec().is_unpartitioned()
    apply_more_changes(small_table)
    small_table.put("20261121-120000000.csv", "D,3,c,3.00\n")
    small_table.run()
    assert small_table.rows() == [ROWS[0], ROWS[2]]


def test_iceberg_refuses_older_versions_and_unknown_columns(small_table: Project) -> None:
    configure_layout(small_table, "format_version = 3")
    small_table.run()
    before = table(small_table).metadata
    for option, word in (
        ("format_version = 2", "goes back to an older version"),
        ('partition_by = ["nobody"]', "names no column"),
        ('properties = { "write.nothing" = "1" }', "knows no table property"),
    ):
        configure_layout(small_table, option)
        ended = small_table.call("maintain")
        assert ended.code == 4, ended.err
        assert word in ended.err.replace("\n", " ")
    assert table(small_table).metadata == before


def test_options_that_the_settings_lack_do_not_change(small_table: Project) -> None:
    configure_layout(small_table, 'partition_by = ["name"]', "format_version = 3")
    small_table.run()
    configure_layout(small_table)
    assert maintain(small_table) == []


@pytest.mark.parametrize("modes", [("merge-on-read", "copy-on-write"), ("copy-on-write", "merge-on-read")])
@pytest.mark.long
def test_delta_changes_its_write_mode(small_table: Project, modes: tuple[str, str]) -> None:
    small_table.kind = "delta"
    configure_layout(small_table, f'write_mode = "{modes[0]}"')
    small_table.run()
    configure_layout(
        small_table,
        f'write_mode = "{modes[1]}"',
        'properties = { "delta.logRetentionDuration" = "interval 60 days" }',
    )
    expected = [("write_mode", *modes), ("delta.logRetentionDuration", "not set", "interval 60 days")]
    assert maintain(small_table, "--dry-run") == maintain(small_table) == expected
    assert maintain(small_table, "--dry-run") == []
    vectors = len(list(small_table.folder.glob("lake/shop/item/**/deletion_vector_*")))
    apply_more_changes(small_table)
    small_table.put("20261121-120000000.csv", "D,3,c,3.00\n")
    small_table.run()
    assert small_table.rows() == [ROWS[0], ROWS[2]]
    has_more = len(list(small_table.folder.glob("lake/shop/item/**/deletion_vector_*"))) > vectors
    assert has_more == (modes[1] == "merge-on-read")


def test_delta_refuses_other_partitions_before_it_writes(small_table: Project) -> None:
    small_table.kind = "delta"
    small_table.configure()
    small_table.run()
    configure_layout(small_table, 'partition_by = ["name"]', 'write_mode = "copy-on-write"')
    version = DeltaTable(str(small_table.folder / "lake/shop/item")).version()
    ended = small_table.call("maintain")
    assert ended.code == 4
    assert "partitions a table once" in ended.err
    assert DeltaTable(str(small_table.folder / "lake/shop/item")).version() == version
    assert "partitions a table once" in small_table.run()["shop.item"]["warnings"][0]


def test_delta_changes_its_clustering_columns(small_table: Project, spark: SparkSession) -> None:
    small_table.kind = "delta"
    path = str(small_table.folder / "lake/shop/item")

    def clusters() -> list[str]:
        return list(spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()["clusteringColumns"])

    configure_layout(small_table, 'cluster_by = ["name"]')
    small_table.run()
    assert clusters() == ["name"]
    for before, after in ((["name"], ["price", "id"]), (["price", "id"], [])):
        configure_layout(small_table, f"cluster_by = {json.dumps(after)}")
        assert maintain(small_table) == [("cluster_by", ", ".join(before), ", ".join(after) or "none")]
        assert clusters() == after
    assert maintain(small_table, "--dry-run") == []
    configure_layout(small_table, 'cluster_by = ["id"]', "maintain = { small_files = 1 }")
    maintain(small_table)
    DeltaTable(path).create_checkpoint()
    assert maintain(small_table, "--dry-run") == [], "the checkpoint has the clustering"
    apply_more_changes(small_table)


def test_delta_does_not_cluster_a_partitioned_table(small_table: Project) -> None:
    small_table.kind = "delta"
    configure_layout(small_table, 'partition_by = ["name"]')
    small_table.run()
    configure_layout(small_table, 'cluster_by = ["id"]')
    ended = small_table.call("maintain")
    assert ended.code == 4
    assert "Delta clusters no such table" in ended.err
    configure_layout(small_table, 'cluster_by = ["id"]', 'partition_by = ["name"]')
    assert "partitioned or clustered" in small_table.call("maintain").err


@pytest.mark.hudi
def test_hudi_refuses_other_partitions_and_buckets_before_it_writes(small_table: Project) -> None:
    small_table.kind = "hudi"
    small_table.configure()
    small_table.run()
    configure_layout(
        small_table,
        'partition_by = ["name"]',
        "buckets = 2",
        'properties = { "hoodie.parquet.max.file.size" = "1000000" }',
    )
    timeline = small_table.folder / "lake/shop/item/.hoodie/timeline"
    before = {*timeline.iterdir()}
    ended = small_table.call("maintain")
    assert ended.code == 4
    assert "partition_by is none, and the settings say name" in ended.err
    assert "Write partition_by = []." in ended.err
    planned = small_table.call("plan", "--json").document["tables"][0]["warnings"]
    assert [warning.split(",")[0].split(": ")[-1] for warning in planned] == [
        "partition_by is none",
        "buckets is 4",
    ]
    assert {*timeline.iterdir()} == before
