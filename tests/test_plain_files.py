"""The source `files`, through commands: rows with operations, and published feeds, also from a broker."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import outside
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brokers import RunningBroker
from case_topics import send_case
from cases import PGBENCH, TICKETING, check, ticketing_tables
from project import Project

pytestmark = pytest.mark.spark

SETTINGS = """
[pipeline]
name = "shop"

[source]
kind = "{kind}"
{source}

[target]
kind = "iceberg"
warehouse = "lake"

{tables}
"""

MAPPED = """
order_by = "changed"
operation = { column = "status", delete = ["D"] }
"""

CUSTOMER = """
[tables."shop.item"]
key = ["id"]
columns = { id = "int", name = "string", price = "decimal(8,2)", changed = "timestamp" }
"""

RECORDS = 'path = "landing"\nfolder = ""\nline = "record"'
TOPICS = 'servers = "{servers}"\ntopics = "src.{{schema}}.{{table}}"'

BEHAVIOURS = {
    "toast": '{ pk = "int", text = "string", not_toast = "int", mandatory_text = "string" }',
    "pk_change": '{ pk = "int", text = "string" }',
    "deletes": '{ pk = "int", text = "string" }',
    "truncated": '{ pk = "int", text = "string" }',
}


def configure(project: Project, tables: str, source: str) -> None:
    source = f'path = "landing"\n{source}'
    text = SETTINGS.format(kind="files", tables=tables, source=source)
    (project.folder / "lakeward.toml").write_text(text, "utf-8")


OfCase: TypeAlias = Callable[..., Path]
"""Configures the messages of a case and its tables, and returns the folder of the case."""


@pytest.fixture(params=["files", pytest.param("kafka", marks=pytest.mark.long)])
def of_case(request: pytest.FixtureRequest, project: Project) -> OfCase:
    """Return a function that makes the messages of a case the files of a project, or sends them to a broker."""

    def deliver(name: str, tables: str, more: str = "") -> Path:
        case = outside.case(name)
        if request.param == "kafka":
            broker: RunningBroker = request.getfixturevalue("kafka_broker")
            send_case(broker, case / "input")
            source = TOPICS.format(servers=broker.servers)
        else:
            (project.folder / "landing").rmdir()
            (project.folder / "landing").symlink_to(case / "input")
            source = RECORDS
        of_messages = f'{source}\nformat = "debezium"\n{more}'
        text = SETTINGS.format(kind=request.param, tables=tables, source=of_messages)
        (project.folder / "lakeward.toml").write_text(text, "utf-8")
        return case

    return deliver


def test_rows_of_csv_and_json_name_their_operation(project: Project) -> None:
    """The newest row is stored in any order of files. Rows that do not fit wait, and nothing is applied twice."""
    configure(project, CUSTOMER, MAPPED)
    day = "2026-11-{:02} 10:00:00"
    head = "id,name,price,changed,status\n"
    project.put("b.csv", head + f"1,new,2.50,{day.format(9)},U\n2,two,1.00,{day.format(3)},I\n")
    project.put("a.csv", head + f'1,old,1.00,{day.format(8)},I\n3,"th,ree",,{day.format(3)},I\n')
    counts = project.run()["shop.item"]["counts"]
    assert (counts["read"], counts["applied"], counts["superseded"]) == (4, 3, 1)
    line = '{{"status": "{}", "id": {}, "price": {}, "changed": "{}", "name": "{}"}}\n'
    changes = [("D", 2, "null", 4, ""), ("U", 3, "9.99", 2, "late"), ("I", 4, "123456.78", 5, "four")]
    late_and_wrong = [line.format(s, i, p, day.format(d), n) for s, i, p, d, n in changes]
    project.put("c.jsonl", "".join(late_and_wrong) + line.format("U", 5, '"1.239"', day.format(5), "five"))
    counts = project.run(code=3)["shop.item"]["counts"]
    assert (counts["applied"], counts["stale"], counts["quarantined"]) == (2, 1, 1)
    (entry,) = project.entries()
    assert (entry["reason"], entry["row"]) == ("cast", 4)
    rows = project.rows()
    assert [(i, n, None if p is None else str(p)) for i, n, p in rows] == [
        (1, "new", "2.50"),
        (3, "th,ree", None),
        (4, "four", "123456.78"),
    ]
    assert project.run(code=3)["shop.item"]["batches"] == []
    project.put("d.csv", head + f"1,newest,3.50,{day.format(10)},U\n")
    configure(project, CUSTOMER, MAPPED.replace('order_by = "changed"', 'time = "changed"'))
    assert "by `changed`; the settings say the order of files and rows alone" in project.fails()
    configure(project, CUSTOMER, MAPPED)
    assert project.run(code=3)["shop.item"]["counts"]["applied"] == 1


def test_messages_of_dms_are_rows(project: Project) -> None:
    """A load, an insert, an update and a delete. Control messages are skipped, and before images are no columns."""
    columns = '{ id = "int", name = "string", price = "decimal(8,2)" }'
    table = f'[tables."shop.item"]\nkey = ["id"]\ncolumns = {columns}'
    configure(project, table, 'format = "dms-json"\nbefore_image_prefix = "BI_"')
    said = '{"timestamp": "2026-11-21T10:00:00Z", "record-type": "%s", "operation": "%s", "schema-name": "shop"}'
    line = '{{"data": {}, "metadata": {}}}\n'
    sent = [
        ('{"id": 1, "name": "one", "price": 1234.50}', "data", "load"),
        ('{"id": 2, "name": "two"}', "data", "insert"),
        ('{"id": 1, "name": "won", "price": 0.10, "BI_id": 1, "BI_name": "one"}', "data", "update"),
        ('{"id": 2}', "data", "delete"),
        ("null", "control", "create-table"),
    ]
    project.put("a.json", "".join(line.format(data, said % (kind, word)) for data, kind, word in sent))
    counts = project.run()["shop.item"]["counts"]
    assert (counts["read"], counts["skipped"], counts["quarantined"]) == (5, 1, 0)
    assert [(i, n, str(p)) for i, n, p in project.rows()] == [(1, "won", "0.10")]


def test_an_undeclared_column_stops_the_table(project: Project) -> None:
    configure(project, CUSTOMER, MAPPED)
    project.put("a.json", '{"id": 1, "status": "I", "changed": "2026-11-01", "colour": "red"}\n')
    assert "colour" in project.fails()
    configure(project, f'{CUSTOMER}schema = {{ add = "ignore" }}\n', MAPPED)
    project.put("a.json", '{"id": 1, "status": "I", "changed": "2026-11-01", "colour": "red", "NAME": "one"}\n')
    assert "found NAME, and name is declared" in project.fails()


def test_each_file_is_the_whole_table(project: Project) -> None:
    """The first is complete with the next one. Missing rows are deleted, and a small snapshot stops the table."""
    daily = CUSTOMER.replace('key = ["id"]', 'key = ["id"]\nfull_loads = "snapshot"\nload_settles = "1h"')
    configure(project, daily, "")
    project.put("day-9.csv", "id,name,price\n" + "".join(f"{i},n{i},1.00\n" for i in range(1, 5)))
    assert project.run()["shop.item"]["batches"] == []
    project.put("day-10.csv", "id,name,price\n1,n1,1.00\n3,new,2.00\n")
    assert len(project.run()["shop.item"]["batches"]) == 1
    assert [i for i, *_ in project.rows()] == [1, 2, 3, 4]
    project.put("day-11.csv", "id,name,price\n1,n1,1.00\n")
    project.run()
    assert [(i, n) for i, n, _ in project.rows()] == [(1, "n1"), (3, "new")]
    project.put("day-12.csv", "id,name,price\n")
    project.put("day-13.csv", "id,name,price\n1,n1,1.00\n")
    assert "least_share" in project.fails()
    assert [(i, n) for i, n, _ in project.rows()] == [(1, "n1")]


def test_tables_of_one_source_may_be_of_any_form(project: Project) -> None:
    """Options of a table hold for it alone. A key that its form does not use is refused."""
    orders = """
[tables."shop.order"]
key = ["id"]
source = { format = "debezium", types = "schema", folder = "topics/shop.order" }
"""
    configure(project, CUSTOMER + orders, MAPPED)
    fields = [
        {"field": "id", "type": "int64"},
        {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTime"},
    ]
    value = {"after": {"id": 7, "at": 5}, "op": "c", "source": {"schema": "shop", "table": "order", "lsn": 1}}
    line = {"schema": {"fields": [{"field": "after", "fields": fields}]}, "payload": value}
    project.put("a.json", json.dumps(line) + "\n", "topics/shop.order")
    project.put("a.csv", "id,name,price,changed,status\n1,one,1.00,2026-11-01 00:00:00,I\n")
    project.run()
    assert project.rows("order", columns=("id", "at")) == [(7, 5)]
    assert [row[:2] for row in project.rows()] == [(1, "one")]
    configure(project, CUSTOMER + orders.replace('"schema"', '"schema", order_by = "id"'), MAPPED)
    ended = project.call("run", "--once")
    assert ended.code == 1
    assert "order_by" in ended.err + ended.out


def test_dates_that_some_readers_cannot_hold_wait_in_quarantine(project: Project) -> None:
    """In any file format: readers of the tables have the years 1 to 9999."""
    tables = """
[tables."shop.item"]
key = ["id"]
[tables."shop.order"]
key = ["id"]
columns = { id = "int", at = { type = "timestamp_ntz", format = "epoch-micros" }, day = "date" }
source = { format = "debezium", folder = "topics/shop.order" }
"""
    configure(project, tables, "")
    at = [0, 10**18, -(10**17)]
    rows = {"id": pa.array([1, 2, 3], pa.int32()), "at": pa.array(at, pa.timestamp("us"))}
    pq.write_table(pa.table(rows), project.put("a.parquet", b""))
    sent = [(1, 0, 0), (2, 10**18, 0), (3, 0, 30_000_000), (4, 253_402_300_799_999_999, -719_162)]
    project.put(
        "a.json",
        "".join(
            json.dumps({"after": {"id": i, "at": moment, "day": day}, "op": "c", "source": {"lsn": i}}) + "\n"
            for i, moment, day in sent
        ),
        "topics/shop.order",
    )
    project.run(code=3)
    assert [row[0] for row in project.rows(columns=("id", "at"))] == [1]
    assert [row[0] for row in project.rows("order", columns=("id", "at", "day"))] == [1, 4]
    assert [(e["reason"], e["table"], e["row"]) for e in project.entries()] == [
        *[("cast", "shop.item", row) for row in (2, 3)],
        *[("cast", "shop.order", row) for row in (2, 3)],
    ]


def test_texts_that_are_not_utf8_wait_in_quarantine(project: Project) -> None:
    """Otherwise only Spark could read the table. Only an operator knows what they were."""
    configure(project, '[tables."shop.item"]\nkey = ["id"]\n', "")
    raw = pa.array([b"one", b"M\xfcller", b"three"], pa.binary())
    names = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    pq.write_table(pa.table({"id": [1, 2, 3], "name": names}), project.put("a.parquet", b""))
    project.run(code=3)
    assert [row[:2] for row in project.rows(columns=("id", "name"))] == [(1, "one"), (3, "three")]
    (entry,) = project.entries()
    assert (entry["reason"], entry["row"]) == ("cast", 2)
    assert entry["detail"] == "the text is not valid UTF-8 (column name)"
    assert project.call("quarantine", "show", "shop.item", "2").code == 3
    configure(project, '[tables."shop.item"]\nkey = ["id"]\ncolumns = { id = "bigint", name = "string" }\n', "")
    refused = project.call("quarantine", "replay", "shop.item", "2")
    assert (refused.code, "not readable under the current settings" in refused.err) == (1, True), refused
    assert project.call("quarantine", "fix", "shop.item", "2").code == 0
    fix = project.folder / "shop.item.fix.toml"
    unmended = project.call("quarantine", "fix", "shop.item", "--from", str(fix))
    assert (unmended.code, "name still has the bytes of its text" in unmended.err) == (1, True), unmended
    fix.write_text(fix.read_text("utf-8").replace("0x4DFC6C6C6572", "Müller"), "utf-8")
    assert project.call("quarantine", "fix", "shop.item", "--from", str(fix)).code == 0
    assert project.call("quarantine", "replay", "shop.item").code == 0
    assert project.rows(columns=("id", "name")) == [(1, "one"), (2, "Müller"), (3, "three")]


def test_parquet_is_read_as_a_declared_wider_type(project: Project) -> None:
    """A file may have either type, or an untyped NULL. A table does not follow another scale, and reports it."""
    tables = """
[tables."shop.item"]
key = ["id"]
columns = { id = "bigint", price = "decimal(14,4)" }
[tables."shop.order"]
key = ["id"]
"""
    configure(project, tables, "")
    narrow, wide = (pa.int32(), pa.decimal128(10, 2)), (pa.int64(), pa.decimal128(14, 4))

    def deliver(name: str, types: Any, ident: int, price: str, table: str, **more: Any) -> None:
        one = {"id": pa.array([ident], types[0]), "price": pa.array([Decimal(price)], types[1])}
        pq.write_table(pa.table({**one, **more}), project.put(name, b"", table))

    deliver("a.parquet", narrow, 1, "1.25", "shop/item", note=["one"])
    deliver("b.parquet", wide, 2, "1.2345", "shop/item", note=["two"])
    deliver("c.parquet", narrow, 3, "3.50", "shop/item", note=pa.nulls(1))
    deliver("d.parquet", narrow, 2, "9.75", "shop/item", note=pa.nulls(1))
    deliver("a.parquet", narrow, 1, "1.25", "shop/order")
    deliver("b.parquet", (narrow[0], wide[1]), 1, "1.2345", "shop/order")
    error = project.run(code=4)["shop.order"]["error"]
    assert error["found"] == "column price was decimal(10,2) and is decimal(14,4) in b.parquet"
    assert "drop the table with order__changes and order__quarantine" in error["todo"]
    assert [(i, str(p), n) for i, p, n in project.rows(columns=("id", "price", "note"))] == [
        (1, "1.2500", "one"),
        (2, "9.7500", None),
        (3, "3.5000", None),
    ]


def test_the_behaviours_of_a_real_connector_give_the_tables_of_its_database(
    project: Project, of_case: OfCase
) -> None:
    """Unlogged values, a key change, deletes with tombstones, a truncate, and all tables in one file."""
    tables = "\n".join(
        f'[tables."public.{name}"]\nkey = ["pk"]\ncolumns = {columns}' for name, columns in BEHAVIOURS.items()
    )
    case = of_case("dbz-real-behaviours-envelope", tables)
    project.run()
    for name in BEHAVIOURS:
        check(project.folder, "public", name, case / "expected" / f"{name}.csv")


LONG = pytest.mark.skipif(
    "LAKEWARD_LONG" not in os.environ, reason="so many messages for each table; LAKEWARD_LONG is not set"
)


@LONG
@pytest.mark.parametrize("form", ["envelope", "flattened"])
def test_pgbench_equals_its_database(project: Project, of_case: OfCase, form: str) -> None:
    """One hot row, ties of many clients, transactions that commit in another order. The history has no key.

    Flattened messages have only the LSN, which runs backwards if transactions overlap. That is no restart.
    """
    tables = PGBENCH.replace(
        'mtime = "timestamp_ntz"', 'mtime = { type = "timestamp_ntz", format = "epoch-micros" }'
    )
    case = of_case(f"perf-pgbench-debezium-{form}", tables, f'form = "{form}"\n')
    found: dict[str, Any] = project.run()
    assert [table["alarms"] for table in found.values()] == [[]] * len(found)
    assert found["public.pgbench_branches"]["counts"]["quarantined"] == 0
    for table in ("accounts", "branches", "tellers", "history"):
        name = f"pgbench_{table}"
        check(project.folder, "public", name, case / "expected" / f"{name}.csv.gz")


@LONG
@pytest.mark.timeout(7200)
def test_ticketing_equals_its_database(project: Project, of_case: OfCase) -> None:
    """Twelve tables in one file of 435,034 messages, or in topics. Types are those that DMS wrote as Parquet."""
    case = of_case("perf-dms-sample-ticketing-debezium", ticketing_tables(), 'decimals = "string"\n')
    found: dict[str, Any] = project.run()
    assert found["dms_sample.sporting_event_ticket"]["counts"]["read"] == 19_676 + 188_279
    assert sum(table["counts"]["quarantined"] for table in found.values()) == 0
    for name in TICKETING:
        check(project.folder, "dms_sample", name, case / "expected" / f"{name}.csv.gz")
