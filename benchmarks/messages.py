"""Debezium's messages as JSON lines, to a job that parses the whole envelope and ranks the changes of each key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from feed import OP, TABLE, TIME, TYPES
from gate import check_equal
from mirror import Mirror, fill_settings
from naive import Naive
from phases import UNCOUNTED, Measured, Say, Size, by_turns, words
from processes import HEAP, Elsewhere
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.session.spark_session import Sessions

_TEXTS: Final = {"price", "ordered_on", "shipped_at"}
"""Columns that a message has as text, though they are none."""

_ROW: Final = ", ".join(f"{name}: {'string' if name in _TEXTS else type_}" for name, type_ in TYPES.items())
_SOURCE: Final = (
    "version: string, connector: string, name: string, ts_ms: bigint, snapshot: string, db: string, "
    "sequence: string, schema: string, `table`: string, txId: bigint, lsn: bigint, xmin: bigint"
)
_ENVELOPE: Final = (
    f"before: struct<{_ROW}>, after: struct<{_ROW}>, source: struct<{_SOURCE}>, op: string, ts_ms: bigint"
)
_BEGINS: Final = 1_767_225_600_000
_FILES: Final = 8
_GONE: Final = 0.02
_OF_TABLE: Final = 'lateness = "24h"'
SETTINGS: Final = """
[pipeline]
name = "benchmark"
[source]
kind = "files"
format = "debezium"
decimals = "string"
path = "{landing}"
"""


class Parsing(Naive):
    """The naive job of a topic: `from_json` with the whole envelope, `row_number` by key, `MERGE`."""

    def load(self, files: Sequence[Path]) -> float:
        """Make the table, empty, and merge what is there first."""
        self.create_empty()
        return self.apply(files)

    def create_empty(self) -> None:
        """Make the table without rows."""
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.name.rpartition('.')[0]}")
        columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
        self.spark.sql(f"CREATE TABLE {self.name} ({columns}) USING iceberg")

    def changes(self, file: Path) -> DataFrame:
        """Return the events of a file."""
        lines = self.spark.read.text(f"file://{file}")
        return events_of(lines.select(F.from_json("value", f"struct<{_ENVELOPE}>").alias("message")))


def events_of(messages: DataFrame) -> DataFrame:
    """Return the events of parsed envelopes, which are in the column `message`."""
    row = F.coalesce("message.after", "message.before")
    return messages.select(
        F.when(F.col("message.op") == "d", "D").otherwise("U").alias(OP),
        F.col("message.source.lsn").alias(TIME),
        *(row[name].cast(type_).alias(name) for name, type_ in TYPES.items()),
    )


def start(folder: Path) -> Parsing:
    """Start Spark with the jars and the settings that lakeward starts it with."""
    folder.mkdir(parents=True, exist_ok=True)
    return Parsing(Sessions({"iceberg", "sqlite"}, HEAP, folder / "spark.log")(), folder)


def messages(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """Changes of a tenth as many keys, in a few files: of a kind that a topic's offsets would be."""
    feed, landing = Messages(size.events // 10), folder / "landing" / TABLE.schema / TABLE.table
    landing.mkdir(parents=True)
    say(f"phase 15: {size.events:,} messages of Debezium")
    settings = fill_settings(folder / "lakeward", SETTINGS, HEAP, of_table=_OF_TABLE, landing=folder / "landing")
    ways = {
        "naive": Elsewhere(partial(start, folder / "naive")),
        "lakeward": Elsewhere(partial(Mirror, settings)),
    }
    seconds: list[Mapping[str, float]] = []
    first = feed.write(landing, size.events // 10, 1)
    say(f"  loaded: {words(by_turns(ways, lambda _, way: way.load(first)))}")
    for pair in range(size.pairs + 1):
        files = feed.write(landing, size.events if pair else size.events // 10, _FILES)
        times = by_turns(ways, lambda _, way, f=files: way.apply(f), turn=pair)
        say(f"  {words(times)}{'' if pair else UNCOUNTED}")
        seconds += [times] if pair else []
    check_equal(ways)
    for way in ways.values():
        way.pool.shutdown()
    yield Measured(
        what=f"{size.events:,} messages of Debezium in {_FILES} files, to from_json, row_number and MERGE",
        theirs=[times["naive"] for times in seconds],
        ours=[times["lakeward"] for times in seconds],
        bound=size.messages,
    )


def changes(keys: int, count: int) -> Iterator[bytes]:
    """Return messages of random keys, the first of which is a row."""
    feed = Messages(keys)
    ids, is_gone = feed.random.integers(0, keys, count), feed.random.random(count) < _GONE
    is_gone[0] = False
    return (feed.line(int(key), bool(gone)).encode() for key, gone in zip(ids, is_gone, strict=True))


class Messages:
    """Messages of one topic; the same seed gives the same."""

    def __init__(self, keys: int) -> None:
        self.random, self.keys, self.offset = np.random.default_rng(3), keys, 0

    def write(self, folder: Path, events: int, files: int) -> list[Path]:
        """Write so many changes, in files named as a sink of Kafka names them.

        Of the first file it is a row of each key, later updates and some deletes.
        """
        written, size = [], -(-events // files)
        for start in range(0, events, size):
            first, count = self.offset, min(size, events - start)
            ids = np.arange(count) if first == 0 else self.random.integers(0, self.keys, count)
            is_gone = (self.random.random(count) < _GONE) & (first > 0)
            lines = [self.line(int(key), bool(gone)) for key, gone in zip(ids, is_gone, strict=True)]
            written.append(folder / f"live.{TABLE}+0+{first:010}.json")
            written[-1].write_text("".join(lines), "utf-8")
        return written

    def line(self, key: int, is_gone: bool) -> str:
        """Return the next message, as a line."""
        self.offset += 1
        lsn, time = 20_000_000 + 64 * self.offset, _BEGINS + 2 * self.offset
        row: dict[str, Any] = {
            "id": key,
            "customer": key * 7_919 % 1_000_000,
            "status": "open",
            "city": "Köln",
            "note": f"two words {self.offset}",
            "quantity": self.offset % 100,
            "price": f"{self.offset % 1_000_000 / 100:.2f}",
            "discount": self.offset % 100 / 100,
            "is_paid": self.offset % 2 == 0,
            "ordered_on": f"2026-01-{self.offset % 28 + 1:02}",
            "shipped_at": f"2026-02-{self.offset % 28 + 1:02}T12:00:00Z",
            "channel": "web",
        }
        source = {
            "version": "3.6.3.Final",
            "connector": "postgresql",
            "name": "live",
            "ts_ms": time,
            "snapshot": "false",
            "db": "shop",
            "sequence": json.dumps([str(lsn - 8), str(lsn)]),
            "schema": TABLE.schema,
            "table": TABLE.table,
            "txId": self.offset,
            "lsn": lsn,
            "xmin": None,
        }
        before, after = (row, None) if is_gone else (None, row)
        message = {"before": before, "after": after, "source": source, "op": "d" if is_gone else "u", "ts_ms": time}
        return json.dumps(message, separators=(",", ":")) + "\n"
