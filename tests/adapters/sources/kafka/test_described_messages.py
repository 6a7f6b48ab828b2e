"""Large batches of staged messages with schemas: their events are those of a small batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from avro_messages import ENVELOPE, envelope, framed
from envelope_feeds import KEY, TYPES, message
from kafka_feeds import TOPIC, feed
from kafka_feeds import message as order_message
from line_feeds import table_of
from registries import stub_registry

from lakeward.adapters.sources.files.file_columns import File, inspect_file, with_schema
from lakeward.adapters.sources.files.local.json_lines import SmallLines, with_flags
from lakeward.adapters.sources.files.local.message_columns.reader import MessageBatch
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.kafka.staging.message_lines import to_line
from lakeward.adapters.sources.kafka.staging.staged_messages import StagedMessages
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.core.dimension import ORDERED
from lakeward.core.errors import SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import Schema

MESSAGES: Final = 60
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
    """A table whose staged files have messages with schemas."""

    table: TableFiles
    folder: Path

    def file(self, values: Sequence[str | None], order: int = 1) -> File:
        file = self.folder / f"live.shop.item+0+{order:010}-{order + 9:010}+id.json"
        records = [
            Record(place, 1_767_225_600_123, b'{"id":1,"part":1}', None if value is None else value.encode(), ())
            for place, value in enumerate(values)
        ]
        file.write_bytes(b"".join(to_line("live.shop.item", 0, record) for record in records))
        return inspect_file(self.table, SourceObject(file.name, order, file.stat().st_size, 1))

    def small(self, files: Sequence[File]) -> pa.Table:
        return SmallLines(10**6).read(self.table, files)

    def in_columns(self, files: Sequence[File]) -> pa.Table:
        described = StagedMessages().described(self.table, files)
        assert described is not None
        return with_flags(self.table, MessageBatch.of(described, files).read())


def no_spark() -> Any:
    raise AssertionError("Spark was asked for")


def staged_in(root: Path) -> Staged:
    folder = root / "shop" / "item"
    folder.mkdir(parents=True)
    options = {"format": "debezium", "line": "record", "decimals": "string"}
    return Staged(table_of(root, no_spark, "shop.item", TYPES, options, key=KEY, lateness=ORDERED), folder)


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    return staged_in(tmp_path)


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
    staged, random = staged_in(tmp_path_factory.mktemp("bodies")), Random(0)
    found = [message(random) for _ in range(MESSAGES)]
    return [body for body in found if is_read_alike(staged, described(body))]


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
    one, other, *_ = bodies
    files = [staged.file([described(one), described(other, USUAL.replace("live.Value", "live.Value2"))])]
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
    with pytest.raises(SparkNeeded, match=why):
        staged.in_columns([staged.file([described(one), described(other, schema)])])


@pytest.mark.parametrize("value", ["bare", "bare}", "no Avro, in hexadecimal: 00", '{"schema":{},"payload":null}'])
def test_messages_without_a_row_are_left_to_spark(staged: Staged, bodies: Sequence[str], value: str) -> None:
    one, other, *_ = bodies
    with pytest.raises(SparkNeeded):
        staged.in_columns([staged.file([described(one), value.replace("bare", other)])])


@pytest.mark.parametrize("end", ["", "}}", ' ,"payload":{}}', "{}}", " }", "null}"])
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


def by_schema(staged: Staged, files: Sequence[File], lines: SmallLines) -> tuple[TableFiles, Sequence[File]]:
    """Return the table with the columns that the schemas of its messages describe, and its files with these."""
    options = staged.table.options.model_copy(update={"types": "schema"})
    table = replace(staged.table, options=options, dimension=replace(staged.table.dimension, schema=Schema(())))
    files = lines.with_versions(table, files, StagedMessages())
    return replace(table, dimension=with_schema(table, files)), files


def test_types_are_those_of_the_schemas(staged: Staged, bodies: Sequence[str]) -> None:
    """Those of a large batch are found as bytes, unless messages have none, or they describe other columns."""
    usual = [described(body) for body in bodies]
    sent = [staged.file([*usual[half::2], None], order) for order, half in zip((10, 20), range(2), strict=True)]
    large, small = SmallLines(1), SmallLines(10**6)
    table, files = by_schema(staged, sent, large)
    assert (large.is_by_form, small.is_by_form) == (True, False)
    in_columns = StagedMessages().described(table, files)
    assert in_columns is not None
    events = with_flags(table, MessageBatch.of(in_columns, files).read())
    assert events.equals(small.read(*by_schema(staged, sent, small)))
    for other in (bodies[0], described(bodies[0], schema_text(seen="io.debezium.time.Timestamp"))):
        assert StagedMessages().versions(table, [*sent, staged.file([usual[0], other], 30)]) is None


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
        source = own.open()
        source.files.small_batch = small_batch
        batch = source.read(own.dimension(source), own.take(source), 1)
    assert isinstance(batch.frame, LocalFrame)
    return batch.frame.rows


def test_avro_is_read_in_columns_as_in_a_small_batch(tmp_path: Path) -> None:
    assert rows_in_avro(tmp_path / "large", 49).equals(rows_in_avro(tmp_path / "small", 50))
