"""Defects of published jobs, each on a feed that lakeward applies correctly.

`tests/support/published_jobs.py` has the jobs with their sources. Each test shows
the wrong table of such a job and the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from project import Project
from published_jobs import (
    MERGE,
    Change,
    Job,
    Rows,
    append_then_bookmark,
    commit_for_all,
    merge_by_operation,
    merge_the_newest,
    one_operation_after_another,
    update_what_hashes_differently,
)
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

from lakeward.adapters.memory import Frame, MemorySource, MemoryTable, MemoryTarget
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SourceError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job as Pipeline
from lakeward.core.pipeline.job import no_observer
from lakeward.core.ports import Batch
from lakeward.core.schema import Column, Schema, Type
from lakeward.plugins.testing.player import Crash

NAME = TableName("shop", "customer")
SCHEMA = Schema((Column("id", Type("int")), Column("name", Type("string")), Column("city", Type("string"))))
CUSTOMER = Dimension(name=NAME, schema=SCHEMA, key=("id",))
OPERATIONS = {"I": Operation.INSERT, "U": Operation.UPDATE, "D": Operation.DELETE}
Batches = Sequence[Sequence[Change]]


def published_rows(job: Job, *batches: Sequence[Change]) -> Rows:
    """Return the rows after batches of a published job."""
    rows: Rows = {}
    for batch in batches:
        rows = job(rows, batch)
    return rows


class Lake:
    """A table of lakeward, and a source that delivers batches to it."""

    def __init__(self, dimension: Dimension = CUSTOMER, source: MemorySource | None = None) -> None:
        self.dimension = dimension
        self.source = source or MemorySource()
        self.table = MemoryTable(dimension)

    def deliver(self, *batches: Sequence[Change]) -> Lake:
        for batch in batches:
            order = 1 + len(self.source.tables.get(self.dimension.name, ()))
            self.source.put(self.dimension.name, order, [_event(c, order, n) for n, c in enumerate(batch, 1)])
            self.run()
        return self

    def run(self, crash_before: str = "") -> None:
        opened = MemoryTarget({self.dimension.name: self.table}).open(self.dimension)

        def observe(step: str) -> object:
            if self.table.progress.batch and step == crash_before:
                raise Crash
            return no_observer(step)

        apply_changes(Pipeline(dimension=self.dimension, source=self.source, opened=opened), observe)

    @property
    def rows(self) -> Rows:
        cells = [row.cells for row in self.table.rows.values()]
        return {cell["id"]: (cell["name"], cell["city"]) for cell in cells}


def _event(change: Change, order: int, row: int) -> ChangeEvent:
    return ChangeEvent(
        operation=OPERATIONS[change.op],
        position=Position(1, change.at, order, row),
        key=(change.id,),
        cells={"id": change.id, "name": change.name, "city": change.city},
        time=change.at,
    )


def test_a_delete_of_an_absent_key_is_inserted() -> None:
    """A row that was inserted and deleted between two runs stays for ever."""
    batch = [Change("I", 1, 1, "Ada"), Change("D", 2, 1, "Ada")]
    assert published_rows(merge_the_newest, batch) == {1: ("Ada", None)}
    assert Lake().deliver(batch).rows == {}


def test_an_insert_on_a_present_key_is_ignored() -> None:
    """A row that was deleted and inserted again between two runs keeps its old values."""
    first, second = [Change("I", 1, 1, "Ada")], [Change("D", 2, 1, "Ada"), Change("I", 3, 1, "Bea")]
    assert published_rows(merge_by_operation, first, second) == {1: ("Ada", None)}
    lake = Lake().deliver(first, second)
    assert lake.rows == {1: ("Bea", None)}
    assert lake.table.progress.totals.insert_on_existing == 0, "it was deleted in between"


def test_an_update_of_an_absent_key_is_lost() -> None:
    batch = [Change("U", 1, 1, "Ada")]
    assert published_rows(merge_by_operation, batch) == {}
    lake = Lake().deliver(batch)
    assert lake.rows == {1: ("Ada", None)}
    assert lake.table.progress.totals.update_on_missing == 1, "it is how a gap is learned of"


def test_an_update_and_a_delete_of_one_key_in_one_batch_lose_the_row() -> None:
    first = [Change("I", 1, 1, "Ada")]
    second = [Change("D", 2, 1, "Ada"), Change("I", 3, 1, "Bea"), Change("U", 4, 1, "Cid")]
    assert published_rows(one_operation_after_another, first, second) == {}
    assert Lake().deliver(first, second).rows == {1: ("Cid", None)}


@pytest.mark.parametrize(
    ("before", "after"),
    [(("ab", "c"), ("a", "bc")), (("a", None), (None, "a")), (("", "a"), (None, "a"))],
    ids=["no separator", "moved", "NULL is not ''"],
)
def test_a_row_hash_hides_a_change(before: tuple[str, str], after: tuple[str, str]) -> None:
    batches = [Change("I", 1, 1, *before)], [Change("U", 2, 1, *after)]
    assert published_rows(update_what_hashes_differently, *batches) == {1: before}
    assert Lake().deliver(*batches).rows == {1: after}


@pytest.mark.parametrize("key", [("id",), ()], ids=["with a key", "without a key"])
def test_a_batch_is_applied_twice_after_a_restart(key: tuple[str, ...]) -> None:
    """The process ends between the write and the move of the bookmark."""
    batches = [[Change("I", 1, 1, "Ada")], [Change("I", 2, 2, "Bea")]]
    appended: list[Change] = []
    append_then_bookmark(appended, batches, bookmark=0)
    append_then_bookmark(appended, batches, bookmark=1)
    assert [change.name for change in appended] == ["Ada", "Bea", "Bea"]
    lake = Lake(Dimension(name=NAME, schema=SCHEMA, key=key)).deliver(batches[0])
    lake.source.put(NAME, 2, [_event(batches[1][0], 2, 1)])
    with pytest.raises(Crash):
        lake.run(crash_before="acknowledge")
    assert lake.table.progress.batch == 2, "the rows are written"
    lake.run()
    assert [row.cells["name"] for row in lake.table.rows.values()] == ["Ada", "Bea"]
    assert lake.table.progress.totals.read == 2


class Failing(MemorySource):
    """A source that cannot be read while `fails` is set."""

    fails = True

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Frame]:
        if self.fails:
            raise SourceError("the folder cannot be read")
        return MemorySource.read(self, dimension, selection, epoch)


def test_a_failed_table_is_moved_forward_with_the_others() -> None:
    """The unread files are never read."""
    batches = [[Change("I", 1, 1, "Ada")], [Change("I", 2, 2, "Bea")]]
    lakes: dict[str, list[Change]] = {"good": [], "bad": []}

    def bad(_bookmark: int) -> None:
        raise OSError("the folder cannot be read")

    def good_at(name: str, arrived: int) -> Callable[[int], None]:
        return lambda bookmark: append_then_bookmark(lakes[name], batches[:arrived], bookmark)

    bookmark, failed = commit_for_all({"bad": bad, "good": good_at("good", 1)}, 0, 1)
    assert failed == ["bad"]
    commit_for_all({"bad": good_at("bad", 2), "good": good_at("good", 2)}, bookmark, 2)
    assert [change.name for change in lakes["bad"]] == ["Bea"]

    source = Failing()
    lake = Lake(source=source)
    with pytest.raises(SourceError):
        lake.deliver(batches[0])
    source.fails = False
    assert lake.deliver(batches[1]).rows == {1: ("Ada", None), 2: ("Bea", None)}


TABLE = "published.shop.customer"
TIED = ["U,2026-11-21 10:01:00,1,Bea,", "U,2026-11-21 10:01:00,1,Cid,", "D,2026-11-21 10:01:00,2,Dan,"]


@pytest.mark.spark
def test_ties_break_merge_and_deletes_of_absent_keys_are_inserted(project: Project, spark: SparkSession) -> None:
    """Two updates of a row in one transaction have one commit time, and the published MERGE fails on each try."""
    for name, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": str(project.folder / "published"),
    }.items():
        spark.conf.set(f"spark.sql.catalog.published{name}", value)
    spark.sql(f"CREATE TABLE {TABLE} (id int, name string, at string) USING iceberg")
    spark.sql(f"INSERT INTO {TABLE} VALUES (1, 'Ada', '2026-11-21 10:00:00')")
    columns = ("Op", "at", "id", "name")
    batch = [(op, at, int(key), name) for op, at, key, name, _ in (line.split(",") for line in TIED)]
    spark.createDataFrame(batch, columns).createOrReplaceTempView("tied")
    with pytest.raises(SparkRuntimeException, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql(MERGE.format(table=TABLE, batch="tied"))
    spark.createDataFrame(batch[1:], columns).createOrReplaceTempView("untied")
    spark.sql(MERGE.format(table=TABLE, batch="untied"))
    assert sorted(to_arrow(spark.table(TABLE).select("id", "name")).to_pylist(), key=str) == [
        {"id": 1, "name": "Cid"},
        {"id": 2, "name": "Dan"},
    ]

    columns_of = 'key = ["id"]\ncolumns = { id = "int", name = "string", city = "string" }'
    project.configure(f'[tables."shop.customer"]\n{columns_of}\n', 'timestamp_column = "at"')
    project.put("20261121-100000000.csv", "I,2026-11-21 10:00:00,1,Ada,\n", "shop/customer")
    project.put("20261121-100100000.csv", "".join(f"{line}\n" for line in TIED), "shop/customer")
    counts = project.run()["shop.customer"]["counts"]
    assert counts["ties"] == 1
    assert project.rows("customer", columns=("id", "name")) == [(1, "Cid")]
