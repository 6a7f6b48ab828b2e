"""The source `kafka`, held to the laws of the kit: an object is a range of offsets, its place the partition."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import landed_feeds
import pytest
from avro_messages import ENVELOPE, framed
from connect_records import to_avro
from fake_broker import FakeBroker
from kafka_feeds import no_spark

from lakeward.adapters.sources import kafka
from lakeward.adapters.spark.frames.event_frame import SKIPPED
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.plugins import Runtime
from lakeward.plugins.testing import Feed, Item
from lakeward.plugins.testing.contract import port_contract
from lakeward.plugins.testing.feeds import COLUMNS, EPOCH
from lakeward.plugins.testing.laws.sources import log_restarts, object_selection, other_tables, read_rows

_OF_OTHERS: Final = (
    object_selection.an_object_that_changed_after_its_selection_is_left_out,
    object_selection.an_object_that_changed_after_it_was_applied_stops_the_table,
    object_selection.a_late_object_is_selected_and_reported,
    object_selection.a_truncation_is_one_truncate_at_its_place,
    other_tables.an_object_of_other_tables_alone_is_reported,
)
"""Laws that say nothing of a log, whose messages do not change, and of which none comes late in its partition; and
two that Spark is needed for, of what the source of files does alone."""

LAWS: Final = [
    law
    for law in object_selection.LAWS
    if law not in _OF_OTHERS
    and law.__module__ in {part.__name__ for part in (object_selection, read_rows, log_restarts, other_tables)}
]


NO_OTHERS: Final[Mapping[str, int]] = {}


def message(item: Item, table: str) -> Mapping[str, Any]:
    image, place = landed_feeds.own(item), item.position.sequence
    source = {"schema": "shop", "table": table, "ts_us": item.time, "lsn": place}
    source["sequence"] = json.dumps([str(place)])
    operation = {"I": "c", "U": "u", "D": "d"}[landed_feeds.letter(item)]
    images = {"before": image, "after": None} if operation == "d" else {"before": None, "after": image}
    return {"op": operation, "source": source, **images}


def as_json(item: Item, table: str) -> bytes:
    return json.dumps(message(item, table)).encode()


def as_avro(item: Item, table: str) -> bytes:
    return framed(7, to_avro(ENVELOPE, message(item, table)))


def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Feed:
    return _feed(tmp_path, monkeypatch, as_json)


def make_avro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Feed:
    """Return a feed in Avro, whose schema was fetched once before."""
    kept = tmp_path / "state" / "schemas" / "http%3A%2F%2Fregistry"
    kept.mkdir(parents=True)
    (kept / "7.avsc").write_text(json.dumps(ENVELOPE))
    told = {"format": "debezium-avro", "registry": {"url": "http://registry"}}
    return _feed(tmp_path, monkeypatch, as_avro, **told)


def _feed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: Callable[[Item, str], bytes], **told: Any
) -> Feed:
    broker = FakeBroker()
    monkeypatch.setattr(kafka, "connect", lambda *_: broker)
    runtime = Runtime(no_spark, tmp_path, state=tmp_path / "state", now=lambda: landed_feeds.NOW)
    options = {"servers": "h:9092", "topics": "{schema}.{table}", "formats": {}, **told}

    def put(dimension: Dimension, place: int, items: Sequence[Item], others: Mapping[str, int] = NO_OTHERS) -> None:
        topic = str(dimension.name)
        if topic not in broker.made:
            broker.create(topic, 100)
        for item in items:
            broker.send(topic, message(item, dimension.name.table), partition=place)
        for name, number in others.items():
            for item in feed.items(9, number):
                broker.send(topic, message(item, name.partition(".")[2]), partition=place)

    feed = Feed(
        open=lambda: kafka.build(options, runtime),
        put=put,
        rows=_items,
        texts=lambda frame: {_place(row): row[names.TEXT] for row in _rows(frame)},
        has_log=True,
        put_mixed=put,
    )
    return feed


def _rows(frame: Any) -> list[dict[str, Any]]:
    assert isinstance(frame, LocalFrame)
    return list(frame.rows.to_pylist())


def _items(frame: Any) -> Iterable[Item]:
    for row in _rows(frame):
        if row[names.REASON] == SKIPPED:
            continue
        if row[names.REASON] is not None:
            yield Reject(_place(row), Reason(row[names.REASON]), time=row[names.TIME])
            continue
        cells = {name: row[name] for name in COLUMNS.names}
        operation, key = Operation(row[names.OPERATION]), () if row["id"] is None else (row["id"],)
        yield ChangeEvent(operation=operation, position=_place(row), key=key, cells=cells, time=row[names.TIME])


def _place(row: Mapping[str, Any]) -> Position:
    return Position(EPOCH, int(row[names.SEQUENCE]), row[names.OBJECT], row[names.ROW])


TestKafka = port_contract("The laws of a source of messages.", make, LAWS)
TestKafkaAvro = port_contract("The same laws, where messages are in Avro.", make_avro, LAWS)
