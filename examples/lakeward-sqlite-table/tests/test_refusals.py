"""Columns that a table in SQLite refuses, and concurrent writers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lakeward_sqlite_table import SqliteTarget

from lakeward.adapters.memory import MemorySource
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.merge.fold import Row
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job, PreparedBatch
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.schema_changes.evolution import Policies, Policy

NAME = TableName("shop", "orders")


def orders(**columns: str) -> Dimension:
    schema = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in columns.items()))
    return Dimension(name=NAME, schema=schema, key=("id",))


ORDERS = orders(id="bigint", state="string")


def event(at: int, key: int = 1) -> ChangeEvent:
    cells = {"id": key, "state": f"at {at}"}
    return ChangeEvent(
        operation=Operation.UPDATE, position=Position(1, at, at, key), key=(key,), cells=cells, time=at
    )


def job(lake: SqliteTarget, *objects: Sequence[ChangeEvent], dimension: Dimension = ORDERS) -> Job[Any]:
    """Return a job whose source has these objects."""
    source = MemorySource()
    for order, items in enumerate(objects, start=1):
        source.put(NAME, order, items)
    return Job(dimension=dimension, source=source, opened=lake.open(dimension))


def states(lake: SqliteTarget) -> dict[Key, object]:
    """Read the stored rows as a new process does."""
    table = lake.table(ORDERS)
    table.state()
    rows: dict[Key, Row] = table.rows
    return {key: row.cells["state"] for key, row in rows.items()}


def prepare(job: Job[Any]) -> PreparedBatch[Any]:
    prepared = prepare_next_batch(job)
    assert isinstance(prepared, PreparedBatch)
    return prepared


@pytest.fixture
def lake(tmp_path: Path) -> SqliteTarget:
    return SqliteTarget(tmp_path / "lake.db", now=lambda: 0, synchronous="OFF")


@pytest.mark.parametrize("type_", ["double", "decimal(8,2)", "timestamp", "list<int>"])
def test_a_type_that_sqlite_cannot_store_exactly_is_refused_before_anything_is_written(
    lake: SqliteTarget, type_: str
) -> None:
    with pytest.raises(TableError, match="columns that a table in SQLite cannot have") as refused:
        prepare_next_batch(job(lake, [event(1)], dimension=orders(id="bigint", state="string", price=type_)))
    assert refused.value.found is not None
    assert refused.value.found.startswith("price ")
    assert not lake.file.exists()


@pytest.mark.parametrize("name", ["_lakeward_key", "_LAKEWARD_POSITION", "_deleted"])
def test_a_column_of_a_name_that_the_table_has_itself_is_refused(lake: SqliteTarget, name: str) -> None:
    with pytest.raises(TableError, match="with other names than _lakeward_key"):
        prepare_next_batch(job(lake, [event(1)], dimension=orders(id="bigint", **{name: "string"})))


def test_a_table_keeps_the_columns_that_it_has(lake: SqliteTarget) -> None:
    apply_changes(job(lake, [event(1)]))
    more = orders(id="bigint", state="string", note="string")
    with pytest.raises(TableError, match="would get other columns") as refused:
        prepare_next_batch(job(lake, [event(1)], [event(2)], dimension=more))
    assert refused.value.found == "id bigint, state string, note string"
    assert states(lake) == {(1,): "at 1"}


def test_a_table_goes_on_if_a_new_column_is_ignored(lake: SqliteTarget) -> None:
    apply_changes(job(lake, [event(1)]))
    more = orders(id="bigint", state="string", note="string")
    ignoring = replace(more, policies=Policies(add=Policy.IGNORE))
    apply_changes(job(lake, [event(1)], [event(2)], dimension=ignoring))
    assert states(lake) == {(1,): "at 2"}


def test_the_second_of_two_writers_of_a_batch_gets_a_conflict_and_writes_nothing(lake: SqliteTarget) -> None:
    first, second = job(lake, [event(1)]), job(lake, [event(2, key=2)])
    mine, other = prepare(first), prepare(second)
    first.opened.table.commit(mine.plan, mine.resolved, mine.progress)
    before = lake.file.read_bytes()
    with pytest.raises(CommitConflict, match=r"shop\.orders is at batch 1 already"):
        second.opened.table.commit(other.plan, other.resolved, other.progress)
    assert lake.file.read_bytes() == before
    assert states(lake) == {(1,): "at 1"}


def before_the_first(step: str, act: Callable[[], object]) -> Callable[[str], Any]:
    """Return an observer that calls `act` before the first step of a name."""
    rest = [act]

    @contextmanager
    def observe(name: str) -> Iterator[None]:
        if name == step and rest:
            rest.pop()()
        yield

    return observe


def test_a_batch_is_planned_again_after_a_conflict(lake: SqliteTarget) -> None:
    """The other writer applied the first object. It is not applied twice, and nothing is lost."""

    def other() -> None:
        apply_changes(job(lake, [event(1), event(1, key=2)]))

    mine = job(lake, [event(1), event(1, key=2)], [event(2)])
    apply_changes(mine, before_the_first("commit", other))
    assert states(lake) == {(1,): "at 2", (2,): "at 1"}
    assert lake.table_state(ORDERS).progress.batch == 2
    assert lake.table_state(ORDERS).progress.totals.applied == 3


def test_a_process_that_ends_within_the_commit_leaves_the_table_as_it_was(lake: SqliteTarget) -> None:
    apply_changes(job(lake, [event(1)]))
    second = job(lake, [event(1)], [event(2)])
    prepared = prepare(second)
    table = lake.table(ORDERS)

    def interrupted() -> None:
        with table.writing() as database:
            database.execute(f"DELETE FROM {table.name}")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert states(lake) == {(1,): "at 1"}
    second.opened.table.commit(prepared.plan, prepared.resolved, prepared.progress)
    assert states(lake) == {(1,): "at 2"}


def test_a_file_that_is_no_database_stops_the_table(tmp_path: Path) -> None:
    (tmp_path / "lake.db").write_text("no database, but a text that is as long as one" * 9, "utf-8")
    with pytest.raises(TableError, match=r"lake\.db cannot be read or written"):
        SqliteTarget(tmp_path / "lake.db", now=lambda: 0).table_state(ORDERS)


def test_reading_a_missing_table_creates_no_file(lake: SqliteTarget) -> None:
    assert lake.table_state(ORDERS).schema is None
    assert lake.open(ORDERS).quarantine.entries(lake.table_state(ORDERS).progress) == []
    assert not lake.file.exists()


def test_others_read_the_rows_with_sql_alone(lake: SqliteTarget) -> None:
    apply_changes(job(lake, [event(1), event(1, key=2)]))
    with closing(sqlite3.connect(lake.file)) as database:
        rows = database.execute('SELECT id, state FROM "shop.orders" ORDER BY id').fetchall()
    assert rows == [(1, "at 1"), (2, "at 1")]
