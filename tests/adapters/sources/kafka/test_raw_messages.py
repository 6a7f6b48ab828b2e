"""Large batches are staged as they were sent; events of those in Avro are those of lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from avro_messages import ENVELOPE, envelope, framed
from connect_records import to_avro, two_complement
from kafka_feeds import TOPIC, BrokerFeed, feed
from kafka_feeds import message as order_message
from line_feeds import table_of
from registries import StubRegistry, stub_registry

from lakeward.adapters.sources.files.file_columns import File, inspect_file, with_schema
from lakeward.adapters.sources.files.json_lines.messages import fill_versions
from lakeward.adapters.sources.files.local.json_lines import SmallLines, with_flags
from lakeward.adapters.sources.files.local.message_columns.message_form import Lines, LinesNeeded
from lakeward.adapters.sources.files.local.message_columns.reader import MessageBatch
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.kafka.access import RegistryOptions
from lakeward.adapters.sources.kafka.broker import Record, Records
from lakeward.adapters.sources.kafka.registries.avro import AvroMessages
from lakeward.adapters.sources.kafka.registries.confluent import ConfluentRegistry
from lakeward.adapters.sources.kafka.registries.schemas import Framed, SchemaStore
from lakeward.adapters.sources.kafka.staging import raw_messages
from lakeward.adapters.sources.kafka.staging.message_lines import LineWriter, MessageWriter, to_line
from lakeward.adapters.sources.kafka.staging.raw_messages import AVRO_FACTOR, RawWriter, is_raw, read_records
from lakeward.adapters.sources.kafka.staging.staged_messages import StagedMessages
from lakeward.adapters.sources.kafka.topics import TopicPartition
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.core.dimension import ORDERED
from lakeward.core.errors import SourceError, StoreUnreachable
from lakeward.core.ledger.objects import SourceObject

PLACE: Final = TopicPartition("live.shop.item", 0)
ROW_ID, KEY_ID, TEXT_ID = 7, 8, 9


def named(type_: Any, name: str, **more: Any) -> Any:
    return {"type": type_, "connect.version": 1, "connect.name": name, **more}


AVRO: Final[Mapping[str, tuple[str, Any]]] = {
    "id": ("bigint", "long"),
    "part": ("int", "int"),
    "note": ("string", "string"),
    "state": ("string", {"type": "enum", "name": "State", "symbols": ["new", "paid"]}),
    "price": (
        "decimal(10,2)",
        named("bytes", "org.apache.kafka.connect.data.Decimal", scale=2, precision=10) | {"logicalType": "decimal"},
    ),
    "whole": ("decimal(38,10)", "long"),
    "count": ("double", "int"),
    "share": ("double", "double"),
    "rate": ("float", "float"),
    "paid": ("boolean", "boolean"),
    "day": ("date", named("int", "io.debezium.time.Date")),
    "seen": ("timestamp", named("long", "io.debezium.time.MicroTimestamp")),
    "sent": ("timestamp", named("string", "io.debezium.time.ZonedTimestamp")),
    "raw": ("binary", "bytes"),
}
"""The columns of the table: their types there, and in Avro."""

TYPES: Final = {name: type_ for name, (type_, _) in AVRO.items()}
SOURCE: Final = {
    **dict.fromkeys(("version", "connector", "name", "db", "schema", "table"), "string"),
    **dict.fromkeys(("ts_ms", "ts_us", "ts_ns"), "long"),
    **{name: ["null", "string"] for name in ("snapshot", "sequence")},
    **{name: ["null", "long"] for name in ("txId", "lsn", "xmin")},
}


def record(name: str, types: Mapping[str, Any]) -> dict[str, Any]:
    fields = [{"name": field, "type": type_} for field, type_ in types.items()]
    return {"type": "record", "name": name, "fields": fields}


def envelope_of(row: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    block = record("Block", {"id": "string", "total_order": "long", "data_collection_order": "long"})
    types = {
        "before": ["null", record("Value", {name: ["null", type_] for name, type_ in row.items()})],
        "after": ["null", "Value"],
        "source": record("Source", SOURCE),
        "op": "string",
        "ts_ms": ["null", "long"],
        "transaction": ["null", block],
    }
    return record("Envelope", types | parts)


WIRE: Final = {name: type_ for name, (_, type_) in AVRO.items()}
USUAL: Final = envelope_of(WIRE)
KEYS: Final = record("Key", {"id": "long", "part": "int"})


def row(random: Random, **more: Any) -> dict[str, Any]:
    values = {
        "note": random.choice(["", "a", "Köln", 'say "no"', "two\nlines", "😀 and more than twelve bytes", "\0"]),
        "state": random.choice(["new", "paid"]),
        "price": two_complement(random.randint(-(10**9), 10**9)),
        "whole": random.randint(-(2**40), 2**40),
        "count": random.randint(-9, 9),
        "share": random.choice([0.0, -0.0, 0.1, 1.5e300, random.random()]),
        "rate": random.choice([0.5, -2.5, 0.10000000149011612, 3.4028234663852886e38]),
        "paid": random.choice([True, False]),
        "day": random.choice([0, 20_000, -1]),
        "seen": random.choice([0, 1_767_225_600_123_456, -1]),
        "sent": random.choice(["2026-01-05T01:02:03.000004Z", "2026-01-05T01:02:03Z"]),
        "raw": random.randbytes(random.randint(0, 20)),
    }
    fields = {name: None if random.random() < 0.15 else value for name, value in values.items()}
    return {"id": random.randint(1, 9), "part": random.randint(0, 2), **fields, **more}


def message(random: Random, **more: Any) -> dict[str, Any]:
    op, lsn, time = random.choice("crudu"), random.randint(1, 2**62), random.choice([0, 2**40])
    source = {
        "version": "3.6.3.Final",
        "connector": "postgresql",
        "name": "live",
        "db": "Shop",
        "schema": "shop",
        "table": "item",
        "ts_ms": time,
        "ts_us": time * 1000,
        "ts_ns": time * 10**6,
        "snapshot": random.choice(["true", "false", None]),
        "sequence": random.choice([f'["{lsn - 1}","{lsn}"]', f'[null,"{lsn}"]', None]),
        "txId": random.choice([5, None]),
        "lsn": lsn,
        "xmin": None,
    }
    block = {"id": "752:26711768", "total_order": 1, "data_collection_order": 1}
    return {
        "before": row(random) if op == "d" or (op == "u" and random.random() < 0.5) else None,
        "after": None if op == "d" else row(random),
        "source": source,
        "op": op,
        "ts_ms": random.choice([None, time]),
        "transaction": random.choice([None, block]),
        **more,
    }


@dataclass
class Raw:
    """A table with messages in Avro, which are staged as lines and as they were sent."""

    root: Path
    registry: StubRegistry
    types: str = "declared"
    avro: AvroMessages = field(init=False)

    def __post_init__(self) -> None:
        self.registry.put(ROW_ID, USUAL)
        self.registry.put(KEY_ID, KEYS)
        self.registry.put(TEXT_ID, '"string"')
        url = self.registry.url
        registry = ConfluentRegistry(url, RegistryOptions(url=url), self.root, no_secret, 5)
        self.avro = AvroMessages(SchemaStore(self.root / "schemas", registry))

    def files(self, records: Sequence[Record], *, are_raw: bool) -> tuple[TableFiles, Sequence[File]]:
        root = self.root / ("raw" if are_raw else "lines")
        file = root / "shop" / "item" / f"live.shop.item+0+0000000000-{len(records) - 1:010}+id.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        decode = partial(self.avro.decode, is_flat=False)
        with file.open("wb") as opened:
            writer: MessageWriter = (
                RawWriter(opened, PLACE, AVRO_FACTOR)
                if are_raw
                else LineWriter(
                    opened, PLACE, lambda topic, part, one: to_line(topic, part, decode(one, topic, part))
                )
            )
            for one in records:
                writer.write(Records.of([one]), sys.maxsize)
            writer.finish()
        options = {"format": "debezium", "line": "record", "decimals": "string", "types": self.types}
        types = TYPES if self.types == "declared" else {}
        table = table_of(root, no_spark, "shop.item", types, options, key=("id", "part"), lateness=ORDERED)
        return table, [inspect_file(table, SourceObject(file.name, 1, file.stat().st_size, 1))]

    def of_lines(self, records: Sequence[Record]) -> pa.Table:
        table, files = self.files(records, are_raw=False)
        lines = SmallLines(10**6)
        files = lines.with_versions(table, files, Lines())
        return lines.read(replace(table, dimension=with_schema(table, files)), files)

    def in_columns(self, records: Sequence[Record]) -> pa.Table:
        table, files = self.files(records, are_raw=True)
        form = StagedMessages(self.avro)
        assert not form.are_lines(table, files)
        if self.types == "schema":
            files = fill_versions(table, files, form.versions(table, files) or {}, None)
            table = replace(table, dimension=with_schema(table, files))
        described = form.described(table, files)
        assert described is not None
        return with_flags(table, MessageBatch.of(described, files, form.parts).read())


def no_spark() -> Any:
    raise AssertionError("Spark was asked for")


def no_secret(name: Any) -> Any:
    raise AssertionError(f"{name} is not needed")


def sent(
    value: Any,
    schema: Any = USUAL,
    *,
    id_: int = ROW_ID,
    key: bytes | None = None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    offset: int = 0,
) -> Record:
    data = None if value is None else framed(id_, to_avro(schema, value))
    return Record(offset, 1_767_225_600_123, key, data, headers)


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[Raw]:
    with stub_registry() as registry:
        yield Raw(tmp_path, registry)


@pytest.mark.parametrize("types", ["declared", "schema"])
def test_events_are_those_of_lines(raw: Raw, types: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All types of columns, keys in Avro, tombstones, and several parts of a file."""
    raw.types = types
    monkeypatch.setattr(raw_messages, "_ROWS", 17)
    random = Random(0)
    records = []
    for offset in range(120):
        value = None if random.random() < 0.05 else message(random)
        cells = row(random) if value is None else value["after"] or value["before"]
        key = framed(KEY_ID, to_avro(KEYS, {name: cells[name] for name in ("id", "part")}))
        records.append(sent(value, key=key, offset=offset))
    events = raw.in_columns(records)
    assert events.num_rows == 120
    assert events.equals(raw.of_lines(records))


@pytest.mark.parametrize("keys", [b'{"id":1,"part":2}', None], ids=["JSON", "none"])
def test_keys_may_have_another_form(raw: Raw, keys: bytes | None) -> None:
    random = Random(1)
    records = [sent(message(random), key=keys) for _ in range(20)]
    assert raw.in_columns(records).equals(raw.of_lines(records))


def test_schemas_of_the_same_columns_are_read_together(raw: Raw) -> None:
    """A column that may no longer be NULL, and one that comes first, change the bytes and not the events."""
    other = envelope_of(dict(reversed(WIRE.items())) | {"id": "long"})
    raw.registry.put(11, other)
    random = Random(2)
    records = [
        sent(message(random), other, id_=11) if random.random() < 0.5 else sent(message(random)) for _ in range(60)
    ]
    assert raw.in_columns(records).equals(raw.of_lines(records))


NEW_COLUMN: Final = envelope_of({**WIRE, "colour": "string"})
OTHER_UNIT: Final = envelope_of({**WIRE, "seen": named("long", "io.debezium.time.Timestamp")})
FEWER: Final = envelope_of({name: type_ for name, type_ in WIRE.items() if name != "note"})
OTHER_TYPE: Final = envelope_of({**WIRE, "whole": "double"})
NESTED: Final = envelope_of({**WIRE, "note": {"type": "array", "items": "string"}})
OTHER_SCHEMAS: Final = {12: NEW_COLUMN, 13: FEWER, 14: OTHER_UNIT, 15: OTHER_TYPE, 16: NESTED}
ODD: Final[Mapping[str, Callable[[Random], Record]]] = {
    "a value that is cut off": lambda random: sent(message(random))._replace(
        value=sent(message(random)).value[:-1]
    ),
    "a value that is not Avro": lambda random: sent(None)._replace(value=b'{"op":"c"}'),
    "an unknown byte behind it": lambda random: sent(message(random))._replace(
        value=sent(message(random)).value + b"\0"
    ),
    "another schema with a new column": lambda random: sent(
        message(random, after=row(random, colour="red"), before=None), NEW_COLUMN, id_=12
    ),
    "another schema with a column less": lambda random: sent(message(random), FEWER, id_=13),
    "another schema with another unit": lambda random: sent(message(random), OTHER_UNIT, id_=14),
    "another schema with another type": lambda random: sent(
        message(random, after=row(random, whole=0.5), before=None), OTHER_TYPE, id_=15
    ),
    "another schema with a list": lambda random: sent(
        message(random, after=row(random, note=["a"]), before=None), NESTED, id_=16
    ),
    "no envelope": lambda random: sent({"id": 1, "part": 1}, KEYS, id_=KEY_ID),
    "a number that no double is": lambda random: sent(message(random, after=row(random, share=float("nan")))),
    "a key change": lambda random: sent(message(random), headers=(("__debezium.newkey", b'{"id":1}'),)),
    "a key that is no record": lambda random: sent(message(random), key=framed(TEXT_ID, to_avro("string", "k"))),
    "a key that is text": lambda random: sent(message(random), key=b"k"),
    "another operation": lambda random: sent(message(random, op="t")),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_odd_messages_are_left_to_lines(raw: Raw, odd: Callable[[Random], Record]) -> None:
    for id_, schema in OTHER_SCHEMAS.items():
        raw.registry.put(id_, schema)
    random = Random(3)
    usual = [sent(message(random), key=framed(KEY_ID, to_avro(KEYS, {"id": 1, "part": 1}))) for _ in range(2)]
    records = [usual[0], odd(random), usual[1]]
    assert raw.in_columns(usual).num_rows == 2
    with pytest.raises(SparkNeeded):
        raw.in_columns(records)


@pytest.mark.parametrize("id_", OTHER_SCHEMAS)
def test_types_are_taken_from_one_description_alone(raw: Raw, id_: int) -> None:
    """Messages of several descriptions, or without one, are left to lines."""
    raw.types = "schema"
    raw.registry.put(id_, OTHER_SCHEMAS[id_])
    usual = sent(message(Random(6)))
    head = framed(id_, b"")
    for other in (usual._replace(value=head + (usual.value or b"")[5:]), usual._replace(value=b"no Avro")):
        with pytest.raises(LinesNeeded):
            raw.in_columns([usual, other])


def test_messages_are_read_back_as_they_were_sent(raw: Raw) -> None:
    random = Random(4)
    headers = (("trace", b"\xff"), ("trace", None))
    records = [
        sent(message(random), headers=headers, offset=5),
        sent(None, key=b"k"),
        Record(9, None, None, b"\xff"),
    ]
    _, (file,) = raw.files(records, are_raw=True)
    assert [*chain.from_iterable(read_records(raw.root / "raw/shop/item" / file.item.name))] == records


# The source.


@dataclass
class Topic:
    """A topic in Avro or JSON. Batches of more than `small_batch` messages are large."""

    feed: BrokerFeed
    registry: StubRegistry
    is_avro: bool
    small_batch: int = 10
    sent: int = 0

    def message(self, number: int) -> bytes:
        return framed(7, envelope(number)) if self.is_avro else order_message(number)

    def send(self, count: int) -> None:
        for _ in range(count):
            self.feed.broker.send(TOPIC, self.message(self.sent))
            self.sent += 1

    def open(self, **options: Any) -> Any:
        source = replace(self.feed, options={**self.feed.options, **options}).open()
        source.files.small_batch = self.small_batch
        return source

    def staged(self) -> Sequence[Path]:
        return [file for file in sorted(self.feed.staged.rglob("*.json")) if file.name[0] != "_"]

    def events(self, source: Any) -> pa.Table:
        batch = source.read(self.feed.dimension(source), self.feed.take(source), 1)
        assert isinstance(batch.frame, LocalFrame)
        return batch.frame.rows


@contextmanager
def topic_in(folder: Path, *, is_avro: bool) -> Iterator[Topic]:
    with stub_registry() as registry:
        registry.put(7, ENVELOPE)
        options = {"format": "debezium-avro", "registry": {"url": registry.url}} if is_avro else {}
        yield Topic(feed(folder, **options), registry, is_avro)


@pytest.fixture(params=[True, False], ids=["Avro", "JSON"])
def topic(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Topic]:
    with topic_in(tmp_path, is_avro=request.param) as topic:
        yield topic


@pytest.fixture
def avro_topic(tmp_path: Path) -> Iterator[Topic]:
    with topic_in(tmp_path, is_avro=True) as topic:
        yield topic


def test_large_batches_land_as_they_were_sent(topic: Topic) -> None:
    topic.send(11)
    source = topic.open()
    events = topic.events(source)
    assert [*map(is_raw, topic.staged())] == [True]
    assert events.column("id").to_pylist() == [*range(11)]


def test_json_whose_types_are_in_its_schemas_lands_as_it_was_sent(tmp_path: Path) -> None:
    with topic_in(tmp_path, is_avro=False) as topic:
        topic.send(11)
        topic.feed.take(topic.open(types="schema"))
        assert [*map(is_raw, topic.staged())] == [True]


def test_a_batch_in_json_has_the_bytes_of_its_messages(tmp_path: Path) -> None:
    with topic_in(tmp_path, is_avro=False) as topic:
        topic.send(100)
        size = sum(len(topic.message(number)) for number in range(30))
        topic.feed.take(topic.open(max_bytes=f"{size}B"))
        (name,) = (file.name for file in topic.staged())
        assert "0000000000-0000000029" in name


def test_small_batches_land_as_lines(topic: Topic) -> None:
    """Also where aborted messages make a range of offsets long."""
    topic.send(10)
    topic.feed.broker.abort(TOPIC, messages=20)
    topic.events(topic.open())
    assert [*map(is_raw, topic.staged())] == [False]
    topic.feed.lose_staging()
    topic.send(1)
    topic.feed.take(topic.open(max_messages=10))
    assert [*map(is_raw, topic.staged())] == [False]


@pytest.mark.parametrize("option", [("landing", "kept"), ("form", "flattened")], ids=str)
def test_messages_that_are_not_read_in_columns_land_as_lines(topic: Topic, option: tuple[str, str]) -> None:
    """Those of other forms, and those whose files stay for other programs."""
    topic.send(11)
    topic.feed.take(topic.open(**dict([option])))
    assert [*map(is_raw, topic.staged())] == [False]


def test_compressed_messages_are_left_to_lines(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(5)
    split, usual = ConfluentRegistry.split, [sent(message(random)), sent(message(random))]
    raw.registry.put(11, USUAL)
    packed = usual[0]._replace(value=framed(11, (usual[0].value or b"")[5:]))
    assert raw.in_columns([*usual, packed]).num_rows == 3

    def split_packed(self: ConfluentRegistry, data: bytes) -> Framed | None:
        framed = split(self, data)
        return framed and framed._replace(is_packed=data == packed.value)

    monkeypatch.setattr(ConfluentRegistry, "split", split_packed)
    with pytest.raises(SparkNeeded):
        raw.in_columns([*usual, packed])


def test_the_next_process_asks_for_no_schema_again(avro_topic: Topic) -> None:
    avro_topic.send(11)
    assert avro_topic.events(avro_topic.open()).num_rows == 11
    avro_topic.registry.answers.clear()
    assert avro_topic.events(avro_topic.open()).num_rows == 11
    assert avro_topic.registry.asked == ["7"]


def test_lines_are_made_of_messages_that_are_not_read_in_columns(topic: Topic, tmp_path: Path) -> None:
    """They are those that land where every batch is small, and later batches of the table land as lines at once."""
    topic.send(11)
    topic.feed.broker.send(TOPIC, topic.message(11)[:-1])
    source = topic.open()
    with pytest.raises(AssertionError, match="a small batch needs no Spark"):
        topic.events(source)
    (lines,) = (file.read_bytes() for file in topic.staged())
    topic.feed.lose_staging()
    topic.feed.take(source)
    assert [*map(is_raw, topic.staged())] == [False]
    topic.feed.lose_staging()
    topic.feed.take(replace(topic, small_batch=100).open())
    assert [file.read_bytes() for file in topic.staged()] == [lines]


@pytest.mark.parametrize("change", [{"form": "flattened"}, {"small_batch": 0}], ids=str)
def test_lines_are_made_where_settings_have_changed_since(topic: Topic, change: Mapping[str, Any]) -> None:
    topic.send(11)
    topic.feed.take(topic.open())
    options = {name: value for name, value in change.items() if name != "small_batch"}
    source = replace(topic, small_batch=change.get("small_batch", 10)).open(**options)
    with pytest.raises(AssertionError, match="a small batch needs no Spark"):
        topic.events(source)
    assert [*map(is_raw, topic.staged())] == [False]


def test_a_batch_waits_for_its_schemas(avro_topic: Topic) -> None:
    avro_topic.send(11)
    avro_topic.registry.breaks = 99
    with pytest.raises(StoreUnreachable):
        avro_topic.events(avro_topic.open())
    avro_topic.registry.breaks = 0
    avro_topic.registry.answers.clear()
    with pytest.raises(SourceError, match="partition 0, offset 0"):
        avro_topic.events(avro_topic.open())
    avro_topic.registry.put(7, ENVELOPE)
    assert avro_topic.events(avro_topic.open()).num_rows == 11


def test_a_damaged_file_is_named(topic: Topic) -> None:
    topic.send(11)
    topic.feed.take(topic.open())
    (file,) = topic.staged()
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(SourceError, match="is damaged"):
        topic.events(topic.open())


def test_a_batch_in_avro_has_fewer_bytes(avro_topic: Topic) -> None:
    """Its events take as much memory as those of so many bytes of JSON."""
    avro_topic.send(100)
    size = sum(len(framed(7, envelope(number))) for number in range(30))
    avro_topic.feed.take(avro_topic.open(max_bytes=f"{3 * size}B"))
    (name,) = (file.name for file in avro_topic.staged())
    assert "0000000000-0000000029" in name
