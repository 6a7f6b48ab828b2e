"""A shop in PostgreSQL flows through Debezium and a broker into a lake, until Ctrl-C; `make demo-live` runs it.

It starts and ends the servers of the tests, by the same functions. The lake and the settings stay.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import pytest
import servers
from brokers import kafka
from connect import connect
from databases import in_a_folder
from followers import Following
from live_shop import SHOP, ShopWriter

from lakeward.entrypoints.cli import main
from lakeward.entrypoints.demo.lakes import IcebergLake

FOLDER = Path("lakeward-live")
TABLES = ("shop.customer", "shop.orders")
SETTINGS = """
[pipeline]
name = "shop"
poll = "1s"

[source]
kind = "kafka"
servers = "{broker}"
topics = "live.{{schema}}.{{table}}"
format = "debezium"
types = "schema"

[target]
kind = "iceberg"
warehouse = "lake"

[catalogue]
kind = "jdbc"
url = "{database.url}"
user = "{database.user}"
password = {{ env = "DB_PASSWORD" }}

[tables."shop.customer"]
key = ["id"]
lateness = "1h"

[tables."shop.orders"]
key = ["region", "number"]
lateness = "1h"
"""
"""Key changes need a lateness that is a duration."""


@contextmanager
def shop() -> Iterator[servers.Server]:
    """Start PostgreSQL with a shop, a broker and Connect with a connector, and write settings into the folder."""
    with ExitStack() as stack:
        place = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="lakeward", ignore_cleanup_errors=True))
        )
        for name in ("kafka", "connect"):
            (place / name).mkdir()
        say("starting PostgreSQL, a broker, and Kafka Connect with Debezium …")
        database = stack.enter_context(in_a_folder(servers.postgresql))
        broker = stack.enter_context(kafka(place / "kafka"))
        worker = stack.enter_context(connect(place / "connect", broker))
        database.tell(f"CREATE SCHEMA shop; {SHOP}")
        worker.start("live", worker.of_postgresql(database, "live"))
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
        settings = SETTINGS.format(broker=broker.servers, database=database)
        (FOLDER / "lakeward.toml").write_text(settings, "utf-8")
        os.environ["DB_PASSWORD"] = database.password
        yield database


def open_shop(database: servers.Server) -> ShopWriter:
    """Fill the shop, and return the thread that continues to write."""
    writer = ShopWriter(Random(), keys=500)
    for _ in range(20):
        database.tell(writer.draw(50))
    return writer


@contextmanager
def following() -> Iterator[Following]:
    """Run `lakeward run --follow`, and let it finish its batch at the end."""
    process = Following(FOLDER, 0)
    try:
        yield process
        process.process.terminate()
        process.process.wait(60)
    finally:
        process.clean()


def status() -> dict[str, Any]:
    with redirect_stdout(io.StringIO()) as output:
        main(("status", "--json", "--config", str(FOLDER / "lakeward.toml")))
    return {table["table"]: table for table in json.loads(output.getvalue())["tables"]}


def show(database: servers.Server) -> None:
    """Print a line for each table: rows of both sides, waiting events, and the age of the newest change."""
    for name, table in status().items():
        if not table["batch"]:
            say(f"{name:<14} waits for its first batch")
            continue
        rows = int(database.tell(f"SELECT count(*) FROM {name}"))
        waiting = "?" if table["messages_waiting"] is None else f"{table['messages_waiting']:,}"
        say(
            f"{name:<14} {rows:>5,} rows in the database  {table['rows']:>5,} in the lake  "
            f"{waiting:>5} messages wait  lag {table['lag_seconds'] or 0:>4.1f} s  "
            f"batch {table['batch']:>3}  {table['totals']['read']:>7,} messages read"
        )


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


def show_how_to_query(database: servers.Server) -> None:
    key = database.tell("SELECT min(id) FROM shop.customer").strip()
    command = Path(sys.executable).with_name("lakeward")
    print(f"\nWhile it goes on, in another terminal, in {FOLDER.absolute()}:")
    print(f"  {command} status")
    print(f"  {command} explain shop.customer {key}")
    print(f"  DB_PASSWORD='{database.password}' {command} verify --against source --wait 1m")
    lines = IcebergLake(FOLDER / "lake").examples()["PyIceberg (Python)"]
    print("\nAnd at any time, in Python with PyIceberg:", *lines, sep="\n  ")
    print("\nCtrl-C ends all of it.\n", flush=True)


def interrupt(*_: object) -> None:
    """Begin to end. Later signals are ignored."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    raise KeyboardInterrupt


def play() -> None:
    """Start everything, show the tables until an interrupt, and end everything."""
    servers.in_own_sessions = True
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, interrupt)
    try:
        with shop() as database, open_shop(database).changes(database.tell, 10, 0.5), following() as process:
            say("`lakeward run --follow` starts, and with it Spark …")
            try:
                process.wait_for_a_commit()
                show_how_to_query(database)
                while process.process.poll() is None:
                    show(database)
                    time.sleep(3)
                sys.exit(f"lakeward has ended: {process.log.absolute()}")
            except KeyboardInterrupt:
                say("stopping …")
    except KeyboardInterrupt:
        pass
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        sys.exit(str(error))
    say(f"all is stopped; the lake and its settings stay in {FOLDER}")


if __name__ == "__main__":
    play()
