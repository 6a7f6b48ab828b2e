"""Rollbacks to an earlier commit: rows, progress and change log return, and the next run continues."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from deltalake import DeltaTable
from hudi_lake import by_hudi_rs
from project import ITEM, Project
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta_rs.change_log_versions import DeltaChangeLogVersions
from lakeward.adapters.formats.hudi.java import Jvm
from lakeward.adapters.formats.hudi.metadata.timeline import Timeline
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.hudi.writes.write_options import options_of
from lakeward.adapters.formats.iceberg.side_tables.change_log_versions import IcebergChangeLogVersions
from lakeward.adapters.formats.shared.change_log import entries, retention
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Schema
from lakeward.plugins.testing.player import Crash

pytestmark = pytest.mark.spark

D = Decimal
LOAD = "1,a,1.00\n2,b,2.00\n3,c,3.00\n"
CHANGES = ["U,2,x,2.00\nD,3,c,3.00\n", "U,2,y,9.00\nI,4,d,4.00\n", "D,4,d,4.00\nU,1,z,7.00\n", "I,5,e,5.00\n"]
AFTER_ALL = [(1, "z", D("7.00")), (2, "y", D("9.00")), (5, "e", D("5.00"))]
AFTER_FIRST = [(1, "a", D("1.00")), (2, "x", D("2.00"))]


@pytest.fixture(
    params=["iceberg", pytest.param("delta", marks=pytest.mark.long), pytest.param("hudi", marks=pytest.mark.hudi)]
)
def shop(request: pytest.FixtureRequest, project: Project) -> Project:
    """Return a project of each format whose tables keep their earlier commits."""
    project.kind = request.param
    project.configure()
    return project


hudi_is_long = pytest.mark.parametrize(
    "shop",
    [
        "iceberg",
        pytest.param("delta", marks=pytest.mark.long),
        pytest.param("hudi", marks=[pytest.mark.long, pytest.mark.hudi]),
    ],
    indirect=True,
)
"""Tests of code that Hudi shares with Iceberg are long on Hudi. The gate has one rollback and Hudi's own code."""


def run_all_files(project: Project) -> None:
    """Run for the load, and once for each file of changes."""
    project.put("LOAD00000001.csv", LOAD)
    project.run()
    for number, changes in enumerate(CHANGES):
        project.put(f"20261121-1{number}0000000.csv", changes)
        project.run()


def versions(project: Project) -> dict[int, str]:
    """Return the listed commits by batch."""
    ended = project.call("rollback", "shop.item", "--json")
    assert ended.code == 0, ended.err
    return {found["batch"]: found["name"] for found in ended.document["versions"]}


def take_back(project: Project, batch: int, *more: str) -> dict[str, Any]:
    ended = project.call("rollback", "shop.item", "--to", versions(project)[batch], "--json", *more)
    assert ended.code == 0, ended.err
    return dict(ended.document)


def in_iceberg(project: Project, name: str = "item") -> Any:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{project.folder}/lake/catalog.db")
    return catalog.load_table(("shop", name))


def in_delta(project: Project, name: str = "item") -> DeltaTable:
    return DeltaTable(str(project.folder / "lake/shop" / name))


def columns_of(project: Project) -> list[str]:
    if project.kind == "hudi":
        return list(by_hudi_rs(project.folder / "lake/shop/item").column_names)
    if project.kind == "delta":
        return [field.name for field in in_delta(project).schema().fields]
    return list(in_iceberg(project).schema().column_names)


def test_rows_and_progress_go_back_together_and_the_next_run_applies_what_follows(shop: Project) -> None:
    run_all_files(shop)
    assert [*versions(shop)] == [4, 3, 2, 1]
    said = take_back(shop, 2, "--dry-run")
    assert (said["batches"], said["done"], len(said["objects"])) == (3, False, 3)
    assert shop.rows() == AFTER_ALL
    assert take_back(shop, 2)["done"]
    assert shop.rows() == AFTER_FIRST
    (status,) = shop.call("status", "--json").document["tables"]
    assert (status["batch"], status["rows"]) == (2, 2)
    states = shop.call("ledger", "list", "shop.item", "--json").document["states"]
    assert states == {"applied": 2}
    assert [batch["batch"] for batch in shop.run()["shop.item"]["batches"]] == [3]
    assert shop.rows() == AFTER_ALL
    assert shop.run()["shop.item"]["batches"] == []
    assert [*versions(shop)] == [2, 1]


def test_a_rollback_shows_what_it_undoes(project: Project) -> None:
    run_all_files(project)
    listed = project.call("rollback", "shop.item").out
    assert "20261121-130000000.csv" not in listed
    assert "20261121-120000000.csv" in listed
    said = project.call("rollback", "shop.item", "--to", versions(project)[3], "--dry-run").out
    assert "2 batches are undone; 2 files will be applied again" in said
    assert "Nothing was changed" in said


def test_an_unknown_commit_is_refused(project: Project) -> None:
    run_all_files(project)
    ended = project.call("rollback", "shop.item", "--to", "17")
    assert ended.code == 1
    assert "has no commit 17" in ended.err
    assert project.rows() == AFTER_ALL


@pytest.mark.long
@hudi_is_long
def test_missing_files_are_reported_before_a_rollback_changes_anything(shop: Project) -> None:
    shop.configure(source='landing = "archived"\narchive = "backup"')
    run_all_files(shop)
    ended = shop.call("rollback", "shop.item", "--to", versions(shop)[3])
    assert ended.code == 1
    assert "2 files that were applied since are not there any more" in ended.err
    assert shop.rows() == AFTER_ALL
    for number in (2, 3):
        name = f"20261121-1{number}0000000.csv"
        (shop.folder / "backup/shop/item" / name).rename(shop.folder / "landing/shop/item" / name)
    take_back(shop, 3)
    shop.run()
    assert shop.rows() == AFTER_ALL


@hudi_is_long
@pytest.mark.parametrize("to", [4, pytest.param(3, marks=pytest.mark.long)])
def test_a_crashed_rollback_can_be_repeated(shop: Project, monkeypatch: pytest.MonkeyPatch, to: int) -> None:
    """The table was rolled back and its side tables were not, also if they were trimmed by the next batch."""
    monkeypatch.setattr(retention, "_TRIM_EVERY", 5)
    run_all_files(shop)
    name = versions(shop)[to]

    def ends(*_: object) -> None:
        raise Crash("the process ends here")

    with monkeypatch.context() as patch:
        for earlier in (IcebergChangeLogVersions, DeltaChangeLogVersions):
            patch.setattr(earlier, "restore", ends)
        with pytest.raises(Crash):
            shop.call("rollback", "shop.item", "--to", name, "--json")
    assert "`lakeward rollback shop.item` rolls back its change log too" in shop.fails()
    assert take_back(shop, to)["done"]
    shop.run()
    assert shop.rows() == AFTER_ALL


@hudi_is_long
def test_changes_trimmed_since_then_are_restored(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_TRIM_EVERY", 2)
    run_all_files(shop)
    take_back(shop, 1)
    shop.run()
    assert shop.rows() == AFTER_ALL


@hudi_is_long
def test_a_rollback_without_its_change_log_is_refused(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_TRIM_EVERY", 2)
    run_all_files(shop)
    first = versions(shop)[1]
    if shop.kind != "iceberg":  # beside Hudi's table stand Delta's
        in_delta(shop, "item__changes").delete(f"{entries.KIND} = 'kept' and _lakeward_batch = 2")
    else:
        with in_iceberg(shop, "item__changes").manage_snapshots() as manage:
            manage.remove_tag("lakeward-before-2")
    assert [*versions(shop)] == [4, 3, 2]
    ended = shop.call("rollback", "shop.item", "--to", first)
    assert ended.code == 1
    assert "what it remembered at batch 1, before it was trimmed with batch 2, was forgotten" in ended.err
    assert shop.rows() == AFTER_ALL


def _restored_by_hudi(project: Project, spark: SparkSession, instant: str) -> None:
    """Remove the later instants, as Hudi's own restore does."""
    path = project.folder / "lake/shop/item"
    dimension = Dimension(name=TableName("shop", "item"), schema=Schema(()), key=("id",))
    jvm, options = Jvm(spark), options_of(dimension, TableOptions())
    with jvm.client(str(path), Timeline(DiskFolder(path)).schema() or "", options) as client:
        client.savepoint(instant, "somebody", "it was wrong")
        client.restoreToSavepoint(instant)


@hudi_is_long
def test_a_table_rolled_back_by_others_gets_its_change_log_of_then(shop: Project, spark: SparkSession) -> None:
    run_all_files(shop)
    second = versions(shop)[2]
    if shop.kind == "hudi":
        _restored_by_hudi(shop, spark, second)
    elif shop.kind == "delta":
        spark.sql(f"RESTORE TABLE delta.`{shop.folder}/lake/shop/item` TO VERSION AS OF {second}")
    else:
        with in_iceberg(shop).manage_snapshots() as manage:
            manage.rollback_to_snapshot(int(second))

    assert "`lakeward rollback shop.item` rolls " in shop.fails()
    take_back(shop, 2)
    shop.run()
    assert shop.rows() == AFTER_ALL


@pytest.mark.long
@hudi_is_long
def test_columns_added_since_then_are_dropped_and_added_again(shop: Project) -> None:
    run_all_files(shop)
    more = ITEM.replace('price = "decimal(8,2)"', 'price = "decimal(8,2)", colour = "string"')
    shop.configure(tables=more)
    shop.put("20261121-200000000.csv", "U,1,z,7.00,red\n")
    shop.run()
    columns = ("id", "name", "colour")
    assert (1, "z", "red") in shop.rows(columns=columns)
    take_back(shop, 5)
    assert "colour" not in columns_of(shop)
    shop.run()
    assert (1, "z", "red") in shop.rows(columns=columns)
    assert [row[:1] for row in shop.rows(columns=columns)] == [(1,), (2,), (5,)]
