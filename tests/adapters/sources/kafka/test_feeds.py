"""Whatever a connector's settings are, what it sends through a broker is read back as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from captures import ITEM, TYPES, Capture, Event, draw
from fake_broker import FakeBroker
from kafka_feeds import no_spark

from lakeward.adapters.sources import kafka
from lakeward.adapters.sources.files.form import MessageForm
from lakeward.adapters.spark.frames.event_frame import SKIPPED
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.core.events import UNSET
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.plugins import Runtime

TOPIC = "db.shop.item"


def value_feeds() -> Mapping[int, Capture]:
    """Return feeds whose lines are values alone: that is what a connector sends."""
    found = {seed: draw(seed, seed) for seed in range(120)}
    return {seed: feed for seed, feed in found.items() if feed.options.line == "value"}


def cell(row: Mapping[str, Any], column: str) -> object:
    if column in (row[names.UNSET] or ()):
        return UNSET
    value = row[column]
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def event(row: Mapping[str, Any]) -> Event:
    cells = tuple(cell(row, name) for name in TYPES)
    return Event(row[names.OPERATION], int(row[names.SEQUENCE]), row[names.TIME], cells)


def test_feeds_of_any_connector_are_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds = value_feeds()
    assert len(feeds) > 40
    for seed, feed in feeds.items():
        broker = FakeBroker()
        broker.create(TOPIC)
        for line in feed.lines:
            broker.send(TOPIC, line.encode())
        monkeypatch.setattr(kafka, "connect", lambda *_, made=broker: made)
        form = {key: getattr(feed.options, key) for key in MessageForm.model_fields}
        said = {key: value for key, value in form.items() if key in feed.options.model_fields_set}
        options = {"servers": "h:9092", "topics": "db.{schema}.{table}", "formats": {}, **said}
        source = kafka.build(options, Runtime(no_spark, tmp_path, state=tmp_path / str(seed)))
        batch = source.read(ITEM, source.select_objects(ITEM, ObjectHistory()), 1)
        assert isinstance(batch.frame, LocalFrame)
        rows = batch.frame.rows.to_pylist()
        own = [row for row in rows if row[names.REASON] != SKIPPED]
        assert {row[names.REASON] for row in own} <= {None}, own
        assert len(rows) - len(own) == feed.skipped
        assert [event(row) for row in own] == list(feed.events), (seed, feed.options)
