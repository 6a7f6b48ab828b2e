"""Avro messages with a registry, and plain records, through a running broker become tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pytest
from avro_messages import framed
from brokers import RunningBroker
from connect_records import to_avro
from project import Project, iceberg_and_delta
from registries import StubRegistry, stub_registry

pytestmark = pytest.mark.spark

TABLES: Final = """
[tables."shop.customer"]
key = ["id"]

[tables."shop.prices"]
key = ["sku"]
columns = { sku = "string", price = "decimal(20,2)" }

[tables."shop.prices".source]
format = "json"
record_key = ["sku"]
"""
SOURCE: Final = """
servers = "{servers}"
topics = "formats.{{schema}}.{{table}}"
format = "debezium-avro"
types = "schema"

[source.registry]
url = "{url}"
"""
CUSTOMER, PRICES = "formats.shop.customer", "formats.shop.prices"


def connect_type(name: str, type_: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "connect.name": name, "connect.version": 1, **more}


DECIMAL: Final = connect_type(
    "org.apache.kafka.connect.data.Decimal",
    "bytes",
    logicalType="decimal",
    scale=2,
    precision=8,
    **{"connect.parameters": {"scale": "2", "connect.decimal.precision": "8"}},
)
ROW: Final = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": ["null", DECIMAL]},
        {"name": "at", "type": ["null", connect_type("io.debezium.time.MicroTimestamp", "long")]},
        {"name": "data", "type": ["null", "bytes"]},
    ],
}
PLACE: Final = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}
PLACE["fields"] += [{"name": name, "type": "string"} for name in ("schema", "table", "sequence")]
IMAGES: Final = [{"name": "before", "type": ["null", ROW]}, {"name": "after", "type": ["null", "Value"]}]
OTHERS: Final = [{"name": "source", "type": PLACE}, {"name": "op", "type": "string"}]
ENVELOPE: Final = {"type": "record", "name": "Envelope", "fields": [*IMAGES, *OTHERS]}
KEY: Final = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}


def send(broker: RunningBroker, lsn: int, op: str, key: int, *cells: Any) -> None:
    """Send a change of a customer, with a tombstone after a delete."""
    row = dict(zip(("id", "name", "price", "at", "data"), (key, *cells, *[None] * (4 - len(cells))), strict=True))
    source = {"ts_ms": 1_796_000_000_000 + lsn, "schema": "shop", "table": "customer"}
    source["sequence"] = json.dumps([str(lsn), str(lsn)])
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    value = framed(7, to_avro(ENVELOPE, {**images, "source": source, "op": op}))
    key_bytes = framed(3, to_avro(KEY, {"id": key}))
    broker.send(CUSTOMER, value, *([None] if op == "d" else []), key=key_bytes)


def price(broker: RunningBroker, sku: str, text: str | None) -> None:
    broker.send(PRICES, None if text is None else f'{{"price": {text}}}'.encode(), key=sku.encode())


def check(project: Project, customers: list[Any], prices: list[Any]) -> None:
    assert project.rows("customer", columns=("id", "name", "price", "at", "data")) == customers
    assert project.rows("prices", columns=("sku", "price")) == prices


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with stub_registry() as started:
        yield started


@pytest.mark.lines
@pytest.mark.long
@iceberg_and_delta
def test_avro_and_plain_records_come_exact_through_a_broker(
    project: Project, kafka_broker: RunningBroker, registry: StubRegistry
) -> None:
    broker = kafka_broker
    for topic in (CUSTOMER, PRICES):
        broker.create(topic)
    source = SOURCE.format(servers=broker.servers, url=registry.url)
    project.configure(TABLES, source, source_kind="kafka")
    send(broker, 1, "r", 1, "ann", b"\x04\x1a", 1_767_323_045_123_456, b"\0\xff")
    send(broker, 2, "c", 2, "bob", b"\xff")
    price(broker, "a-1", "12345678901234567.10")
    price(broker, "a-2", "1")
    registry.breaks = 100
    away = project.run(75)["shop.customer"]["error"]
    assert "does not answer" in away["what"]
    registry.breaks = 0
    registry.put(3, KEY)
    assert "has no schema 7" in project.fails("shop.customer")
    registry.put(7, ENVELOPE)
    project.run()
    ann = (1, "ann", Decimal("10.50"), datetime(2026, 1, 2, 3, 4, 5, 123456), b"\0\xff")
    bob = (2, "bob", Decimal("-0.01"), None, None)
    check(project, [ann, bob], [("a-1", Decimal("12345678901234567.10")), ("a-2", Decimal("1.00"))])

    # Spark reads the landed files of a large batch. The registry is not asked again for known schemas.
    registry.answers.clear()
    project.configure(f"{TABLES}\n[spark]\nsmall_batch = 0", source, source_kind="kafka")
    send(broker, 3, "d", 1)
    send(broker, 4, "c", 3, "é \u2028", b"\0\x80")
    price(broker, "a-1", None)
    price(broker, "a-3", "2.5")
    broker.send(CUSTOMER, b"\0\0\0\0\7\xff", key=b"k")
    broker.send(PRICES, b"no JSON: NaN}", key=b"k")
    project.run(3)
    check(
        project,
        [bob, (3, "é \u2028", Decimal("1.28"), None, None)],
        [("a-2", Decimal("1.00")), ("a-3", Decimal("2.50"))],
    )
    texts = json.dumps(project.entries())
    assert "no Avro, in hexadecimal: 0000000007ff" in texts
    assert "the message cannot be decoded as Avro" in texts
    assert "no JSON: NaN}" in texts
