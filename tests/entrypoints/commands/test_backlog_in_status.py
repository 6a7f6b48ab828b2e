"""How many messages wait at a broker, as `status` shows it without Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import small_lake
from commands import Command
from fake_broker import FakeBroker
from projects import write

from lakeward.adapters.sources import kafka
from lakeward.core.errors import StoreUnreachable

SOURCE = """
[source]
kind = "kafka"
servers = "h:9092"
topics = "shop.{schema}.{table}"
"""


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeBroker:
    made = FakeBroker()
    monkeypatch.setattr(kafka, "connect", lambda *_: made)
    write(tmp_path, re.sub(r"\[source\]\n(?:[^\[\n].*\n|\n)*", SOURCE, small_lake.SETTINGS))
    return made


def test_what_waits_stands_beside_the_lag(broker: FakeBroker, lakeward: Command) -> None:
    broker.create("shop.shop.orders")
    for _ in range(1234):
        broker.send("shop.shop.orders", b"{}")
    ended = lakeward("status")
    assert re.search(r"position +waiting +lag", ended.out)
    assert re.search(r"shop\.orders +iceberg +nothing applied yet +1,234 +–", ended.out)
    document = lakeward("status", "--json").document
    assert [one["messages_waiting"] for one in document["tables"]] == [1234]


def test_a_broker_that_is_away_is_said_and_nothing_else_suffers(
    broker: FakeBroker, lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[object] = []

    def away(*request: object) -> None:
        requests.append(request)
        raise StoreUnreachable("the broker h:9092 does not answer")

    monkeypatch.setattr(FakeBroker, "find", away)
    ended = lakeward("status")
    assert ended.code == 0
    assert "⚠ The number of waiting messages is unknown: the broker h:9092 does not answer." in ended.out
    document = lakeward("status", "--json").document
    assert [one["messages_waiting"] for one in document["tables"]] == [None]
    assert any("does not answer" in words for words in document["warnings"])
    monkeypatch.setattr(FakeBroker, "topics", away)
    requests.clear()
    down = lakeward("status")
    assert (down.code, len(requests)) == (0, 1), "each request waits for its timeout"
    assert "⚠ The number of waiting messages is unknown: the broker h:9092 does not answer." in down.out
    settings = tmp_path / "lakeward.toml"
    settings.write_text(settings.read_text("utf-8").replace('"shop.orders"', '"shop.*"'), "utf-8")
    of_pattern = lakeward("status")
    assert (of_pattern.code, "does not answer" in of_pattern.err) == (75, True), (
        "its tables are asked for again later"
    )
    assert "Traceback" not in of_pattern.err
