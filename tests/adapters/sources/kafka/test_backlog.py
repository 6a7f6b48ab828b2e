"""What of a broker is told without reading messages: tables, what to know of them, and how much waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_broker import FakeBroker
from kafka_feeds import TOPIC, BrokerFeed, feed, no_spark

from lakeward.adapters.sources import kafka
from lakeward.core.dimension import TableName
from lakeward.core.ports import Backlog, SourceInventory
from lakeward.plugins import Runtime

ORDERS = TableName("shop", "orders")


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    made = FakeBroker()
    monkeypatch.setattr(kafka, "connect", lambda *_: made)
    return made


def opened(folder: Path, **options: Any) -> tuple[SourceInventory, Backlog]:
    said = {"servers": "h:9092", "topics": "shop.{schema}.{table}", "formats": {}, **options}
    runtime = Runtime(no_spark, folder, state=folder / "state")
    return kafka.build_inventory(said, runtime), kafka.build_backlog(said, runtime)


def test_tables_are_those_that_have_a_topic(broker: FakeBroker, tmp_path: Path) -> None:
    for topic in ("shop.public.orders", "shop.public.order.lines", "other", "shop.heartbeat", "xshop.a.b"):
        broker.create(topic)
    assert opened(tmp_path)[0].tables() == [TableName("public", "order.lines"), TableName("public", "orders")]
    assert opened(tmp_path, topics="other")[0].tables() == []


def test_a_table_without_a_topic_is_said(broker: FakeBroker, tmp_path: Path) -> None:
    broker.create("shop.shop.order")
    landing, _ = opened(tmp_path)
    (said,) = landing.cautions(ORDERS)
    assert said.startswith("It has no topic yet (shop.shop.orders).")
    assert "shop.shop.order" in said
    broker.create(TOPIC)
    assert opened(tmp_path)[0].cautions(ORDERS) == []
    assert "arrival" in opened(tmp_path, places="arrival")[0].cautions(ORDERS)[0]


def waiting(own: BrokerFeed, folder: Path, **options: Any) -> int | None:
    return opened(folder, **options)[1].count_waiting(ORDERS, [item.name for item in own.objects])


def test_what_waits_is_counted_by_what_was_applied(broker: FakeBroker, tmp_path: Path) -> None:
    own = feed(tmp_path)
    own.broker = broker
    assert waiting(own, tmp_path) is None
    broker.create(TOPIC, 2)
    for number in range(5):
        own.send(number % 2)
    assert waiting(own, tmp_path) == 5
    assert waiting(own, tmp_path, start="latest") is None
    own.apply()
    assert waiting(own, tmp_path) == 0
    broker.add_partition(TOPIC)
    own.send(2)
    own.send(0)
    broker.abort(TOPIC)
    assert waiting(own, tmp_path) == 4
    own.apply()
    assert waiting(own, tmp_path) == 0
    broker.create(TOPIC, 2)
    assert waiting(own, tmp_path) is None
