"""A backlog of twelve tables in a broker, to a job that parses whole envelopes and ranks the changes of keys."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from gate import WrongRows
from naive import CATALOG, Naive
from phases import Measured, Say, Size
from processes import HEAP, Elsewhere
from pyspark.sql import functions as F
from sizes import Application

from lakeward.adapters.spark.session.spark_session import Sessions
from lakeward.entrypoints.settings.configuration import FILE

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
import brokers
import cases
import outside

_CASE: Final = "perf-dms-sample-ticketing-debezium"
_SCHEMA: Final = "dms_sample"
_SOURCE: Final = (
    "version: string, connector: string, name: string, ts_ms: bigint, snapshot: string, db: string, "
    "sequence: string, ts_us: bigint, ts_ns: bigint, schema: string, `table`: string, txId: bigint, lsn: bigint, "
    "xmin: bigint"
)
_SENT_AS: Final = {"date": "int", "double": "double", **dict.fromkeys(("int", "bigint", "timestamp_ntz"), "bigint")}
"""The types of JSON that Debezium sends columns as; others are texts."""
_SETTINGS: Final = """
[pipeline]
name = "benchmark"
[source]
kind = "kafka"
servers = "{servers}"
topics = "src.{{schema}}.{{table}}"
decimals = "string"
[target]
kind = "iceberg"
warehouse = "lake/"
[spark.settings]
{spark}
{tables}
"""


def ticketing(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """All that a ticketing shop did, from the first offset to the last, into empty tables."""
    case = outside.CASES / _CASE
    if not case.is_dir():
        say(f"phase 17: not measured, {case} is not here")
        return
    with tempfile.TemporaryDirectory(prefix="lw") as made, brokers.kafka(Path(made)) as broker:
        count = _send(broker, case, size.backlog)
        say(f"phase 17: {count:,} messages of {len(cases.TICKETING)} tables in a broker")
        settings = folder / "lakeward" / FILE
        settings.parent.mkdir(parents=True)
        tables = cases.ticketing_tables()
        spark = "\n".join(f'"{name}" = "{value}"' for name, value in HEAP.items())
        settings.write_text(_SETTINGS.format(servers=broker.servers, spark=spark, tables=tables), "utf-8")
        theirs, ours = Draining(folder / "naive", broker.servers), Application(settings)
        try:
            times = {"naive": theirs.run(), "lakeward": ours.run()}
        finally:
            for way in (theirs, ours):
                way.pool.shutdown()
        say("  " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times.items()))
    if size.backlog is None:
        _check(folder, case)
    yield Measured(
        what=f"{count:,} messages of {len(cases.TICKETING)} tables from a broker",
        theirs=[times["naive"]],
        ours=[times["lakeward"]],
        bound=size.drain,
    )


def _send(broker: Any, case: Path, most: int | None) -> int:
    """Send the messages of the case, or so many of them; return how many."""
    for table in cases.TICKETING:
        broker.create(f"src.{_SCHEMA}.{table}")
    producer = broker.producer(**{"linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    count, arrived = 0, list[None]()

    def note(error: object, _message: object) -> None:
        if error is None:
            arrived.append(None)

    with gzip.open(case / "input" / "events.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in islice(lines, most):
            message, count = json.loads(line), count + 1
            key, value = (json.dumps(message[part], separators=(",", ":")) for part in ("key", "value"))
            producer.produce(message["topic"], value, key, partition=0, on_delivery=note)
    producer.flush(60)
    if len(arrived) != count:
        raise WrongRows(f"{count - len(arrived):,} of {count:,} messages did not reach the broker")
    return count


def _check(folder: Path, case: Path) -> None:
    """Raise where lakeward's tables are not those of the database, or the naive ones have not as many rows."""
    for table in cases.TICKETING:
        rows = cases.check(folder / "lakeward", _SCHEMA, table, case / "expected" / f"{table}.csv.gz")
        theirs = outside.by_pyiceberg(folder / "naive", _SCHEMA, table, catalog=CATALOG).num_rows
        if theirs != rows:
            raise WrongRows(f"naive, {table}: {theirs:,} rows, expected {rows:,}")


class Draining(Elsewhere):
    """The naive job in a process of its own."""

    def __init__(self, folder: Path, servers: str) -> None:
        super().__init__(partial(start, folder, servers))

    def run(self) -> float:
        """Merge what the broker has of all tables; return the seconds it took."""
        return float(self._ask("run"))


class Topics(Naive):
    """The naive job of a broker: of each topic all messages, one table after another."""

    servers: str

    def run(self) -> float:
        """Make each table and merge its topic into it; return the seconds it took."""
        began = time.perf_counter()
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{_SCHEMA}")
        for table, columns in cases.ticketing_columns().items():
            self.drain(table, columns)
        return time.perf_counter() - began

    def drain(self, table: str, columns: dict[str, cases.TicketingColumn]) -> None:
        """Parse the envelopes of a topic, rank the changes of each key, and merge."""
        row = ", ".join(f"{name}: {_SENT_AS.get(column.type, 'string')}" for name, column in columns.items())
        envelope = (
            f"struct<before: struct<{row}>, after: struct<{row}>, source: struct<{_SOURCE}>, op: string, "
            "ts_ms: bigint, ts_us: bigint, ts_ns: bigint>"
        )
        options = {"kafka.bootstrap.servers": self.servers, "subscribe": f"src.{_SCHEMA}.{table}"}
        read = self.spark.read.format("kafka").options(**options, startingOffsets="earliest").load()
        parsed = read.select("offset", F.from_json(F.col("value").cast("string"), envelope).alias("message"))
        cells = F.coalesce("message.after", "message.before")
        parsed.select(
            "offset",
            F.col("message.op").alias("op"),
            F.col("message.source.lsn").alias("lsn"),
            *(_typed(cells[name], column).alias(name) for name, column in columns.items()),
        ).createOrReplaceTempView("changes")
        key, name = cases.TICKETING[table] or [*columns], f"{CATALOG}.{_SCHEMA}.{table}"
        typed = ", ".join(f"{column} {type_}" for column, (type_, _) in columns.items())
        self.spark.sql(f"CREATE TABLE {name} ({typed}) USING iceberg")
        newest = f"row_number() OVER (PARTITION BY {', '.join(key)} ORDER BY lsn DESC, offset DESC) = 1"
        joined = " AND ".join(f"t.{column} <=> s.{column}" for column in key)
        updates = ", ".join(f"{column} = s.{column}" for column in columns)
        names, values = ", ".join(columns), ", ".join(f"s.{column}" for column in columns)
        self.spark.sql(
            f"""
            MERGE INTO {name} t
            USING (SELECT * FROM (SELECT *, {newest} AS is_newest FROM changes) WHERE is_newest) s
            ON {joined}
            WHEN MATCHED AND s.op = 'd' THEN DELETE
            WHEN MATCHED THEN UPDATE SET {updates}
            WHEN NOT MATCHED AND s.op != 'd' THEN INSERT ({names}) VALUES ({values})
            """
        )


def _typed(cell: Any, column: cases.TicketingColumn) -> Any:
    if column.type == "date":
        return F.date_add(F.lit("1970-01-01"), cell)
    if column.form is None:
        return cell.cast(column.type)
    made = F.timestamp_millis(cell) if column.form == "epoch-millis" else F.timestamp_micros(cell)
    return made.cast("timestamp_ntz")


def start(folder: Path, servers: str) -> Topics:
    """Start Spark with the jars and the settings that lakeward starts it with."""
    folder.mkdir(parents=True, exist_ok=True)
    of_kafka = [jar.request for jar in brokers.read_locks() if jar.needed_by == "spark-kafka"]
    found = Topics(Sessions({"iceberg", "sqlite", *of_kafka}, HEAP, folder / "spark.log")(), folder)
    found.servers = servers
    return found
