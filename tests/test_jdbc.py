"""Tables of running databases, through the command line, on Spark and Iceberg."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import servers
from brokers import RunningBroker
from law_sets import on_each_line
from project import NOW, Project

from lakeward.adapters.sources.jdbc.database import spark_reader
from lakeward.entrypoints import container

pytestmark = pytest.mark.spark

HOUR = 3_600_000_000
D = Decimal


def configure(project: Project, server: servers.Server, tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write settings with a database as source. The password is in the environment."""
    monkeypatch.setenv("DB_PASSWORD", server.password)
    source = f'url = "{server.url}"\nuser = "{server.user}"\npassword = {{ env = "DB_PASSWORD" }}'
    project.configure(tables, source, source_kind="jdbc")
    file = project.folder / "lakeward.toml"
    file.write_text(file.read_text("utf-8").replace('path = "landing"\n', ""), "utf-8")


def read_rows(project: Project, table: str, *columns: str) -> list[Any]:
    return project.rows(table, columns=columns)


def objects(project: Project, table: str) -> list[Any]:
    return list(project.call("ledger", "list", table, "--json").document["objects"])


ITEM = """
    DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop;
    CREATE TABLE shop.item (
        id bigint PRIMARY KEY, name text, price numeric(8,2), free numeric, at timestamptz, local timestamp,
        born date, raw bytea, ok boolean, d double precision, doc jsonb, u uuid, tags text[], t time, bits bit(3),
        updated_at timestamptz NOT NULL);
    INSERT INTO shop.item VALUES
        (1, 'a', 1.50, 12.500, '2026-03-29 01:30:00.123456+00', '2026-03-29 02:30:00.123456', '1582-10-10',
         '\\x00ff', true, 2.5, '{"a": 1}', '6f9619ff-8b86-d011-b42d-00c04fc964ff', '{x,y}', '10:11:12.5', '101',
         '2026-11-01 10:00:00+00');
    INSERT INTO shop.item (id, updated_at) VALUES (9007199254740993, '2026-11-01 10:00:01+00');
    CREATE TABLE shop."Odd x' é" ("the id" int PRIMARY KEY, "a`b" text);
    INSERT INTO shop."Odd x' é" VALUES (1, 'x''y'), (2, E'two\\nlines'), (3, NULL), (4, '');
"""

TABLES = """
[catalogue]
kind = "jdbc"

[tables."shop.item"]
full_loads = "snapshot"
columns = { free = "decimal(12,4)", doc = "string" }
source = { cursor = "updated_at", every = "7d" }

[tables."shop.Odd x' é"]
key = ["the id"]
mode = "history"
full_loads = "snapshot"
history = { validity = "time" }
"""

VALUES = ("id", "name", "price", "free", "at", "local", "born", "raw", "ok", "d", "doc", "u", "tags", "t", "bits")
FIRST = (
    *(1, "a", D("1.50"), D("12.5000"), datetime(2026, 3, 29, 1, 30, 0, 123456, UTC)),
    *(datetime(2026, 3, 29, 2, 30, 0, 123456), date(1582, 10, 10), b"\x00\xff", True, 2.5),
    *('{"a": 1}', "6f9619ff-8b86-d011-b42d-00c04fc964ff", "{x,y}", "10:11:12.5", "101"),
)


@on_each_line
def test_snapshots_and_changes_of_postgresql(
    project: Project, postgresql: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql.tell(ITEM)
    configure(project, postgresql, TABLES, monkeypatch)
    session = spark_reader._Request.session

    def with_a_commit_in_between(asked: Any, readers: int) -> Any:
        found = session(asked, readers)
        if asked.query.table.name.table == "item":
            assert readers == 2
            postgresql.tell("INSERT INTO shop.item (id, updated_at) VALUES (5, '2026-11-01 10:00:02+00')")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(spark_reader, "LEAST_ROWS", 1)
        patch.setattr(spark_reader._Request, "session", with_a_commit_in_between)
        planned = project.call("plan", "--json")
        assert planned.code == 0, planned.out + planned.err
        counts = {table["table"]: table["counts"]["read"] for table in planned.document["tables"]}
        assert counts == {"shop.item": 2, "shop.Odd x' é": 4}, "all readers see the moment of the first"
    ran = project.run()
    assert [len(ran[name]["batches"]) for name in ("shop.item", "shop.Odd x' é")] == [2, 1]
    assert read_rows(project, "item", *VALUES)[0] == FIRST
    assert [row[0] for row in read_rows(project, "item", "id")] == [1, 5, 9007199254740993]

    postgresql.tell("""
        UPDATE shop.item SET name = 'b', updated_at = '2026-11-02 10:00:00+00' WHERE id = 1;
        DELETE FROM shop."Odd x' é" WHERE "the id" = 2;
        UPDATE shop."Odd x' é" SET "a`b" = 'new' WHERE "the id" = 3""")
    monkeypatch.setattr(container, "clock", lambda: NOW + 13 * HOUR)
    ran = project.run()
    assert [len(ran[name]["batches"]) for name in ("shop.item", "shop.Odd x' é")] == [1, 1]
    assert read_rows(project, "item", "id", "name")[0] == (1, "b")
    history = project.read("Odd x' é", "shop", ("the id", "a`b", "is_current", "valid_to"))
    at = datetime(2026, 12, 1, 13, tzinfo=UTC)
    assert sorted(history, key=str) == sorted(
        [
            (1, "x'y", True, None),
            (2, "two\nlines", False, at),
            (3, None, False, at),
            (3, "new", True, None),
            (4, "", True, None),
        ],
        key=str,
    )
    assert len(project.run()["shop.item"]["batches"]) == 0
    assert "~at~0-" in objects(project, "shop.Odd x' é")[0]["name"]
    assert not list((project.folder / "state" / "staged").rglob("*.parquet")), "what is applied is removed"


def test_an_unreachable_database_and_a_refused_login_are_errors(
    project: Project, postgresql: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "no such word 7Xq"  # noqa: S105  # it is none
    tables = '[tables."shop.item"]\nkey = ["id"]\nfull_loads = "snapshot"\n'
    configure(project, postgresql, tables, monkeypatch)
    monkeypatch.setenv("DB_PASSWORD", secret)
    said = project.call("run", "--once", "--json", "--debug")
    assert said.code == 4, said.out + said.err
    assert "lets nobody in" in said.out
    away = servers.Server(f"jdbc:postgresql://127.0.0.1:{servers.free_port()}/shop", "shop", secret, print)
    configure(project, away, tables, monkeypatch)
    lost = project.call("run", "--once", "--json", "--debug")
    assert lost.code == 75, lost.out + lost.err
    assert "does not answer" in lost.out
    files = [file.read_bytes() for file in project.folder.rglob("*") if file.is_file()]
    assert not any(
        secret.encode() in text for text in (said.out.encode(), said.err.encode(), lost.out.encode(), *files)
    )


@on_each_line
def test_changes_of_mariadb(project: Project, mariadb: servers.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    mariadb.tell("""
        CREATE DATABASE shop;
        CREATE TABLE shop.item (
            id bigint unsigned PRIMARY KEY, name varchar(20), price decimal(8,2), at timestamp(6) NULL,
            local datetime(6), born date, raw varbinary(8), ok bit(1), y year, t time, doc json, u uuid,
            small tinyint(1), mood enum('sad','ok'), tags set('a','b','c'), code char(5), version int NOT NULL);
        SET time_zone = '+00:00';
        INSERT INTO shop.item VALUES
            (18446744073709551615, 'a', 1.50, '2026-03-29 01:30:00.123456', '2026-03-29 02:30:00.123456',
             '1582-10-10', x'00ff', b'1', 2026, '-10:11:12', '{"a": 1}',
             '6f9619ff-8b86-d011-b42d-00c04fc964ff', 7, 'ok', 'a,c', 'ab', 1)""")
    tables = '[tables."shop.item"]\nkey = ["id"]\nsource = { cursor = "version", overlap = 0 }\n'
    configure(project, mariadb, tables, monkeypatch)
    assert len(project.run()["shop.item"]["batches"]) == 1
    names = ("id", "name", "price", "at", "local", "born", "raw", "ok", "y", "t", "doc", "u", "small")
    names += ("mood", "tags", "code")
    assert read_rows(project, "item", *names) == [
        (
            *(D(18446744073709551615), "a", D("1.50"), datetime(2026, 3, 29, 1, 30, 0, 123456, UTC)),
            *(datetime(2026, 3, 29, 2, 30, 0, 123456), date(1582, 10, 10), b"\x00\xff", True, 2026),
            *("-10:11:12", '{"a": 1}', "6f9619ff-8b86-d011-b42d-00c04fc964ff", 7, "ok", "a,c", "ab"),
        )
    ]
    mariadb.tell("INSERT INTO shop.item (id, version) VALUES (2, 2)")
    assert len(project.run()["shop.item"]["batches"]) == 1
    assert [row[0] for row in read_rows(project, "item", "id")] == [D(2), D(18446744073709551615)]
    configure(project, mariadb, tables.replace('"version", overlap = 0', '"at"'), monkeypatch)
    assert "the table goes by `version`; the settings say `at`" in project.fails(), "nothing was asked by it"
    configure(project, mariadb, tables, monkeypatch)
    assert project.run()["shop.item"]["batches"] == []


THEN_KAFKA = """
[source.kafka]
servers = "{servers}"
format = "{form}"
topics = "{form}.{{schema}}.{{table}}"
{more}

[catalogue]
kind = "jdbc"

[tables."shop.item"]
source = {{ partitions = 2 }}

[tables."shop.kept"]
reads = "shop.item"
source = {{ partitions = 2 }}
mode = "history"
history = {{ validity = "time" }}
"""


def as_debezium(row: dict[str, Any], time: datetime, *, is_delete: bool) -> dict[str, Any]:
    lsn = int(time.timestamp())
    source = {"schema": "shop", "table": "item", "ts_ms": lsn * 1000, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
    images = {"before": row, "after": None} if is_delete else {"before": None, "after": row}
    return {"op": "d" if is_delete else "u", **images, "source": source}


def as_dms(row: dict[str, Any], time: datetime, *, is_delete: bool) -> dict[str, Any]:
    said = {"timestamp": time.isoformat(), "record-type": "data", "schema-name": "shop", "table-name": "item"}
    place = {"operation": "delete" if is_delete else "update", "stream-position": str(int(time.timestamp()))}
    return {"data": row, "metadata": {**said, **place}}


FORMS = [
    pytest.param("debezium", 'decimals = "string"', as_debezium, id="debezium"),
    pytest.param("dms-json", "", as_dms, marks=pytest.mark.long, id="dms"),
]


@on_each_line
@pytest.mark.parametrize(("form", "more", "message"), FORMS)
def test_a_snapshot_of_postgresql_continues_with_a_topic(
    project: Project,
    postgresql: servers.Server,
    kafka_broker: RunningBroker,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    more: str,
    message: Callable[..., dict[str, Any]],
) -> None:
    postgresql.tell("""
        DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop;
        CREATE TABLE shop.item (id int PRIMARY KEY, name text, price numeric(8,2));
        INSERT INTO shop.item VALUES (1, 'a', 1.50), (2, 'b', NULL), (3, 'c', 3)""")
    topic = f"{form}.shop.item"
    kafka_broker.create(topic, partitions=2, retention_ms="-1")

    def send(key: int, name: str | None, time: datetime) -> None:
        """Send a change of a row, or without a name a delete; the broker may be past the time of the snapshot."""
        value = message({"id": key, "name": name, "price": "9.10"}, time, is_delete=name is None)
        key_text, millis = b'{"id":%d}' % key, int(before.timestamp()) * 1000
        kafka_broker.send(topic, json.dumps(value).encode(), key=key_text, partition=key % 2, timestamp=millis)

    before, began, behind = (datetime(2026, 11, 30, tzinfo=UTC) + timedelta(days=day) for day in (0, 1, 2))
    send(1, "sent before the snapshot", before)
    feed = THEN_KAFKA.format(servers=kafka_broker.servers, form=form, more=more)
    configure(project, postgresql, feed, monkeypatch)
    file = project.folder / "lakeward.toml"
    text = file.read_text("utf-8").replace('kind = "jdbc"\n', 'kind = "jdbc"\nthen = "kafka"\n', 1)
    file.write_text(text, "utf-8")
    ran = project.run()
    assert {name: (one["counts"]["read"], len(one["batches"])) for name, one in ran.items()} == {
        "shop.item": (3, 1),
        "shop.kept": (3, 1),
    }
    assert project.rows("item") == [(1, "a", D("1.50")), (2, "b", None), (3, "c", D("3.00"))]
    names = [one["name"] for one in objects(project, "shop.item")]
    assert [name.partition("~")[0].partition("+")[0] for name in sorted(names)] == ["20261201000000000", topic]

    # The connector was late: the snapshot has one of its changes already.
    monkeypatch.setattr(container, "clock", lambda: NOW + 25 * HOUR)
    send(2, "in the snapshot, too", before)
    send(3, None, behind)
    send(2, "new", behind)
    waiting = {one["table"]: one["messages_waiting"] for one in project.call("status", "--json").document["tables"]}
    assert waiting == {"shop.item": 3, "shop.kept": 3}
    project.run()
    assert project.rows("item") == [(1, "a", D("1.50")), (2, "new", D("9.10"))]
    kept = project.read("kept", "shop", ("id", "name", "is_current", "valid_from", "valid_to"))
    assert sorted(kept) == [
        (1, "a", True, began, None),
        (2, "in the snapshot, too", False, began, behind),
        (2, "new", True, behind, None),
        (3, "c", False, began, behind),
    ]
    assert not [*(project.folder / "state").rglob("*.parquet"), *(project.folder / "state").rglob("*+*.json")]
    assert "nothing begins it anew while it is there" in project.call("reload", "shop.item", "--yes").err
