"""Invalid rows of an outbox, and their repair."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lakeward_outbox_source import Outbox, OutboxInventory, OutboxSource
from lakeward_outbox_source.outbox import SCHEMA

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import AlarmRaised, RepairError, SourceError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.selection import Limits, ObjectHistory
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.ports import Entry, RepairedRow
from lakeward.core.schema import Column, Schema, parse_type

TYPES = {"id": "int", "of": "bigint", "price": "double", "state": "string"}
COLUMNS = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in TYPES.items()))
ORDERS = Dimension(name=TableName("shop", "orders"), schema=COLUMNS, key=("id",))
GOOD = {"id": 1, "of": 2, "price": 1.5, "state": "new"}


@pytest.fixture
def source(tmp_path: Path) -> OutboxSource:
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute(SCHEMA)
    return OutboxSource(Outbox(tmp_path / "app.db"), lambda: 2**60, Limits())


def write(source: OutboxSource, row: object, operation: str = "insert", *, number: int = 1) -> None:
    with closing(sqlite3.connect(source.outbox.file)) as database, database:
        text = row if isinstance(row, str) else json.dumps(row)
        values = (1, number, 5, "shop", "orders", operation, text)
        database.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def read(source: OutboxSource, dimension: Dimension = ORDERS) -> Any:
    (item,) = source.read(dimension, source.select_objects(dimension, ObjectHistory()), 1).frame
    return item


def entry(**changes: Any) -> Entry:
    known = Entry(
        key='["1"]',
        reason="cast",
        detail="",
        object="1",
        row=1,
        operation=None,
        epoch=1,
        sequence=0,
        order=1,
        batch=1,
        since=0,
        text="",
        time=5,
    )
    return replace(known, **changes)


@pytest.mark.parametrize(
    ("row", "operation", "reason", "keys"),
    [
        ("{", "insert", Reason.UNREADABLE, ()),
        ("[1]", "insert", Reason.UNREADABLE, ()),
        ({**GOOD, "id": "1"}, "insert", Reason.UNREADABLE, ()),
        ({**GOOD, "id": True}, "delete", Reason.UNREADABLE, ()),
        ({**GOOD, "id": 2**31}, "insert", Reason.UNREADABLE, ()),
        ({**GOOD, "id": None}, "update", Reason.NULL_KEY, ()),
        ({}, "delete", Reason.NULL_KEY, ()),
        (GOOD, "upsert", Reason.OPERATION, ((1,),)),
        ({**GOOD, "of": 2**63}, "insert", Reason.CAST, ((1,),)),
        ({**GOOD, "of": 1.5}, "insert", Reason.CAST, ((1,),)),
        ({**GOOD, "price": "1.5"}, "update", Reason.CAST, ((1,),)),
        ({**GOOD, "state": 7}, "insert", Reason.CAST, ((1,),)),
        ({"id": 1, "of": 2, "price": 1.5}, "update", Reason.CAST, ((1,),)),
    ],
)
def test_a_row_that_does_not_fit_is_a_reject_that_says_why(
    source: OutboxSource, row: object, operation: str, reason: Reason, keys: tuple[tuple[int, ...], ...]
) -> None:
    write(source, row, operation)
    assert read(source) == Reject(Position(1, 0, 1, 1), reason, keys, time=5)


def test_a_row_that_fits_is_an_event_of_its_values(source: OutboxSource) -> None:
    write(source, {**GOOD, "price": None, "more": "is not read"}, "update")
    cells = {**GOOD, "price": None}
    assert read(source) == ChangeEvent(
        operation=Operation.UPDATE, position=Position(1, 0, 1, 1), key=(1,), cells=cells, transaction=1, time=5
    )


def test_a_delete_needs_only_the_key(source: OutboxSource) -> None:
    write(source, {"id": 1}, "delete")
    assert (read(source).operation, read(source).key) == (Operation.DELETE, (1,))


def test_a_table_without_a_key_has_rows_too(source: OutboxSource) -> None:
    write(source, GOOD)
    assert read(source, replace(ORDERS, key=())).cells == GOOD


def test_column_types_without_a_json_value_are_refused(source: OutboxSource) -> None:
    write(source, GOOD)
    dated = replace(ORDERS, schema=Schema((*COLUMNS, Column("day", parse_type("date")))))
    with pytest.raises(SourceError, match=r"shop\.orders has columns that an outbox does not send\nday date"):
        read(source, dated)


@pytest.mark.parametrize("content", [None, b"no database, but a text that is as long as one" * 9, b""])
def test_a_database_without_an_outbox_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "app.db").write_bytes(content)
    with pytest.raises(SourceError, match=r"the outbox in .*app\.db cannot be read"):
        OutboxInventory(Outbox(tmp_path / "app.db")).tables()
    assert (tmp_path / "app.db").exists() == (content is not None)


def test_an_outbox_without_any_applied_transaction_stops_the_table(source: OutboxSource) -> None:
    write(source, GOOD)
    (applied,) = source.select_objects(ORDERS, ObjectHistory()).objects
    with closing(sqlite3.connect(source.outbox.file)) as database, database:
        database.execute("UPDATE outbox SET txn = 0")
    past = ObjectHistory(applied={applied.name: applied}, last_applied=applied.name, start=applied.name)
    with pytest.raises(AlarmRaised, match="none of its files is there any more"):
        source.select_objects(ORDERS, past)


def test_a_row_in_quarantine_is_shown_as_it_was_written(source: OutboxSource) -> None:
    write(source, {"id": 1, "of": "two", "price": None, "more": 1})
    assert source.cells(ORDERS, entry()).after == {"id": "1", "of": "two", "price": None}
    write(source, "{", number=2)
    assert source.cells(ORDERS, entry(row=2)).after == {}


def test_a_repaired_row_is_an_event_and_another_row_is_read_again(source: OutboxSource) -> None:
    write(source, GOOD)
    cells = {"id": "1", "of": "7", "price": "2.5", "state": "paid"}
    repaired = entry(repaired=RepairedRow(operation=Operation.UPDATE, cells=cells))
    event, other = source.repair_row(ORDERS, [repaired, entry()])
    assert isinstance(event, ChangeEvent)
    assert event.cells == {"id": 1, "of": 7, "price": 2.5, "state": "paid"}
    assert other == read(source)
    wrong = RepairedRow(operation=Operation.UPDATE, cells={**cells, "of": "many"})
    with pytest.raises(RepairError, match="'many' is not a bigint"):
        source.repair_row(ORDERS, [entry(repaired=wrong)])


def test_a_row_in_quarantine_that_was_removed_is_named(source: OutboxSource) -> None:
    with pytest.raises(SourceError, match="change 1 of transaction 1 is no longer in the outbox"):
        source.cells(ORDERS, entry())


def test_the_tables_are_those_that_were_changed(source: OutboxSource) -> None:
    write(source, GOOD)
    assert OutboxInventory(source.outbox).tables() == [ORDERS.name]
