"""Debezium's messages in Avro, in a broker, to a job that decodes whole envelopes and ranks the changes of keys."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, Final

from fastavro import parse_schema, schemaless_writer
from feed import TABLE
from gate import WrongRows, check_equal
from messages import Parsing, changes, events_of
from mirror import fill_settings
from phases import UNCOUNTED, Measured, Say, Size, by_turns, words
from processes import HEAP, Elsewhere
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from sizes import Application

from lakeward.adapters.spark.session.spark_session import Sessions

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
import brokers
import registries

_TOPIC: Final = f"live.{TABLE}"
_SCHEMA_ID: Final = 7
_HEAD: Final = b"\0" + _SCHEMA_ID.to_bytes(4)
"""The bytes before a message: a zero, and the id of its schema."""

_ZONED: Final = {"type": "string", "connect.version": 1, "connect.name": "io.debezium.time.ZonedTimestamp"}
_ROW: Final = {
    **dict.fromkeys(("id", "customer"), "long"),
    **dict.fromkeys(("status", "city", "note"), "string"),
    "quantity": "int",
    "price": "string",
    "discount": "double",
    "is_paid": "boolean",
    "ordered_on": "string",
    "shipped_at": _ZONED,
    "channel": "string",
}
_SOURCE: Final = {
    **dict.fromkeys(("version", "connector", "name"), "string"),
    "ts_ms": "long",
    "snapshot": ["null", "string"],
    "db": "string",
    "sequence": ["null", "string"],
    **dict.fromkeys(("schema", "table"), "string"),
    **{name: ["null", "long"] for name in ("txId", "lsn", "xmin")},
}


def _record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": _TOPIC,
        "fields": [{"name": field, "type": of} for field, of in fields.items()],
    }


_SCHEMA: Final = _record(
    "Envelope",
    {
        "before": ["null", _record("Value", {name: ["null", of] for name, of in _ROW.items()})],
        "after": ["null", f"{_TOPIC}.Value"],
        "source": _record("Source", _SOURCE),
        "op": "string",
        "ts_ms": ["null", "long"],
    },
)
_OF_TABLE: Final = 'lateness = "24h"'
_SETTINGS: Final = """
[pipeline]
name = "benchmark"
[source]
kind = "kafka"
servers = "{servers}"
topics = "live.{{schema}}.{{table}}"
format = "debezium-avro"
decimals = "string"
[source.registry]
url = "{registry}"
"""


class Decoding(Parsing):
    """The naive job of a topic in Avro: `from_avro` with the whole envelope, `row_number` by key, `MERGE`."""

    servers: str
    offset = 0

    def run(self) -> float:
        """Merge what the broker has after the last message so far; return the seconds it took."""
        if not self.offset:
            self.create_empty()
        began = time.perf_counter()
        options = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": _TOPIC,
            "startingOffsets": json.dumps({_TOPIC: {"0": self.offset}}),
        }
        read = self.spark.read.format("kafka").options(**options).load()
        body = from_avro(F.expr(f"substring(value, {len(_HEAD) + 1})"), json.dumps(_SCHEMA))
        self.merge_changes(events_of(read.select(body.alias("message"))))
        seconds = time.perf_counter() - began
        self.offset = read.agg(F.max("offset")).first()[0] + 1
        return seconds


def start(folder: Path, servers: str) -> Decoding:
    """Start Spark with the jars and the settings that lakeward starts it with, and those that read the broker."""
    folder.mkdir(parents=True, exist_ok=True)
    jars = [jar.request for jar in brokers.read_locks() if jar.needed_by in ("spark-kafka", "spark-avro")]
    found = Decoding(Sessions({"iceberg", "sqlite", *jars}, HEAP, folder / "spark.log")(), folder)
    found.servers = servers
    return found


class Draining(Elsewhere):
    """The naive job in a process of its own."""

    def __init__(self, folder: Path, servers: str) -> None:
        super().__init__(partial(start, folder, servers))

    def run(self) -> float:
        """Merge what waits; return the seconds it took."""
        return float(self._ask("run"))


def avro_messages(folder: Path, size: Size, say: Say) -> Iterator[Measured]:
    """The messages of phase 15 in Avro, in one partition of a broker, with their schema in a registry."""
    say(f"phase 18: {size.events:,} messages of Debezium in Avro")
    with (
        tempfile.TemporaryDirectory(prefix="lw") as made,
        brokers.kafka(Path(made)) as broker,
        registries.stub_registry() as registry,
    ):
        registry.put(_SCHEMA_ID, _SCHEMA)
        broker.create(_TOPIC)
        values = {"servers": broker.servers, "registry": registry.url}
        settings = fill_settings(folder / "lakeward", _SETTINGS, HEAP, of_table=_OF_TABLE, **values)
        ways = {"naive": Draining(folder / "naive", broker.servers), "lakeward": Application(settings)}
        try:
            seconds = _measure(ways, size, say, broker)
            check_equal(ways)
        finally:
            for way in ways.values():
                way.pool.shutdown()
    yield Measured(
        what=f"{size.events:,} messages of Debezium in Avro, to from_avro, row_number and MERGE",
        theirs=[times["naive"] for times in seconds],
        ours=[times["lakeward"] for times in seconds],
        bound=size.messages,
    )


def _measure(
    ways: Mapping[str, Draining | Application], size: Size, say: Say, broker: Any
) -> list[Mapping[str, float]]:
    """Return the seconds of each pair: a first part of the messages loads the tables, and a second one warms up."""
    first = size.events // 10
    sent, seconds = _encoded(changes(first, 2 * first + size.pairs * size.events)), []
    for pair in range(-1, size.pairs + 1):
        _send(broker, islice(sent, size.events if pair > 0 else first))
        times = by_turns(ways, lambda _, way: way.run(), turn=pair)
        say(f"  {words(times)}{'' if pair > 0 else UNCOUNTED}")
        seconds += [times] if pair > 0 else []
    return seconds


def _encoded(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield messages in Avro, in Confluent's form."""
    schema = parse_schema(_SCHEMA)
    for line in lines:
        body = BytesIO()
        schemaless_writer(body, schema, json.loads(line))
        yield _HEAD + body.getvalue()


def _send(broker: Any, messages: Iterable[bytes]) -> None:
    producer = broker.producer(**{"linger.ms": 50, "queue.buffering.max.messages": 10_000_000})
    for message in messages:
        producer.produce(_TOPIC, message, partition=0)
        producer.poll(0)
    if producer.flush(60):
        raise WrongRows("messages did not reach the broker")
