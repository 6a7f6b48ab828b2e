"""Published cases as topics: the lines of their files are sent to a broker, and read by the source `kafka`."""

from __future__ import annotations

import gzip
import re
import tempfile
from collections.abc import Collection, Iterator
from functools import partial
from json import JSONDecoder
from pathlib import Path
from typing import Any, Final, NamedTuple

from brokers import RunningBroker
from fake_broker import FakeBroker
from feed_reader import FeedContents, read_whole, session
from pyspark.sql import SparkSession

from lakeward.adapters.sources import kafka
from lakeward.core.dimension import ORDERED, Dimension, TableName
from lakeward.core.events import Sequences
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.plugins import Runtime

_COLON: Final = re.compile(r"\s*:\s*")
_SPACE: Final = re.compile(r"\s*")
_AT_ONCE: Final = 10_000
"""The messages that are sent before the broker must have them all."""


class Message(NamedTuple):
    """A message of a case: its topic, if the case names it, and its key and value as they were sent."""

    topic: str | None
    key: bytes | None
    value: bytes | None


def read_messages(file: Path, line: str = "message") -> Iterator[Message]:
    """Yield the messages of a file: each line is a value, or with `line="record"` an object that has it."""
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        for text in lines:
            if line == "message":
                yield Message(None, None, text.rstrip(b"\n"))
            else:
                parts = _split(text.decode())
                topic = parts.get("topic")
                yield Message(
                    None if topic is None else topic.strip('"'), *map(_bytes, (parts["key"], parts["value"]))
                )


def _split(text: str) -> dict[str, str]:
    """Return the members of a JSON object, unparsed: a parsed number may lose digits."""
    decoder, parts, at = JSONDecoder(), dict[str, str](), text.index("{")
    while text[at] != "}":
        name, at = decoder.raw_decode(text, text.index('"', at))
        start = _skip(_COLON, text, at)
        _, end = decoder.raw_decode(text, start)
        parts[name], at = text[start:end], _skip(_SPACE, text, end)
    return parts


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None
    return match.end()


def _bytes(json: str) -> bytes | None:
    return None if json == "null" else json.encode()


def read_by_broker(
    broker: RunningBroker | FakeBroker,
    spark: SparkSession | None,
    state: Path,
    folder: Path,
    table: str,
    key: Collection[str],
    columns: dict[str, str],
    *,
    names: str = ".*",
    line: str = "message",
    **options: Any,
) -> FeedContents:
    """Send files of a folder to the topic of a table, and read it; `names` is the pattern of their paths."""
    topic = f"cases.{table}"
    broker.create(topic)
    files = [file for file in folder.rglob("*.json*") if re.fullmatch(names, str(file.relative_to(folder)))]
    for file in sorted(files):
        for message in read_messages(file, line):
            broker.send(topic, message.value, key=message.key)
    schema = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in columns.items()))
    dimension = Dimension(
        name=TableName(*table.split(".")),
        schema=schema,
        key=tuple(key),
        lateness=ORDERED,
        sequences=Sequences.PLACES,
    )
    own = Path(tempfile.mkdtemp(dir=state))
    servers = broker.servers if isinstance(broker, RunningBroker) else "h:9092"
    settings = {"servers": servers, "topics": "cases.{schema}.{table}", "formats": {}, **options}
    source = kafka.make_source(settings, Runtime(partial(session, spark), own, state=own))
    if not isinstance(broker, RunningBroker):
        source.landing.broker = broker
    return read_whole(source, dimension)


def send_case(broker: RunningBroker, folder: Path) -> None:
    """Send the records of a case to the topics that it names."""
    (file,) = folder.glob("events.jsonl*")
    producer, topics = broker.producer(**{"linger.ms": 20}), set[str]()
    for number, message in enumerate(read_messages(file, "record"), 1):
        assert message.topic is not None
        if message.topic not in topics:
            broker.create(message.topic)
            topics.add(message.topic)
        producer.produce(message.topic, message.value, message.key, partition=0)
        if number % _AT_ONCE == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0
