"""Others commit to the table, expire its snapshots, or roll it back: none of it confuses us."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from project import Project
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lakeward.adapters.formats.iceberg import table as iceberg
from lakeward.core.errors import CommitConflict
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import ATTEMPTS
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.settings.configuration import load
from lakeward.entrypoints.settings.patterns import table_name

pytestmark = pytest.mark.spark

D = Decimal
LOAD = "1,a,1.00\n2,b,2.00\n3,c,3.00\n"
FIRST, SECOND = "20261121-100000000.csv", "20261121-110000000.csv"
AFTER_BOTH = [(1, "a", D("1.00")), (2, "y", D("9.00"))]


def feed(project: Project) -> Iterator[None]:
    """Run three batches; what happens before the last is for the test to say."""
    project.put("LOAD00000001.csv", LOAD)
    project.run()
    project.put(FIRST, "U,2,x,2.00\nD,3,c,3.00\n")
    project.run()
    yield
    project.put(SECOND, "U,2,y,9.00\n")
    project.run()


@contextmanager
def opened(project: Project) -> Iterator[Table]:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{project.folder}/lake/catalog.db")
    try:
        yield catalog.load_table(("shop", "item"))
    finally:
        catalog.close()


def action(spark: SparkSession, project: Project, name: str) -> Any:
    """Return one of Iceberg's actions on the table, as a maintenance job calls it."""
    session, jvm = spark.newSession(), spark.sparkContext._gateway.jvm
    uri = f"jdbc:sqlite:{project.folder}/lake/catalog.db"
    given = {"type": "jdbc", "uri": uri, "jdbc.schema-version": "V1", "warehouse": f"{project.folder}/lake"}
    session.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in {**given, "cache-enabled": "false"}.items():
        session.conf.set(f"spark.sql.catalog.lake.{key}", value)
    session.createDataFrame([(1,)], "n int")  # makes this session the active one, whose catalogs count
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, "lake.shop.item")
    actions = jvm.org.apache.iceberg.spark.actions.SparkActions.get(session._jsparkSession)
    return getattr(actions, name)(table)


def test_a_compaction_in_between_changes_nothing(project: Project, spark: SparkSession) -> None:
    batches = feed(project)
    next(batches)
    compaction = action(spark, project, "rewriteDataFiles").option("rewrite-all", "true")
    assert compaction.execute().rewrittenDataFilesCount() > 0
    assert list(batches) == []
    assert project.rows() == AFTER_BOTH


def test_another_writers_property_and_snapshot_change_nothing(project: Project) -> None:
    batches = feed(project)
    next(batches)
    with opened(project) as table:
        before = table.current_snapshot()
        with table.transaction() as transaction:
            transaction.set_properties({"owner": "someone"})
        table.append(table.scan().to_arrow().slice(0, 0), snapshot_properties={"note": "nothing in it"})
        assert table.current_snapshot() != before
    assert list(batches) == []
    assert project.rows() == AFTER_BOTH


def test_our_last_snapshot_is_kept_from_expiry(project: Project, spark: SparkSession) -> None:
    batches = feed(project)
    next(batches)
    with opened(project) as table:
        ours = table.current_snapshot()
        table.append(table.scan().to_arrow().slice(0, 0))
        table.append(table.scan().to_arrow().slice(0, 0))
    now = spark.sparkContext._gateway.jvm.java.lang.System.currentTimeMillis()
    action(spark, project, "expireSnapshots").expireOlderThan(now).retainLast(1).execute()
    with opened(project) as table:
        assert ours is not None
        assert ours.snapshot_id in {snapshot.snapshot_id for snapshot in table.snapshots()}
        assert len(table.snapshots()) == 2
    assert list(batches) == []
    assert project.rows() == AFTER_BOTH


def test_a_table_that_was_rolled_back_goes_on_from_where_it_is(project: Project) -> None:
    """One batch back: what the companion knows above it was, for all it can tell, left by a crash."""
    batches = feed(project)
    next(batches)
    with opened(project) as table:
        first = table.snapshots()[0].snapshot_id
        with table.manage_snapshots() as manage:
            manage.rollback_to_snapshot(first)
    assert list(batches) == []
    assert project.rows() == AFTER_BOTH


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")  # the other writer's
@pytest.mark.parametrize("has_rows", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_lost_race_is_retried(project: Project, monkeypatch: pytest.MonkeyPatch, has_rows: bool) -> None:
    batches = feed(project)
    next(batches)
    races = []

    class Raced(iceberg.Change):
        def check(self, table_name: str, written: int, removed: int) -> None:
            if len(races) < 2:
                races.append(table_name)
                with opened(project) as table:
                    row = table.scan(row_filter="id = 2").to_arrow()
                    if has_rows:  # the same row, in another file
                        table.overwrite(row, overwrite_filter="id = 2")
                    else:
                        table.append(row.slice(0, 0))
            super().check(table_name, written, removed)

    monkeypatch.setattr(iceberg, "Change", Raced)
    assert list(batches) == []
    assert len(races) == 2
    assert project.rows() == AFTER_BOTH


def test_a_race_that_is_never_won_is_a_clear_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = feed(project)
    next(batches)
    tried = []

    def lose(self: iceberg.IcebergTable, *_: object) -> None:
        tried.append(self.name)
        raise CommitConflict("shop.item: another writer committed", todo="Run again.")

    monkeypatch.setattr(iceberg.IcebergTable, "commit", lose)
    configured = load(project.folder / "lakeward.toml")
    project.put(SECOND, "U,2,y,9.00\n")
    with pytest.raises(CommitConflict):
        apply_changes(Container(configured=configured).job(table=table_name("shop.item")))
    assert len(tried) == ATTEMPTS
    assert project.rows() == [(1, "a", D("1.00")), (2, "x", D("2.00"))]


def test_a_commit_of_unknown_outcome_keeps_its_files(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog took it and its answer was lost: to delete the files would lose the rows."""
    batches = feed(project)
    next(batches)
    commit = iceberg.Change.commit

    def unanswered(self: iceberg.Change, *arguments: object) -> None:
        commit(self, *arguments)  # type: ignore[arg-type]
        raise TimeoutError("read timed out")

    with monkeypatch.context() as patch:
        patch.setattr(iceberg.Change, "commit", unanswered)
        project.put(SECOND, "U,2,y,9.00\n")
        assert "did not say whether the commit was made" in project.fails()
    assert project.run()["shop.item"]["batches"] == []
    assert project.rows() == AFTER_BOTH
