"""Tables read by MySQL's own driver, in processes of their own. The server is MariaDB.

No server of MySQL is in the packages that tests install. The driver is tested, with its types and values.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import servers
from brokers import RunningBroker
from pyiceberg.catalog import load_catalog

pytestmark = [pytest.mark.spark, pytest.mark.long]

D = Decimal
SETTINGS = """
[pipeline]
name = "shop"

[source]
kind = "jdbc"
url = "{url}"
user = "{user}"
password = {{ env = "DB_PASSWORD" }}
{more}

[[source.drivers]]
coordinates = "com.mysql:mysql-connector-j:9.4.0"
sha256 = "49ed93c8b2bea9cb0929b85a8a28837b191d0f8eac6919fdcef16e36e2cd53b3"

[catalogue]
kind = "jdbc"
url = "{url}"
user = "{user}"
password = {{ env = "DB_PASSWORD" }}

[[catalogue.drivers]]
coordinates = "com.mysql:mysql-connector-j:9.4.0"
sha256 = "49ed93c8b2bea9cb0929b85a8a28837b191d0f8eac6919fdcef16e36e2cd53b3"

[target]
kind = "iceberg"
warehouse = "lake"

{tables}
"""
ITEM = """
    DROP DATABASE IF EXISTS shop; CREATE DATABASE shop CHARACTER SET utf8mb4;
    CREATE TABLE shop.item (
        id bigint unsigned PRIMARY KEY, name varchar(20), price decimal(8,2), at timestamp(6) NULL,
        local datetime(6), born date, raw varbinary(8), ok bit(1), y year, t time, doc longtext, n int unsigned,
        small tinyint(1), mood enum('sad','ok'), tags set('a','b','c'), code char(5), f float, d double);
    SET time_zone = '+00:00';
    INSERT INTO shop.item VALUES
        (18446744073709551615, 'Köln', 1.50, '2026-03-29 01:30:00.123456', '2026-03-29 02:30:00.123456',
         '1582-10-10', x'00ff', b'1', 2026, '-10:11:12', '{"a": 1}', 4294967295, 7, 'ok', 'a,c', 'ab', 0.1, -0.0);
    INSERT INTO shop.item (id) VALUES (2);
    SET sql_mode = '';
    CREATE TABLE shop.zero (id int PRIMARY KEY, born date, local datetime);
    INSERT INTO shop.zero VALUES (1, '0000-00-00', '0000-00-00 00:00:00')"""


@dataclass
class Pipeline:
    """A folder with settings, and the output of commands in it."""

    folder: Path
    server: servers.Server

    def configure(self, tables: str, more: str = "") -> None:
        url = self.server.url.replace("jdbc:mariadb:", "jdbc:mysql:")
        text = SETTINGS.format(url=url, user=self.server.user, tables=tables, more=more)
        (self.folder / "lakeward.toml").write_text(text, "utf-8")

    def call(self, *arguments: str) -> tuple[int, Any]:
        ended = subprocess.run(
            [Path(sys.executable).with_name("lakeward"), *arguments, "--json"],
            cwd=self.folder,
            env={**os.environ, "DB_PASSWORD": self.server.password},
            capture_output=True,
            text=True,
            check=False,
            timeout=800,
        )
        assert ended.stdout, ended.stderr
        assert self.server.password not in ended.stdout + ended.stderr
        return ended.returncode, json.loads(ended.stdout)

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        lake = load_catalog("lake", type="sql", uri=f"sqlite:///{self.folder}/lake/catalog.db")
        found = lake.load_table(f"shop.{table}").scan(selected_fields=columns).to_arrow().to_pylist()
        return sorted((tuple(row[name] for name in columns) for row in found), key=str)


@pytest.fixture
def pipeline(tmp_path: Path, mariadb: servers.Server, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.delenv("LAKEWARD_CONFIG", raising=False)
    mariadb.tell(ITEM)
    return Pipeline(tmp_path, mariadb)


def test_values_are_read_as_they_are_and_compared_with_the_database(pipeline: Pipeline) -> None:
    tables = '[tables."shop.item"]\nfull_loads = "snapshot"\n[tables."shop.zero"]\nfull_loads = "snapshot"\n'
    pipeline.configure(tables)
    code, said = pipeline.call("run", "--once")
    error = {one["table"]: one["error"] for one in said["tables"]}
    assert (code, error["shop.item"]) == (4, None), said
    assert "0000-00-00" in error["shop.zero"]["found"], "no type here has a zero date"
    names = ("id", "name", "price", "at", "local", "born", "raw", "ok", "y", "t", "doc", "n", "small", "mood")
    assert pipeline.rows("item", *names, "tags", "code", "f", "d") == [
        (
            *(D(18446744073709551615), "Köln", D("1.50"), datetime(2026, 3, 29, 1, 30, 0, 123456, UTC)),
            *(datetime(2026, 3, 29, 2, 30, 0, 123456), date(1582, 10, 10), b"\x00\xff", True, 2026, "-10:11:12"),
            *('{"a": 1}', 4294967295, 7, "ok", "a,c", "ab", 0.1, -0.0),
        ),
        (D(2), *(None,) * 17),
    ]
    code, said = pipeline.call("verify", "shop.item", "--against", "source")
    (found,) = said["tables"]
    assert (code, found["source_rows"], found["table_rows"], found["not_compared"]) == (0, 2, 2, {})
    pipeline.server.tell("UPDATE shop.item SET small = 8 WHERE id > 2")
    code, said = pipeline.call("verify", "shop.item", "--against", "source")
    assert [one["kind"] for one in said["tables"][0]["differences"]] == ["changed"]
    pipeline.configure(tables + 'columns = { born = "string", local = "string" }\n')
    assert pipeline.call("run", "--once")[0] == 0
    assert pipeline.rows("zero", "id", "born", "local") == [(1, "0000-00-00", "0000-00-00 00:00:00")]


def test_a_snapshot_continues_with_a_topic(pipeline: Pipeline, kafka_broker: RunningBroker) -> None:
    pipeline.server.tell("CREATE TABLE shop.few (id int PRIMARY KEY, name text)")
    pipeline.server.tell("INSERT INTO shop.few VALUES (1, 'a'), (2, 'b')")
    feed = f'[source.kafka]\nservers = "{kafka_broker.servers}"\ntopics = "mysql.{{schema}}.{{table}}"\n'
    pipeline.configure(feed + '[tables."shop.few"]\n', 'then = "kafka"\n')
    kafka_broker.create("mysql.shop.few")
    assert pipeline.call("run", "--once")[0] == 0
    assert pipeline.rows("few", "id", "name") == [(1, "a"), (2, "b")]
    source = {"db": "shop", "table": "few", "ts_ms": time.time_ns() // 10**6, "file": "binlog.000001"}
    images = {"before": {"id": 2, "name": "b"}, "after": {"id": 2, "name": "new"}}
    message = {"op": "u", **images, "source": {**source, "pos": 4, "row": 0}}
    kafka_broker.send("mysql.shop.few", json.dumps(message).encode(), key=b'{"id":2}', partition=0)
    code, said = pipeline.call("run", "--once")
    assert code == 0, said
    assert pipeline.rows("few", "id", "name") == [(1, "a"), (2, "new")]
