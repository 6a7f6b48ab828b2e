"""Large batches of staged JSON, with schemas and as it was sent: their events are those of a small batch."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from avro_messages import ENVELOPE, envelope, framed
from envelope_feeds import KEY, TYPES, message
from kafka_feeds import TOPIC, BrokerFeed, feed
from kafka_feeds import message as order_message
from line_feeds import table_of
from registries import stub_registry

from lakeward.adapters.sources.files.file_columns import File, inspect_file, with_schema
from lakeward.adapters.sources.files.local.json_lines import SmallLines, with_flags
from lakeward.adapters.sources.files.local.message_columns.message_form import LinesNeeded
from lakeward.adapters.sources.files.local.message_columns.reader import MessageBatch
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.kafka.broker import Record, Records
from lakeward.adapters.sources.kafka.staging import raw_messages
from lakeward.adapters.sources.kafka.staging.message_lines import LineWriter, MessageWriter
from lakeward.adapters.sources.kafka.staging.raw_messages import JSON_FACTOR, RawWriter
from lakeward.adapters.sources.kafka.staging.staged_messages import StagedMessages
from lakeward.adapters.sources.kafka.topics import TopicPartition
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.core.dimension import ORDERED
from lakeward.core.errors import SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import Schema

MESSAGES: Final = 60
PLACE: Final = TopicPartition("live.shop.item", 0)
KEY_TEXT: Final = b'{"id":1,"part":1}'
NAMED: Final = {
    "seen": "io.debezium.time.MicroTimestamp",
    "wall": "io.debezium.time.MicroTimestamp",
    "day": "io.debezium.time.Date",
}
KINDS: Final = {
    **dict.fromkeys(TYPES, "string"),
    **dict.fromkeys(("id", "seen", "wall"), "int64"),
    **dict.fromkeys(("part", "day"), "int32"),
    **dict.fromkeys(("share", "price", "small"), "double"),
    "rate": "float",
    "paid": "boolean",
    "raw": "bytes",
}


def schema_text(**named: str) -> str:
    """Return the schema of an envelope with the row alone, as Avro lands with it."""
    names = {**NAMED, **named}
    fields = [
        {"type": kind, "optional": True, **({"name": names[name]} if name in names else {}), "field": name}
        for name, kind in KINDS.items()
    ]
    after = {"type": "struct", "fields": fields, "optional": True, "name": "live.Value", "field": "after"}
    return written({"type": "struct", "fields": [after], "optional": False, "name": "live.Envelope"})


def written(of: Any) -> str:
    return json.dumps(of, ensure_ascii=False, separators=(",", ":"))


USUAL: Final = schema_text()


@dataclass(frozen=True)
class Staged:
    """A table of messages. Small batches are of lines, and so are large ones, unless messages stay as sent."""

    root: Path
    are_sent: bool = False

    @property
    def table(self) -> TableFiles:
        return self._table("lines")

    @property
    def sent_table(self) -> TableFiles:
        return self._table("sent")

    def _table(self, form: str) -> TableFiles:
        root = self.root / form
        options = {"format": "debezium", "line": "record", "decimals": "string"}
        return table_of(root, no_spark, "shop.item", TYPES, options, key=KEY, lateness=ORDERED)

    def _path(self, form: str, name: str) -> Path:
        return self.root / form / "shop" / "item" / name

    def file(self, values: Sequence[str | None], order: int = 1) -> File:
        records = [
            Record(place, 1_767_225_600_123, KEY_TEXT, None if value is None else value.encode(), ())
            for place, value in enumerate(values)
        ]
        return self.file_of(records, order)

    def file_of(self, records: Sequence[Record], order: int = 1) -> File:
        """Write a file of lines, and one of messages as they were sent; return the file of lines."""
        name = f"live.shop.item+0+{order:010}-{order + 9:010}+id.json"
        for form, writer_of in (("lines", LineWriter), ("sent", partial(RawWriter, size_factor=JSON_FACTOR))):
            path = self._path(form, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as opened:
                writer: MessageWriter = writer_of(opened, PLACE)
                for record in records:
                    writer.write(Records.of([record]), sys.maxsize)
                writer.finish()
        return self._file("lines", name, order)

    def _file(self, form: str, name: str, order: int) -> File:
        size = self._path(form, name).stat().st_size
        return inspect_file(self._table(form), SourceObject(name, order, size, 1))

    def as_sent(self, file: File) -> File:
        """Return the file with the messages as they were sent, for one of lines."""
        return self._file("sent", file.item.name, file.item.order)

    def small(self, files: Sequence[File]) -> pa.Table:
        return SmallLines(10**6).read(self.table, files)

    def in_columns(self, files: Sequence[File], keeps_text: bool = False) -> pa.Table:
        form, table = StagedMessages(), self.table
        if self.are_sent:
            table, files = self.sent_table, [*map(self.as_sent, files)]
        table = replace(table, dimension=replace(table.dimension, keeps_text=keeps_text))
        assert form.are_lines(table, files) is not self.are_sent
        batch = MessageBatch.of(form.described(table, files) or table, files, form.parts)
        return with_flags(table, batch.read())


def no_spark() -> Any:
    raise AssertionError("Spark was asked for")


@pytest.fixture(params=[False, True], ids=["lines", "as sent"])
def staged(tmp_path: Path, request: pytest.FixtureRequest) -> Staged:
    return Staged(tmp_path, request.param)


def described(body: str, schema: str = USUAL) -> str:
    return f'{{"schema":{schema},"payload":{body}}}'


def is_read_alike(staged: Staged, value: str) -> bool:
    """Return whether a message is read in columns, with the events of a small batch."""
    files = [staged.file([value])]
    try:
        events = staged.in_columns(files)
    except SparkNeeded:
        return False
    assert events.equals(staged.small(files)), value
    return True


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return messages of which each is read in columns, with the events of a small batch."""
    staged, random = Staged(tmp_path_factory.mktemp("bodies")), Random(0)
    messages = [message(random) for _ in range(MESSAGES)]
    return [body for body in messages if is_read_alike(staged, described(body))]


@pytest.fixture(scope="module")
def bare_bodies(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return messages of which each is read so without a schema."""
    staged, random = Staged(tmp_path_factory.mktemp("bare")), Random(0)
    messages = [message(random) for _ in range(6 * MESSAGES)]
    return [body for body in messages if is_read_alike(staged, body)]


def test_events_are_those_of_a_small_batch(staged: Staged, bodies: Sequence[str]) -> None:
    """Each message is read as plain Python reads it, or left to Spark. Then all that are read come together."""
    usual = [described(body) for body in bodies]
    assert len(usual) > MESSAGES / 2
    files = [
        staged.file([*usual[third::3], None], order) for order, third in zip((10, 20, 30), range(3), strict=True)
    ]
    assert staged.in_columns(files).equals(staged.small(files))


def test_units_and_scales_are_those_of_the_schema(staged: Staged, bodies: Sequence[str]) -> None:
    """No setting says that `seen` is in milliseconds, or that `exact` has a scale of 4."""
    body = next(body for body in bodies if '"seen":1767225600000000' in body and '"op":"c"' in body)
    fields = json.loads(schema_text(seen="io.debezium.time.Timestamp"))
    exact = next(field for field in fields["fields"][0]["fields"] if field["field"] == "exact")
    exact |= {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "4"}}
    document = json.loads(body)
    document["after"] |= {"seen": 1_767_225_600_000, "exact": "AQAA"}
    files = [staged.file([described(written(document), written(fields))])]
    events = staged.in_columns(files)
    assert events.equals(staged.small(files))
    (row,) = events.to_pylist()
    assert (row["seen"].year, str(row["exact"])) == (2026, "6.5536000000")


def test_schemas_that_describe_the_same_are_read_together(staged: Staged, bodies: Sequence[str]) -> None:
    """In messages as they were sent, schemas are found as one text."""
    one, other, *_ = bodies
    files = [staged.file([described(one), described(other, USUAL.replace("live.Value", "live.Value2"))])]
    if staged.are_sent:
        with pytest.raises(SparkNeeded, match="several schemas"):
            staged.in_columns(files)
    else:
        assert staged.in_columns(files).equals(staged.small(files))


ODD: Final[Mapping[str, tuple[str, str]]] = {
    "a schema with another unit": (schema_text(seen="io.debezium.time.Timestamp"), "differently"),
    "a schema of no row": ('{"type":"struct","fields":[]}', "no row"),
    "a schema with a blank": (USUAL.replace(":", ": ", 1), "no row"),
    "a schema with a name twice": (USUAL.replace('"optional":false', '"optional":true,"optional":false'), "no row"),
    "a schema with an escape": (USUAL.replace("live.Value", "live.\\u0056alue"), "no row"),
    "a schema that is broken": (USUAL[:-1], "no row"),
}


@pytest.mark.parametrize(("schema", "why"), ODD.values(), ids=ODD)
def test_messages_with_another_schema_are_left_to_spark(
    staged: Staged, bodies: Sequence[str], schema: str, why: str
) -> None:
    one, other, *_ = bodies
    usual, unusual = described(one), described(other, schema)
    with pytest.raises(SparkNeeded, match="several schemas" if staged.are_sent else why):
        staged.in_columns([staged.file([usual, unusual])])
    with pytest.raises(SparkNeeded, match=why):
        staged.in_columns([staged.file([usual]), staged.file([unusual], 10)])


@pytest.mark.parametrize("value", ["bare", "bare}", "no Avro, in hexadecimal: 00", '{"schema":{},"payload":null}'])
def test_messages_without_a_row_are_left_to_spark(staged: Staged, bodies: Sequence[str], value: str) -> None:
    one, other, *_ = bodies
    with pytest.raises(SparkNeeded):
        staged.in_columns([staged.file([described(one), value.replace("bare", other)])])


@pytest.mark.parametrize("end", ["", "x", "}}", ' ,"payload":{}}', "{}}", " }", "null}"])
def test_messages_that_end_otherwise_are_left_to_spark(staged: Staged, bodies: Sequence[str], end: str) -> None:
    value = described(bodies[0])
    with pytest.raises(SparkNeeded):
        staged.in_columns([staged.file([value[:-1] + end])])


def test_tables_are_read_with_schemas_where_these_matter(staged: Staged, bodies: Sequence[str]) -> None:
    """The text of a row for quarantine includes its schema, and so it is read with it."""
    files = [staged.file([described(bodies[0])])]
    table = staged.table
    keeps_text = replace(table, dimension=replace(table.dimension, keeps_text=True))
    by_schema = replace(table, options=table.options.model_copy(update={"types": "schema"}))
    assert StagedMessages().described(keeps_text, files) is None
    assert StagedMessages().described(by_schema, files) is None
    assert StagedMessages().described(table, [staged.file([bodies[0]])]) is None


def test_messages_without_schemas_are_read_as_a_small_batch(
    staged: Staged, bare_bodies: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in several parts of a file."""
    monkeypatch.setattr(raw_messages, "_ROWS", 7)
    assert len(bare_bodies) > MESSAGES / 2
    files = [staged.file([*bare_bodies[::2], None]), staged.file([None, *bare_bodies[1::2]], 10)]
    assert staged.in_columns(files).equals(staged.small(files))


def test_the_texts_of_lines_need_lines(staged: Staged, bare_bodies: Sequence[str]) -> None:
    """A table may keep the text of each line, for rows in quarantine."""
    files = [staged.file([bare_bodies[0]])]
    if staged.are_sent:
        with pytest.raises(SparkNeeded, match="texts of its lines"):
            staged.in_columns(files, keeps_text=True)
    else:
        assert staged.in_columns(files, keeps_text=True).num_rows == 1


UNUSUAL: Final[Mapping[str, Callable[[Record], Record]]] = {
    "bytes that are no UTF-8": lambda sent: sent._replace(value=(sent.value or b"").replace(b"}", b"\xff}", 1)),
    "no JSON": lambda sent: sent._replace(value=b"{"),
    "a text": lambda sent: sent._replace(value=b'"{}"'),
    "NULL": lambda sent: sent._replace(value=b"null"),
    "nothing": lambda sent: sent._replace(value=b""),
    "two objects": lambda sent: sent._replace(value=2 * (sent.value or b"")),
    "two objects in two lines": lambda sent: sent._replace(value=b"\n".join(2 * [sent.value or b""])),
    "a line feed between": lambda sent: sent._replace(value=(sent.value or b"").replace(b',"', b',\n"')),
    "a line feed behind": lambda sent: sent._replace(value=(sent.value or b"") + b"\n"),
    "a schema": lambda sent: sent._replace(value=described((sent.value or b"").decode()).encode()),
    "another part": lambda sent: sent._replace(value=b'{"after":1,' + (sent.value or b"")[1:]),
    "a key change": lambda sent: sent._replace(headers=(("__debezium.newkey", b'{"id":2,"part":1}'),)),
    "another header": lambda sent: sent._replace(headers=(("trace", b"\xff"), ("__debezium", None))),
    "no key": lambda sent: sent._replace(key=None),
    "a key that is no object": lambda sent: sent._replace(key=b"1"),
    "a key that is no UTF-8": lambda sent: sent._replace(key=b"\xff"),
    "a key of other columns": lambda sent: sent._replace(key=b'{"other":1}'),
}


READ_IN_COLUMNS: Final = frozenset({"a line feed between", "another header", "no key"})
"""The unusual messages that are decoded whole. All others are left to lines, or to Spark."""


@pytest.mark.parametrize("name", UNUSUAL)
@pytest.mark.parametrize("place", [0, 1])
def test_unusual_messages_are_read_as_a_small_batch_or_left(
    staged: Staged, bare_bodies: Sequence[str], name: str, place: int
) -> None:
    """The first message of a batch is not trusted more than others."""
    records = [Record(offset, 0, KEY_TEXT, body.encode(), ()) for offset, body in enumerate(bare_bodies[:3])]
    records[place] = UNUSUAL[name](records[place])
    files = [staged.file_of(records)]
    if name in READ_IN_COLUMNS:
        assert staged.in_columns(files).equals(staged.small(files))
    else:
        with pytest.raises(SparkNeeded):
            staged.in_columns(files)


KEY_SCHEMA: Final = '{"type":"struct","fields":[{"type":"int64","field":"id"},{"type":"int32","field":"part"}]}'


def wrapped(key: str = KEY_TEXT.decode(), schema: str = KEY_SCHEMA) -> bytes:
    """Return a key as Kafka Connect writes it by default."""
    return described(key, schema).encode()


def with_keys(staged: Staged, bodies: Sequence[str], keys: Sequence[bytes | None]) -> Sequence[File]:
    pairs = enumerate(zip(bodies, keys, strict=False))
    return [staged.file_of([Record(offset, 0, key, body.encode(), ()) for offset, (body, key) in pairs])]


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(3 * [wrapped()], id="all with a schema"),
        pytest.param([None, wrapped(), wrapped()], id="none"),
        pytest.param(3 * [wrapped(schema=KEY_SCHEMA.replace("}]", ',"name":"Größe"}]'))], id="no ASCII"),
    ],
)
def test_keys_with_a_schema_are_read_as_a_small_batch(
    staged: Staged, bodies: Sequence[str], bare_bodies: Sequence[str], keys: Sequence[bytes | None]
) -> None:
    for values in (bare_bodies, [*map(described, bodies)]):
        files = with_keys(staged, values, keys)
        assert staged.in_columns(files).equals(staged.small(files))


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(wrapped("null"), id="no payload"),
        pytest.param(wrapped("1"), id="no object"),
        pytest.param(wrapped('{"other":1}'), id="other columns"),
        pytest.param(wrapped(2 * KEY_TEXT.decode()), id="two objects"),
        pytest.param(wrapped()[:-1], id="no end"),
        pytest.param(wrapped()[:-1] + b',"more":{}}', id="something behind"),
        pytest.param(wrapped() + b" ", id="a blank behind"),
        pytest.param(wrapped(schema='{"a":1,"payload":{"id":2,"part":2}}'), id="a payload in the schema"),
        pytest.param(wrapped().replace(b'"id":1', b'"id":"\xff"'), id="no UTF-8"),
    ],
)
def test_keys_that_are_wrapped_otherwise_are_left_to_spark(
    staged: Staged, bare_bodies: Sequence[str], key: bytes
) -> None:
    with pytest.raises(SparkNeeded):
        staged.in_columns(with_keys(staged, bare_bodies, 3 * [key]))


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([wrapped(), wrapped(schema='{"type":"struct"}'), KEY_TEXT], id="several schemas"),
        pytest.param([wrapped(), KEY_TEXT, wrapped()], id="none in between"),
        pytest.param([KEY_TEXT, wrapped(), wrapped()], id="none at first"),
    ],
)
def test_keys_with_several_schemas_need_lines(
    staged: Staged, bare_bodies: Sequence[str], keys: Sequence[bytes | None]
) -> None:
    """Lines are halved until each part has one schema."""
    files = with_keys(staged, bare_bodies, keys)
    if staged.are_sent:
        with pytest.raises(SparkNeeded, match="value that Arrow cannot hold"):
            staged.in_columns(files)
    else:
        assert staged.in_columns(files).equals(staged.small(files))


def by_schema(staged: Staged, files: Sequence[File], lines: SmallLines) -> tuple[TableFiles, Sequence[File]]:
    """Return the table with the columns that the schemas of its messages describe, and its files with these."""
    options = staged.table.options.model_copy(update={"types": "schema"})
    table = replace(staged.table, options=options, dimension=replace(staged.table.dimension, schema=Schema(())))
    if staged.are_sent:
        table, files = replace(table, folder=staged.sent_table.folder), [*map(staged.as_sent, files)]
    files = lines.with_versions(table, files, StagedMessages())
    return replace(table, dimension=with_schema(table, files)), files


def test_types_are_those_of_the_schemas(staged: Staged, bodies: Sequence[str]) -> None:
    """Those of a large batch are found as bytes, unless messages have none, or they describe other columns."""
    usual = [described(body) for body in bodies]
    sent = [staged.file([*usual[half::2], None], order) for order, half in zip((10, 20), range(2), strict=True)]
    large, small = SmallLines(1), SmallLines(10**6)
    table, files = by_schema(staged, sent, large)
    assert (large.is_by_form, small.is_by_form) == (True, False)
    form = StagedMessages()
    in_columns = form.described(table, files)
    assert in_columns is not None
    events = with_flags(table, MessageBatch.of(in_columns, files, form.parts).read())
    assert events.equals(small.read(*by_schema(replace(staged, are_sent=False), sent, small)))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("{}", id="none"),
        pytest.param(described("{}", schema_text(seen="io.debezium.time.Timestamp")), id="another"),
        pytest.param(described("{}", '{"type":"struct","fields":[]}'), id="one of no row"),
    ],
)
@pytest.mark.parametrize("is_in_same_file", [False, True])
def test_each_message_is_read_for_its_schema(
    staged: Staged, bodies: Sequence[str], other: str, is_in_same_file: bool
) -> None:
    """One of them has another schema, or none."""
    usual = described(bodies[0])
    together = [usual, None, other]
    files = [staged.file(together)] if is_in_same_file else [staged.file([usual]), staged.file([other], 10)]
    if staged.are_sent:
        with pytest.raises(LinesNeeded):
            by_schema(staged, files, SmallLines(1))
    else:
        assert StagedMessages().versions(staged.table, files) is None


def test_messages_of_other_tables_are_not_taken_for_those_of_the_table(tmp_path: Path) -> None:
    """Their columns would be refused, as they lack the key."""
    own = feed(tmp_path, types="schema")
    schema = {"type": "struct", "fields": [{"type": "string", "optional": True, "field": "colour"}]}
    envelope_schema = {"type": "struct", "fields": [{**schema, "field": "after"}]}
    payload = {**json.loads(order_message(1, table="colours")), "after": {"colour": "red"}}
    for _ in range(20):
        own.broker.send(TOPIC, written({"schema": envelope_schema, "payload": payload}).encode())
    source = own.open()
    source.files.small_batch = 10
    with pytest.raises(AssertionError, match="a small batch needs no Spark"):
        source.read(own.dimension(source), own.take(source), 1)
    source.files.small_batch = 20
    with pytest.raises(SourceError, match="messages of other tables alone"):
        source.read(own.dimension(source), own.take(source), 1)


def rows_in_avro(folder: Path, small_batch: int) -> pa.Table:
    """Return the events of Avro messages of a broker, of which a small batch has so many."""
    with stub_registry() as registry:
        registry.put(7, ENVELOPE)
        own = feed(folder, format="debezium-avro", registry={"url": registry.url})
        for number in range(50):
            own.broker.send(TOPIC, framed(7, envelope(number, None if number % 3 else f"é {number}")))
        return rows_of_feed(own, small_batch)


def rows_of_feed(own: BrokerFeed, small_batch: int) -> pa.Table:
    source = own.open()
    source.files.small_batch = small_batch
    batch = source.read(own.dimension(source), own.take(source), 1)
    assert isinstance(batch.frame, LocalFrame)
    return batch.frame.rows


ORDER_SCHEMA: Final = {
    "type": "struct",
    "fields": [
        {
            "type": "struct",
            "fields": [{"type": "int64", "field": "id"}, {"type": "string", "optional": True, "field": "a"}],
            "field": "after",
        }
    ],
}


def rows_of_connect(folder: Path, small_batch: int, *, schemas: int = 1) -> pa.Table:
    """Return the events of messages as Kafka Connect writes them by default: keys and values have a schema."""
    own = feed(folder, types="schema")
    for number in range(50):
        key = wrapped(written({"id": number}), '{"type":"struct","fields":[{"type":"int64","field":"id"}]}')
        schema = ORDER_SCHEMA | {"name": f"Envelope{number % schemas}"}
        value = described(order_message(number).decode(), written(schema))
        own.broker.send(TOPIC, value.encode(), key=key)
    return rows_of_feed(own, small_batch)


def test_what_connect_writes_by_default_is_read_in_columns_as_in_a_small_batch(tmp_path: Path) -> None:
    """Also where schemas of the same columns differ: lines are made of the messages then."""
    large = rows_of_connect(tmp_path / "large", 49)
    assert large.equals(rows_of_connect(tmp_path / "small", 50))
    assert large.column("id").to_pylist() == [*range(50)]
    assert large.equals(rows_of_connect(tmp_path / "several", 5, schemas=2))


def test_avro_is_read_in_columns_as_in_a_small_batch(tmp_path: Path) -> None:
    assert rows_in_avro(tmp_path / "large", 49).equals(rows_in_avro(tmp_path / "small", 50))
