"""Messages in Avro and their registry: what lands, what is asked, and what is not passed over."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import requests
from avro_messages import ENVELOPE, FLAT, KEY, ROW, envelope, framed
from connect_records import to_avro
from kafka_feeds import TOPIC, BrokerFeed, dimension_of, feed, message
from registries import Registry, StubRegistry, stub_registry

from lakeward.core.errors import ConfigError, SourceError, StoreUnreachable
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.settings.secrets import Secret

pytestmark = pytest.mark.usefixtures("no_broker")

JSON_SCHEMA = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with stub_registry() as made:
        made.put(7, ENVELOPE)
        made.put(3, KEY)
        yield made


def avro_feed(folder: Path, stub: StubRegistry, **more: Any) -> BrokerFeed:
    return feed(folder, **{"format": "debezium-avro", "registry": {"url": stub.url}, **more})


def landed(own: BrokerFeed) -> list[Mapping[str, Any]]:
    files = [file for file in sorted(own.staged.rglob("*.json")) if file.name[0] != "_"]
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def test_each_schema_is_asked_for_once_and_kept(tmp_path: Path, registry: StubRegistry) -> None:
    own = avro_feed(tmp_path, registry)
    for number in (1, 2):
        own.broker.send(TOPIC, framed(7, envelope(number)), key=framed(3, to_avro(KEY, {"id": number})))
    assert own.apply() == [1, 2]
    registry.answers.clear()
    own.broker.send(TOPIC, framed(7, envelope(3)), key=framed(3, to_avro(KEY, {"id": 3})))
    assert own.apply() == [1, 2, 3]  # sources are opened anew, as by another process
    assert sorted(registry.asked) == ["3", "7"]


def test_the_row_of_an_envelope_lands_with_its_schema(tmp_path: Path, registry: StubRegistry) -> None:
    own = avro_feed(tmp_path, registry)
    own.broker.send(TOPIC, framed(7, envelope(1, text="é \u2028")), key=framed(3, to_avro(KEY, {"id": 1})))
    own.take()
    (line,) = landed(own)
    found = json.loads(line["value"])
    assert line["key"] == '{"id":1}'
    assert list(found["payload"]) == ["before", "after", "source", "op"]
    assert found["payload"]["after"] == {"id": 1, "a": "é \u2028"}
    (after,) = found["schema"]["fields"]
    assert (after["field"], [one["field"] for one in after["fields"]]) == ("after", ["id", "a"])


def test_flattened_messages_land_with_their_whole_schema(tmp_path: Path, registry: StubRegistry) -> None:
    registry.put(8, FLAT)
    own = avro_feed(tmp_path, registry, form="flattened", places="arrival")
    own.broker.send(TOPIC, framed(8, to_avro(FLAT, {"id": 5, "a": None, "after": 1, "__op": "c"})))
    own.take()
    found = json.loads(landed(own)[0]["value"])
    assert [one["field"] for one in found["schema"]["fields"]] == ["id", "a", "after", "__op"]


@pytest.mark.parametrize("key", [framed(3, to_avro(KEY, {"id": 1})), b'{"id":1}', b"1", b"\0\0", None])
def test_a_key_may_be_avro_json_or_text(tmp_path: Path, registry: StubRegistry, key: bytes | None) -> None:
    own = avro_feed(tmp_path, registry)
    own.broker.send(TOPIC, framed(7, envelope(1)), key=key)
    own.broker.send(TOPIC, None, key=key)
    assert own.apply() == [1]
    assert own.rejects == []


def test_the_other_key_of_a_key_change_may_be_avro_in_its_header(tmp_path: Path, registry: StubRegistry) -> None:
    """`header.converter` may be that of Avro; bytes in other headers are nobody's."""
    own, key = avro_feed(tmp_path, registry), framed(3, to_avro(KEY, {"id": 2}))
    headers = (("__debezium.newkey", key), ("__debezium.oldkey", b'{"id":3}'), ("trace", key))
    own.broker.send(TOPIC, framed(7, envelope(1)), headers=headers)
    own.take()
    told = dict(landed(own)[0]["headers"])
    assert (told["__debezium.newkey"], told["__debezium.oldkey"]) == ('{"id":2}', '{"id":3}')
    assert told["trace"] == key.decode()


def test_what_is_no_avro_goes_into_quarantine_with_its_bytes(tmp_path: Path, registry: StubRegistry) -> None:
    own, right = avro_feed(tmp_path, registry), framed(7, envelope(1))
    broken = [
        b'{"op":"c"}',
        b"",
        b"\0\0\0",
        b"\1" + right[1:],
        right[:-1],
        right + b"\0",
        right.replace(b"orders", b"\xff" * 6),
    ]
    for value in broken:
        own.broker.send(TOPIC, value, key=b"\0\0\0\0\3\xff")
    own.broker.send(TOPIC, right)
    assert own.apply() == [1]
    lines = [json.loads(line) for line in own.rejects]
    assert [bytes.fromhex(line["value"].removeprefix("no Avro, in hexadecimal: ")) for line in lines] == broken
    assert own.details == ["the message cannot be decoded as Avro"] * len(broken)
    assert {line["key"] for line in lines} == {"no Avro, in hexadecimal: 0000000003ff"}


def test_a_registry_that_does_not_answer_ends_the_batch(tmp_path: Path, registry: StubRegistry) -> None:
    own = avro_feed(tmp_path, registry)
    own.broker.send(TOPIC, framed(7, envelope(1)))
    registry.breaks = 3
    with pytest.raises(StoreUnreachable, match="does not answer") as raised:
        own.take()
    assert "503" in str(raised.value)
    assert landed(own) == []
    registry.breaks = 2
    assert own.apply() == [1], "the third answer is right"


def test_a_registry_that_is_not_there_ends_the_batch(tmp_path: Path) -> None:
    with stub_registry() as gone:
        pass
    own = avro_feed(tmp_path, gone)
    own.broker.send(TOPIC, framed(7, envelope(1)))
    with pytest.raises(StoreUnreachable, match="does not answer"):
        own.take()


def test_a_schema_that_the_registry_has_not_ends_the_batch_until_it_has(
    tmp_path: Path, registry: StubRegistry
) -> None:
    own = avro_feed(tmp_path, registry)
    own.broker.send(TOPIC, framed(7, envelope(1)))
    own.broker.send(TOPIC, framed(9, envelope(2)))
    for _ in range(2):
        with pytest.raises(SourceError, match="has no schema 9") as raised:
            own.take()
        assert f"{TOPIC}, partition 0, offset 1" in str(raised.value)
        assert landed(own) == []
    registry.put(9, ENVELOPE)
    assert own.apply() == [1, 2]


@pytest.mark.long
def test_the_schemas_of_a_registry_that_runs_are_read_or_refused(tmp_path: Path, schema_registry: Registry) -> None:
    def register(subject: str, schema: Any, **more: Any) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        sent = {"schema": text, **more}
        told = requests.post(f"{schema_registry.url}/subjects/{subject}/versions", json=sent, timeout=60)
        assert told.ok, told.text
        return int(told.json()["id"])

    right = register("orders", ENVELOPE)
    item = {"type": "record", "name": "Item", "fields": []}
    register("item", item)
    holder = {"type": "record", "name": "Holder", "fields": [{"name": "item", "type": "Item"}]}
    named = {"references": [{"name": "Item", "subject": "item", "version": 1}]}
    refused = {
        register("proto", 'syntax = "proto3"; message A { }', schemaType="PROTOBUF"): "of the type PROTOBUF",
        register("json", JSON_SCHEMA, schemaType="JSON"): "of the type JSON",
        register("holder", holder, **named): "other subjects",
        10_000: "has no schema 10000",
    }
    for id_, words in refused.items():
        own = feed(tmp_path / str(id_), format="debezium-avro", registry={"url": schema_registry.url})
        own.broker.send(TOPIC, framed(right, envelope(1)))
        assert own.apply() == [1]
        own.broker.send(TOPIC, framed(id_, envelope(2)))
        with pytest.raises(SourceError, match=words):
            own.take()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((200, {"schema": "{}", "schemaType": "PROTOBUF"}), SourceError, "of the type PROTOBUF"),
        ((200, {"schema": "{}", "schemaType": "JSON"}), SourceError, "of the type JSON"),
        ((200, {"schema": '"int"', "references": [{"name": "x"}]}), SourceError, "other subjects"),
        ((200, {"schema": '["int","string"]'}), SourceError, "a union of 2 types"),
        ((200, "<html>hello"), ConfigError, "not that of a registry"),
        ((200, ["schema"]), ConfigError, "not that of a registry"),
        ((401, "who?"), ConfigError, "401"),
        ((403, "no"), ConfigError, "403"),
    ],
)
def test_what_cannot_be_used_is_told(
    tmp_path: Path, registry: StubRegistry, answer: tuple[int, Any], error: type[Exception], words: str
) -> None:
    own = avro_feed(tmp_path, registry)
    own.broker.send(TOPIC, framed(7, envelope(1)))
    registry.answers["7"] = answer
    with pytest.raises(error, match="cannot be") as raised:
        own.take()
    assert words in str(raised.value)
    assert landed(own) == []


def test_the_password_goes_to_the_registry_and_nowhere_else(
    tmp_path: Path, registry: StubRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "word").write_text("wört:1")
    own = avro_feed(tmp_path, registry, registry={"url": registry.url, "username": "ü", "password": "file:word"})
    own.secret = lambda name: Secret((tmp_path / name.name).read_bytes())
    own.broker.send(TOPIC, framed(7, envelope(1)))
    assert own.apply() == [1]
    assert registry.logins == ["Basic " + base64.b64encode("ü:wört:1".encode()).decode()]
    kept = [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "word"]
    assert kept
    assert all("wört".encode() not in file.read_bytes() for file in kept)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "debezium-avro"}, "needs a registry"),
        ({"registry": {"url": "http://h:1"}}, "no messages are in Avro"),
        ({"format": "debezium-avro", "registry": {}}, "takes `url`"),
        ({"format": "debezium-avro", "registry": {"url": "h:8081"}}, "must be an address"),
        ({"format": "debezium-avro", "registry": {"kind": "glue", "url": "http://h"}}, "of AWS takes none"),
        ({"format": "debezium-avro", "registry": {"kind": "glue", "ca_file": "f"}}, "for a registry of Confluent"),
        ({"format": "debezium-avro", "registry": {"url": "http://u:p@h"}}, "must have no login"),
        ({"format": "debezium-avro", "registry": {"url": "http://h", "username": "u"}}, "go together"),
        ({"format": "debezium-avro", "registry": {"url": "http://h", "ca_file": "f"}}, "begins with https"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, options: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        feed(tmp_path, **options).open()
    assert words in str(raised.value)


def test_a_table_may_have_a_format_of_its_own(tmp_path: Path, registry: StubRegistry) -> None:
    own = feed(tmp_path, registry={"url": registry.url + "/"}, tables={})
    own.options = {**own.options, "tables": {dimension_of(feed(tmp_path).open()).name: {"format": "debezium-avro"}}}
    own.broker.send(TOPIC, framed(7, envelope(1)))
    assert own.apply() == [1]


def test_a_file_of_certificates_that_is_not_there_is_told(tmp_path: Path) -> None:
    own = feed(tmp_path, format="debezium-avro", registry={"url": "https://127.0.0.1:9", "ca_file": "none.pem"})
    own.broker.send(TOPIC, framed(7, envelope(1)))
    with pytest.raises(ConfigError, match="cannot be used") as raised:
        own.take()
    assert "none.pem" in str(raised.value)


def test_a_decimal_has_the_scale_that_it_was_written_with(tmp_path: Path, registry: StubRegistry) -> None:
    """Also where its column is declared with another, and no other column says so."""
    name = {"connect.name": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "2"}}
    a = {"name": "a", "type": ["null", {"type": "bytes", "logicalType": "decimal", "scale": 2, **name}]}
    row = {**ROW, "fields": [ROW["fields"][0], a]}
    schema = {**ENVELOPE, "fields": [{"name": "before", "type": ["null", row]}, *ENVELOPE["fields"][1:]]}
    registry.put(8, schema)
    source = {"schema": "shop", "table": "orders", "ts_us": 1, "lsn": 1, "sequence": '["1","1"]'}
    after = {"id": 1, "a": (1050).to_bytes(2)}
    own = avro_feed(tmp_path, registry)
    own.broker.send(
        TOPIC, framed(8, to_avro(schema, {"before": None, "after": after, "source": source, "op": "c"}))
    )
    opened = own.open()
    dimension = own.dimension(opened)
    columns = Schema((dimension.schema.columns[0], Column("a", parse_type("decimal(12,4)"))))
    batch = opened.read(replace(dimension, schema=columns), own.take(opened), 1)
    assert [row["a"] for row in batch.frame.rows.to_pylist()] == [Decimal("10.50")]


@pytest.mark.parametrize("format_", ["debezium", "dms-json", "json"])
def test_messages_of_a_registry_are_passed_over_under_no_other_format(tmp_path: Path, format_: str) -> None:
    """As the serializers of JSON Schema write them: a zero byte and the id stand before what would be JSON."""
    own = feed(tmp_path, format=format_)
    own.broker.send(TOPIC, b"\0\0\0\0\7" + message(1))
    assert own.apply() == []
    (text,) = own.rejects
    assert '"offset":0' in text
    assert "\\u0000\\u0007{" in text
