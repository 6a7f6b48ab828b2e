"""A snapshot of a database and later messages, staged in a bucket and read by Spark, through commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import servers
from brokers import RunningBroker
from buckets import Buckets
from pyiceberg.catalog import load_catalog

pytestmark = [pytest.mark.spark, pytest.mark.long]

SETTINGS = """
[pipeline]
name = "shop"

[spark]
small_batch = 0

[source]
kind = "jdbc"
url = "{server.url}"
user = "{server.user}"
password = {{ env = "DB_PASSWORD" }}
staging = "s3://{bucket}/staging"
then = "kafka"

[source.kafka]
servers = "{broker.servers}"
topics = "staged.{{schema}}.{{table}}"

[catalogue]
kind = "jdbc"

[target]
kind = "iceberg"
warehouse = "lake"

[tables."shop.item"]
"""


@dataclass
class Pipeline:
    """A folder with settings, and the output of commands in it."""

    folder: Path
    server: servers.Server
    s3: Buckets
    bucket: str

    def run(self) -> set[str]:
        """Run once, and return the sources that wrote below the prefix, which must be empty after it."""
        self.s3.requests.clear()
        ended = subprocess.run(
            [Path(sys.executable).with_name("lakeward"), "run", "--once", "--json"],
            cwd=self.folder,
            env={**os.environ, "DB_PASSWORD": self.server.password},
            capture_output=True,
            text=True,
            check=False,
            timeout=800,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert self.s3.keys(self.bucket) == []
        written = [one.path for one in self.s3.requests if one.method == "PUT"]
        assert all(path.startswith(f"/{self.bucket}/staging/shop/") for path in written)
        return {path.split("/")[4] for path in written}

    def rows(self) -> list[tuple[Any, ...]]:
        lake = load_catalog("lake", type="sql", uri=f"sqlite:///{self.folder}/lake/catalog.db")
        found = lake.load_table("shop.item").scan(selected_fields=("id", "name")).to_arrow().to_pylist()
        return sorted((row["id"], row["name"]) for row in found)


def test_a_snapshot_and_later_messages_are_staged_in_a_bucket(
    tmp_path: Path,
    s3: Buckets,
    mariadb: servers.Server,
    kafka_broker: RunningBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LAKEWARD_CONFIG", raising=False)
    mariadb.tell("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop CHARACTER SET utf8mb4")
    mariadb.tell("CREATE TABLE shop.item (id int PRIMARY KEY, name text)")
    mariadb.tell("INSERT INTO shop.item VALUES (1, 'Köln'), (2, 'b')")
    kafka_broker.create("staged.shop.item")
    pipeline = Pipeline(tmp_path, mariadb, s3, s3.make())
    text = SETTINGS.format(server=mariadb, bucket=pipeline.bucket, broker=kafka_broker)
    (tmp_path / "lakeward.toml").write_text(text, "utf-8")
    assert pipeline.run() == {"jdbc"}
    assert pipeline.rows() == [(1, "Köln"), (2, "b")]
    source = {"db": "shop", "table": "item", "ts_ms": time.time_ns() // 10**6, "file": "binlog.000001", "pos": 4}
    message = {"op": "u", "before": {"id": 2, "name": "b"}, "after": {"id": 2, "name": "new"}, "source": source}
    kafka_broker.send("staged.shop.item", json.dumps(message).encode(), key=b'{"id":2}', partition=0)
    assert pipeline.run() == {"kafka"}
    assert pipeline.rows() == [(1, "Köln"), (2, "new")]
