"""A changing database, Debezium, a broker and lakeward: at the end the tables equal the database.

All of them run, so the connectors send what they really send: key changes as a delete and an insert with headers,
values that the database did not log, tombstones, markers of transactions, heartbeats.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias

import boto3
import pytest
import servers
from buckets import Buckets
from connect import Connect, in_avro, in_glue_avro
from followers import Following
from live_shop import SHOP, ShopWriter
from project import Project
from pyspark.sql import SparkSession
from registries import Registry
from spark import QUICK

pytestmark = pytest.mark.spark

SETTINGS = """
[catalogue]
kind = "jdbc"
url = "{server.url}"
user = "{server.user}"
password = {{ env = "DB_PASSWORD" }}

[spark]
master = "local[1]"
settings = {{ {quick} }}

[tables."shop.customer"]
key = ["id"]
lateness = "1h"

[tables."shop.orders"]
key = ["region", "number"]
lateness = "1h"
"""
KEPT = """
[tables."shop.kept"]
reads = "shop.customer"
key = ["id"]
mode = "history"
lateness = "1h"
history = { validity = "time" }
"""
SOURCE = """
servers = "{servers}"
topics = "{prefix}.{{schema}}.{{table}}"
transactions = "{prefix}.transaction"
types = "schema"
"""
THEN_KAFKA = """
url = "{server.url}"
user = "{server.user}"
password = {{ env = "DB_PASSWORD" }}
then = "kafka"

[source.kafka]
"""
TABLES = {"shop.customer": ("id", "name", "balance", "note", "vip"), "shop.orders": ("region", "number", "total")}
ANEW = "DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop;"
ANEW_OF_MARIADB = "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop CHARACTER SET utf8mb4;"
PATIENCE = 300
"""The seconds within which changes must be applied."""
ToSettings: TypeAlias = Callable[..., Mapping[str, str]]
"""Returns the settings of a connector for a server, its name, and further settings."""


@pytest.fixture
def project(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Project:
    """Return a project with the clock of the databases."""
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, capsys, getattr(request, "param", "iceberg"))


def configure(
    project: Project, connect: Connect, server: servers.Server, prefix: str, more: str = "", tables: str = ""
) -> None:
    source = SOURCE.format(servers=connect.servers, prefix=prefix) + more
    project.configure(SETTINGS.format(server=server, quick=QUICK) + tables, source, source_kind="kafka")


def mark_the_end(server: servers.Server) -> int:
    """Change each table once more after all other changes, and return the key of these rows."""
    key = 100 + int(server.tell("SELECT COUNT(*) FROM shop.customer WHERE id >= 100"))
    server.tell(f"INSERT INTO shop.customer (id) VALUES ({key})")
    server.tell(f"INSERT INTO shop.orders (region, number) VALUES ('zz', {key})")
    return key


def has_applied(project: Project, key: int) -> bool:
    """Return True if all tables of the project have a row of that key."""
    lake, settings = project.folder / "lake/shop", (project.folder / "lakeward.toml").read_text("utf-8")
    return all(
        (lake / table).exists() and (key,) in project.read(table, "shop", (column,))
        for table, column in (("customer", "id"), ("orders", "number"), ("kept", "id"))
        if f'[tables."shop.{table}"]' in settings
    )


def wait_for(project: Project, key: int, go_on: Callable[[], object]) -> None:
    """Run until all tables have a row of that key."""
    until = time.monotonic() + PATIENCE
    while not has_applied(project, key):
        assert time.monotonic() < until, project.call("status").out
        go_on()


def check(project: Project, server: servers.Server) -> None:
    """Check that all tables equal their source, by `verify` and by other readers."""
    ended = project.call("verify", "--against", "source", "--json")
    assert ended.code == 0, ended.out + ended.err
    # Debezium sends a time of day as a number, or its settings leave it out.
    assert [[*one["not_compared"]] for one in ended.document["tables"]] == [[], ["due"]]
    assert project.call("status", "--json").document["consistent_as_of"] is not None
    check_rows(project, server)


def check_rows(project: Project, server: servers.Server) -> None:
    """Check by other readers that all mirrors equal their source, and that no row waits."""
    for table, columns in TABLES.items():
        lines = server.tell(f"SELECT CONCAT_WS('|', {', '.join(columns)}) FROM {table}").splitlines()
        rows = project.read(table.removeprefix("shop."), "shop", columns)
        read = ["|".join(str(one) for one in row if one is not None) for row in rows]
        assert sorted(read) == sorted(lines)
    assert project.entries() == []


def check_history(project: Project) -> None:
    """Check that the versions of a customer do not overlap, and that the current ones are the mirror."""
    columns = TABLES["shop.customer"]
    versions: dict[int, list[tuple[datetime, datetime | None]]] = defaultdict(list)
    current = []
    for *cells, is_current, began, ended in project.read(
        "kept", "shop", (*columns, "is_current", "valid_from", "valid_to")
    ):
        versions[cells[0]].append((began, ended))
        assert is_current == (ended is None)
        current += [tuple(cells)] if is_current else []
    assert sorted(current, key=str) == sorted(project.read("customer", "shop", columns), key=str)
    assert max(map(len, versions.values())) > 3, "there is a history to look at"
    for spans in versions.values():
        ordered = sorted(spans, key=lambda span: span[0])
        assert all(ended is None or began < ended for began, ended in ordered)
        assert all(ended is not None and ended <= began for (_, ended), (began, _) in pairwise(ordered))


def follow_and_kill(
    project: Project, connect: Connect, server: servers.Server, name: str, tables: str = "", kills: int = 1
) -> None:
    """Follow a changing shop in PostgreSQL while all processes are killed, until all changes are applied."""
    shop = ShopWriter(Random(1))
    server.tell(f"{ANEW} {SHOP}")
    server.tell("ALTER TABLE shop.customer ALTER COLUMN note SET STORAGE EXTERNAL")
    server.tell(shop.draw(10))
    connect.start(name, connect.of_postgresql(server, name))
    configure(project, connect, server, name, tables=tables)
    settings = project.folder / "lakeward.toml"
    settings.write_text(settings.read_text("utf-8").replace('name = "shop"', 'name = "shop"\npoll = "1s"', 1))
    started: list[Following] = []

    def follow() -> Following:
        started.append(Following(project.folder, len(started)))
        return started[-1]

    try:
        with shop.changes(server.tell, 3, 0.3):
            follow().wait_for_a_commit()
            shop.add_column(server.tell, "vip", 20)
            for number in range(kills):
                started[-1].end(with_java=number % 2 == 0)
                server.tell("TRUNCATE shop.orders")
                follow().wait_for_a_commit()
        wait_for(project, mark_the_end(server), lambda: time.sleep(0.5))
    finally:
        for following in started:
            following.clean()
        connect.stop(name)


def test_a_followed_postgresql_shop_survives_a_kill(
    project: Project, kafka_connect: Connect, postgresql: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", postgresql.password)
    follow_and_kill(project, kafka_connect, postgresql, "live")
    check(project, postgresql)


@pytest.mark.long
@pytest.mark.parametrize(
    "project", ["iceberg", "delta", pytest.param("hudi", marks=pytest.mark.hudi)], indirect=True
)
def test_mirrors_and_a_history_survive_three_kills(
    project: Project, kafka_connect: Connect, postgresql: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", postgresql.password)
    follow_and_kill(project, kafka_connect, postgresql, f"live_{project.kind}", KEPT, kills=3)
    check_rows(project, postgresql)
    check_history(project)


def run_to_the_last(project: Project, server: servers.Server) -> None:
    """Run once all changes are at the broker."""
    wait_for(project, mark_the_end(server), project.run)


def run_in_avro(
    project: Project, connect: Connect, server: servers.Server, name: str, more: dict[str, str], registry: str
) -> None:
    """Run on a shop in MariaDB with a connector that writes Avro, with a new column and an emptied table."""
    shop = ShopWriter(Random(2))
    server.tell(f"{ANEW_OF_MARIADB} {SHOP}")
    server.tell(shop.draw(10))
    connect.start(name, connect.of_mariadb(server, name, **more))
    try:
        avro = f'format = "debezium-avro"\n[source.registry]\n{registry}\n'
        configure(project, connect, server, name, avro)
        run_to_the_last(project, server)
        server.tell(shop.draw(40))
        shop.add_column(server.tell, "vip", 20)
        server.tell("TRUNCATE TABLE shop.orders")
        server.tell(shop.draw(20))
        run_to_the_last(project, server)
    finally:
        connect.stop(name)


def test_a_shop_of_mariadb_in_avro(
    project: Project,
    kafka_connect: Connect,
    mariadb: servers.Server,
    schema_registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DB_PASSWORD", mariadb.password)
    run_in_avro(project, kafka_connect, mariadb, "avro", in_avro(schema_registry), f'url = "{schema_registry.url}"')
    check(project, mariadb)


@pytest.mark.long
def test_a_shop_of_mariadb_in_avro_with_schemas_in_glue(
    project: Project, kafka_connect: Connect, mariadb: servers.Server, s3: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", mariadb.password)
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-test")  # moto finds the service behind the first blank
    boto3.Session().client("glue").create_registry(RegistryName="shop")
    run_in_avro(project, kafka_connect, mariadb, "glue", in_glue_avro(s3.endpoint, "shop"), 'kind = "glue"')
    check(project, mariadb)


def run_behind_a_snapshot(
    project: Project, connect: Connect, server: servers.Server, settings_of: ToSettings, name: str
) -> None:
    """Run on a shop that is older than its connector: a snapshot first, then the messages of the connector."""
    shop = ShopWriter(Random(3))
    server.tell(shop.draw(100))
    no_data = {"snapshot.mode": "no_data", "column.exclude.list": "shop.orders.due"}
    connect.start(name, settings_of(server, name, **no_data))
    source = THEN_KAFKA.format(server=server) + SOURCE.format(servers=connect.servers, prefix=name)
    tables = f'{SETTINGS}source = {{{{ without = ["due"] }}}}\ncatalogue = {{{{ left_out = ["due"] }}}}\n'
    project.configure(tables.format(server=server, quick=QUICK), source, source_kind="jdbc")
    settings = project.folder / "lakeward.toml"
    settings.write_text(settings.read_text("utf-8").replace('path = "landing"\n', ""), "utf-8")
    try:
        assert "is not there, and must be before" in project.fails("shop.customer")
        mark_the_end(server)
        wait_for(project, 100, lambda: project.call("run", "--once"))
        with shop.changes(server.tell, 3, 0.3):
            for _ in range(5):
                project.run()
        server.tell("TRUNCATE TABLE shop.orders")
        server.tell(shop.draw(20))
        run_to_the_last(project, server)
    finally:
        connect.stop(name)


@pytest.mark.long
def test_a_shop_of_postgresql_that_is_older_than_its_connector(
    project: Project, kafka_connect: Connect, postgresql: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", postgresql.password)
    postgresql.tell(f"{ANEW} {SHOP} ALTER TABLE shop.customer ADD COLUMN vip varchar(20)")
    postgresql.tell("ALTER TABLE shop.customer ALTER COLUMN note SET STORAGE EXTERNAL")
    run_behind_a_snapshot(project, kafka_connect, postgresql, kafka_connect.of_postgresql, "behind")
    check(project, postgresql)


@pytest.mark.long
def test_a_shop_of_mariadb_that_is_older_than_its_connector(
    project: Project, kafka_connect: Connect, mariadb: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", mariadb.password)
    mariadb.tell(f"{ANEW_OF_MARIADB} {SHOP} ALTER TABLE shop.customer ADD COLUMN vip varchar(20)")
    run_behind_a_snapshot(project, kafka_connect, mariadb, kafka_connect.of_mariadb, "behind_maria")
    check(project, mariadb)
