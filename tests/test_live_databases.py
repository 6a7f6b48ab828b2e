"""A database under changes, Debezium, a broker, lakeward: in the end the tables equal the database.

All of them run. The connectors send what they really send: key changes as a delete and an insert with headers,
values that the database did not log, tombstones, markers of transactions, heartbeats.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
import servers
from connect import Connect
from followers import Following
from live_shop import SHOP, ShopWriter
from project import Project
from pyspark.sql import SparkSession
from spark import INTERPRETED, QUICKLY_COMPILED

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
SOURCE = """
servers = "{servers}"
topics = "{prefix}.{{schema}}.{{table}}"
types = "schema"
"""
TABLES = {"shop.customer": ("id", "name", "balance", "note", "vip"), "shop.orders": ("region", "number", "total")}
QUICK = ", ".join(f'"{name}" = "{value}"' for name, value in {**QUICKLY_COMPILED, **INTERPRETED}.items())
PATIENCE = 120
"""Seconds in which what was written must be applied."""


@pytest.fixture
def project(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Project:
    """Return a project whose clock is that of the databases."""
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, capsys)


@contextmanager
def changes(server: servers.Server, shop: ShopWriter) -> Iterator[None]:
    """Change the shop all the time while the context lasts."""
    is_over = threading.Event()

    def go_on() -> None:
        while not is_over.wait(0.3):
            server.tell(shop.draw(3))

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        yield
    finally:
        is_over.set()
        writer.join()


def wait_for_the_last(project: Project, server: servers.Server) -> None:
    """Return once a change of each table is applied that is written now, behind all others."""
    server.tell("INSERT INTO shop.customer (id) VALUES (99); INSERT INTO shop.orders VALUES ('zz', 99, 0)")
    until = time.monotonic() + PATIENCE
    for table, column in (("customer", "id"), ("orders", "number")):
        while (99,) not in project.read(table, "shop", (column,)):
            assert time.monotonic() < until, project.call("status").out
            time.sleep(0.5)


def check(project: Project, server: servers.Server) -> None:
    """Check that all tables equal their source: by `verify`, and by readers that are not lakeward."""
    ended = project.call("verify", "--against", "source", "--json")
    assert ended.code == 0, ended.out + ended.err
    assert [one["table"] for one in ended.document["tables"] if not one["not_compared"]] == [*TABLES]
    for table, columns in TABLES.items():
        told = server.tell(f"SELECT CONCAT_WS('|', {', '.join(columns)}) FROM {table}").splitlines()
        rows = project.read(table.removeprefix("shop."), "shop", columns)
        read = ["|".join(str(one) for one in row if one is not None) for row in rows]
        assert sorted(read) == sorted(told)
    assert project.entries() == []


def test_a_shop_of_postgresql_that_is_followed_and_killed_once(
    project: Project, kafka_connect: Connect, postgresql: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", postgresql.password)
    shop, connector = ShopWriter(Random(1)), kafka_connect.of_postgresql(postgresql, "live")
    postgresql.tell(f"CREATE SCHEMA shop; {SHOP}")
    postgresql.tell("ALTER TABLE shop.customer ALTER COLUMN note SET STORAGE EXTERNAL")
    postgresql.tell(shop.draw(10))
    kafka_connect.start("live", connector)
    source = SOURCE.format(servers=kafka_connect.servers, prefix="live")
    project.configure(SETTINGS.format(server=postgresql, quick=QUICK), source, source_kind="kafka")
    settings = project.folder / "lakeward.toml"
    settings.write_text(settings.read_text("utf-8").replace('name = "shop"', 'name = "shop"\npoll = "1s"', 1))
    started: list[Following] = []

    def follow() -> Following:
        started.append(Following(project.folder, len(started)))
        return started[-1]

    try:
        with changes(postgresql, shop):
            follow().wait_for_a_commit()
            postgresql.tell("ALTER TABLE shop.customer ADD COLUMN vip text DEFAULT 'no'")
            shop.more.append("vip")
            postgresql.tell(shop.draw(20))
            started[0].end(with_java=True)
            postgresql.tell("TRUNCATE shop.orders")
            follow().wait_for_a_commit()
        wait_for_the_last(project, postgresql)
        check(project, postgresql)
    finally:
        for following in started:
            following.clean()
        kafka_connect.stop("live")
