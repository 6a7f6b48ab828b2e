"""Messages in Avro whose schemas the Glue Schema Registry of AWS has, as moto plays it."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest
from avro_messages import ENVELOPE, envelope
from buckets import Buckets
from kafka_feeds import TOPIC, BrokerFeed, feed

from lakeward.core.errors import ConfigError, SourceError, StoreUnreachable

pytestmark = pytest.mark.usefixtures("no_broker")


@pytest.fixture
def glue(s3: Buckets, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a client of a registry, to which the environment leads."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-test")  # moto finds the service behind the first blank
    return boto3.Session().client("glue")


def put(glue: Any, schema: Any, kind: str = "AVRO") -> str:
    """Register a schema, and return the id of its version."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    told = {"DataFormat": kind, "Compatibility": "NONE", "SchemaDefinition": text}
    return str(glue.create_schema(SchemaName=f"orders-{uuid4()}", **told)["SchemaVersionId"])


def framed(id_: str, data: bytes, packed: int = 0) -> bytes:
    return bytes([3, packed]) + UUID(id_).bytes + (zlib.compress(data) if packed else data)


def glue_feed(folder: Path, **more: Any) -> BrokerFeed:
    return feed(folder, **{"format": "debezium-avro", "registry": {"kind": "glue"}, **more})


def test_messages_are_read_packed_and_not_and_each_schema_is_asked_for_once(
    tmp_path: Path, glue: Any, s3: Buckets
) -> None:
    own, ids = glue_feed(tmp_path), [put(glue, ENVELOPE), put(glue, ENVELOPE)]
    s3.requests.clear()
    for number in range(1, 5):
        own.broker.send(TOPIC, framed(ids[number % 2], envelope(number), 5 * (number > 2)), key=b'{"id":1}')
    assert own.apply() == [1, 2, 3, 4]
    own.broker.send(TOPIC, framed(ids[0], envelope(5)))
    assert own.apply() == [1, 2, 3, 4, 5]
    assert len(s3.requests) == 2
    assert {file.stem for file in (tmp_path / "state" / "schemas" / "aws-glue").iterdir()} == {*ids}


def test_what_is_no_avro_goes_into_quarantine_with_its_bytes(tmp_path: Path, glue: Any) -> None:
    own, id_ = glue_feed(tmp_path), put(glue, ENVELOPE)
    packed = framed(id_, envelope(1), 5)
    broken = [
        b"\4" + packed[1:],
        packed[:1] + b"\1" + packed[2:],
        packed[:17],
        packed[:-1],
        packed + b"\0",
        packed[:18] + envelope(1),
        b"\0\0\0\0\1" + envelope(1),
    ]
    for value in [*broken, framed(id_, envelope(1))]:
        own.broker.send(TOPIC, value)
    assert own.apply() == [1]
    texts = [json.loads(line)["value"].removeprefix("no Avro, in hexadecimal: ") for line in own.rejects]
    assert [bytes.fromhex(text) for text in texts] == broken


def test_a_schema_that_is_not_there_ends_the_batch(tmp_path: Path, glue: Any) -> None:
    own, id_ = glue_feed(tmp_path), str(uuid4())
    own.broker.send(TOPIC, framed(id_, envelope(1)))
    with pytest.raises(SourceError, match=f"has no schema {id_}") as raised:
        own.take()
    assert f"{TOPIC}, partition 0, offset 0" in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "schema"),
    [("JSON", '{"$schema":"http://json-schema.org/draft-07/schema#"}'), ("PROTOBUF", "message M {}")],
)
def test_schemas_of_other_formats_are_refused_by_name(tmp_path: Path, glue: Any, kind: str, schema: str) -> None:
    own = glue_feed(tmp_path)
    own.broker.send(TOPIC, framed(put(glue, schema, kind), envelope(1)))
    with pytest.raises(SourceError, match=f"of the format {kind}"):
        own.take()


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:9", StoreUnreachable),
        ("AWS_DEFAULT_REGION", None, ConfigError),
        ("AWS_ACCESS_KEY_ID", None, ConfigError),
    ],
)
def test_a_registry_that_cannot_be_asked_is_told(
    tmp_path: Path, glue: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str | None, error: type[Exception]
) -> None:
    own = glue_feed(tmp_path)
    own.broker.send(TOPIC, framed(put(glue, ENVELOPE), envelope(1)))
    with monkeypatch.context() as patched:
        patched.delenv(name) if value is None else patched.setenv(name, value)
        with pytest.raises(error):
            own.take()
    assert own.apply() == [1]
