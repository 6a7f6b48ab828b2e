"""Plain records: the value is the row, the key of the record may tell columns, and no value is a delete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka_feeds import TOPIC, BrokerFeed, feed

from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.kafka.staging.plain_records import to_row
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.schema import Column, Schema, parse_type

pytestmark = pytest.mark.usefixtures("no_broker")


def rows_feed(folder: Path, **more: Any) -> BrokerFeed:
    return feed(folder, **{"format": "json", **more})


def read(own: BrokerFeed, types: str = "id bigint, a string", **more: Any) -> list[Mapping[str, Any]]:
    """Return the rows of the next batch, as a table with these columns reads it."""
    schema = Schema(
        tuple(Column(name, parse_type(kind)) for name, kind in (one.split() for one in types.split(", ")))
    )
    source = own.open()
    dimension: Dimension = replace(own.dimension(source), schema=schema, **more)
    batch = source.read(dimension, source.select_objects(dimension, own.object_history()), 1)
    assert isinstance(batch.frame, LocalFrame)
    found: list[Mapping[str, Any]] = batch.frame.rows.to_pylist()
    return found


def said(rows: list[Mapping[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [(row[names.OPERATION], *(row[name] for name in columns or ("id", "a"))) for row in rows]


def test_values_are_rows_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    own = rows_feed(tmp_path, partitions=2)
    for partition, value in (
        (1, b'{"id":3,"a":"z"}'),
        (0, b'{"id":1,"a":"x"}'),
        (0, b' { "a" : null ,\n"id":2 } '),
    ):
        own.broker.send(TOPIC, value, partition=partition)
    assert said(read(own)) == [("read", 1, "x"), ("read", 2, None), ("read", 3, "z")]
    assert own.apply() == [1, 2, 3]


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (b'{"id":5,"more":1}', 5),
        (b'{"id":"5"}', 5),
        (b"5", 5),
        (b'"5"', 5),
    ],
)
def test_columns_may_be_in_the_key_of_the_record(tmp_path: Path, key: bytes, found: int) -> None:
    own = rows_feed(tmp_path, record_key=["id"])
    own.broker.send(TOPIC, b'{"a":"x"}', key=key)
    own.broker.send(TOPIC, b'{"id":5,"a":"y"}', key=key)
    own.broker.send(TOPIC, b"{}", key=key)
    own.broker.send(TOPIC, None, key=key)
    rows = said(read(own))
    assert rows == [("read", found, "x"), ("read", found, "y"), ("read", found, None), ("delete", found, None)]


@pytest.mark.parametrize("text", ["abc", "007", "1.50", "1e5", "true", " x", 'say "no"', "it's", "NaN", "é", "1 2"])
def test_a_key_that_is_one_value_is_kept_to_the_letter(tmp_path: Path, text: str) -> None:
    own = rows_feed(tmp_path, record_key=["a"])
    for key in (text, json.dumps(text)):
        own.broker.send(TOPIC, b'{"id":1}', key=key.encode())
    assert said(read(own)) == [("read", 1, text)] * 2


def test_a_key_of_several_columns_is_an_object(tmp_path: Path) -> None:
    own = rows_feed(tmp_path, record_key=["id", "b"])
    own.broker.send(TOPIC, b'{"a":"x"}', key=b'{"b":true,"id":1}')
    own.broker.send(TOPIC, None, key=b'{"b":false,"id":2.0}')
    rows = read(own, "id bigint, b boolean, a string", key=("id", "b"))
    assert said(rows, "id", "b", "a") == [("read", 1, True, "x"), ("delete", 2, False, None)]


def test_numbers_of_values_are_kept_to_the_digit(tmp_path: Path) -> None:
    own = rows_feed(tmp_path)
    own.broker.send(TOPIC, b'{"id":9007199254740993,"d":12345678901234567890.123456789}')
    (row,) = read(own, "id bigint, d decimal(38,9)")
    assert (row["id"], str(row["d"])) == (9007199254740993, "12345678901234567890.123456789")


NO_ROWS = {
    "no JSON": b"no JSON",
    "a list": b"[1]",
    "null": b"null",
    "empty": b"",
    "no text": b'{"id":1,"a":"\xff"}',
    "a line break in a text": b'{"id":1,"a":"x\ny"}',
    "no number": b'{"a":NaN}',
    "two objects": b'{"id":1}{"id":2}',
    "deep": b"[" * 100_000,
    "a name of lakeward": b'{"id":1,"_lakeward_record":{"operation":"delete"}}',
    "another key": b'{"id":2,"a":"x"}',
    "a key that is null": b'{"id":null,"a":"x"}',
}


def test_what_is_no_row_goes_into_quarantine_with_all_that_was_sent(tmp_path: Path) -> None:
    own = rows_feed(tmp_path, record_key=["id"])
    for value in NO_ROWS.values():
        own.broker.send(TOPIC, value, key=b'{"id":1}', headers=(("h", b"v"),))
    for key in (None, b"[1]", b"null", b"{}", b'{"id":null}', b'{"id":[1]}', b"\xff"):
        own.broker.send(TOPIC, b'{"a":"x"}', key=key)
    own.broker.send(TOPIC, b'{"a":"x"}', key=b"7")
    assert own.apply() == [7]
    assert len(own.rejects) == len(NO_ROWS) + 7
    words, lines = zip(*map(json.loads, own.rejects), strict=True)
    assert [text.removeprefix("no row: its ") for text in words] == [
        *["value is no JSON object"] * (len(NO_ROWS) - 3),
        "value has the name _lakeward_record, which is lakeward's own",
        *["key and its value differ in a column"] * 2,
        *["key lacks a column of `record_key`"] * 7,
    ]
    assert [line["offset"] for line in lines] == [*range(len(lines))]
    assert lines[0] == {
        "topic": TOPIC,
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_000,
        "key": '{"id":1}',
        "value": "no JSON",
        "headers": [["h", "v"]],
    }


def test_what_cannot_be_read_as_its_column_is_kept_with_its_place(tmp_path: Path) -> None:
    own = rows_feed(tmp_path)
    own.broker.send(TOPIC, b'{"id":"x","a":"y"}', key=b"k", headers=(("h", b"\xff"),))
    own.broker.send(TOPIC, b'{"id":1}')
    assert own.apply() == [1]
    (line,) = map(json.loads, own.rejects)
    broker_fields = line.pop("_lakeward_record")
    assert line == {"id": "x", "a": "y"}
    assert (broker_fields["offset"], broker_fields["key"], broker_fields["headers"]) == (
        0,
        "k",
        [["h", "no UTF-8, in hexadecimal: ff"]],
    )


def test_a_delete_that_names_no_row_is_not_passed_over(tmp_path: Path) -> None:
    own = rows_feed(tmp_path)
    own.broker.send(TOPIC, None, key=b'{"id":1}')
    own.broker.send(TOPIC, b'{"id":2}')
    assert own.apply() == [2]
    assert len(own.rejects) == 1


def test_a_column_may_order_records(tmp_path: Path) -> None:
    own = rows_feed(tmp_path, order_by="at")
    own.broker.send(TOPIC, b'{"id":1,"at":"2026-11-21T10:00:01Z"}')
    own.broker.send(TOPIC, b'{"id":1,"at":"2026-11-21T10:00:00Z"}')
    first, second = read(own, "id bigint, at timestamp")
    assert first[names.SEQUENCE] - second[names.SEQUENCE] == 1_000_000
    assert first[names.TIME] > second[names.TIME]
    assert own.open().lateness != rows_feed(tmp_path).open().lateness


def test_a_delete_without_the_column_that_orders_is_not_passed_over(tmp_path: Path) -> None:
    own = rows_feed(tmp_path, order_by="at", record_key=["id"])
    own.broker.send(TOPIC, b'{"at":5}', key=b"1")
    own.broker.send(TOPIC, None, key=b"1")
    rows = read(own, "id bigint, at bigint")
    assert [row[names.REASON] for row in rows] == [None, "sequence"]


def test_columns_that_nobody_declared_stop_the_table(tmp_path: Path) -> None:
    own = rows_feed(tmp_path)
    own.broker.send(TOPIC, b'{"id":1,"b":2}')
    with pytest.raises(SchemaConflict, match="not declared") as raised:
        own.apply()
    assert "they are b" in str(raised.value)


def test_each_record_of_a_table_without_a_key_is_a_row(tmp_path: Path) -> None:
    own = rows_feed(tmp_path)
    for _ in range(2):
        own.broker.send(TOPIC, b'{"id":1,"a":"x"}')
    assert said(read(own, key=())) == [("read", 1, "x")] * 2


def test_a_line_has_no_line_break_whatever_is_sent() -> None:
    record = Record(0, None, b"a\nb", b'{"a":\n"\\n"\n}', (("h\n", b"\n"),))
    for columns in ([], ["id"]):
        assert to_row(columns, "t", 0, record).count(b"\n") == 1
    assert to_row([], "t", 0, record._replace(value=b'{"a":"\n"}')).count(b"\n") == 1
    assert to_row(["id"], "t", 0, Record(0, None, b'"\\ud800"', b"{}")).count(b"\n") == 1


def test_a_table_may_be_of_another_format_than_the_rest(tmp_path: Path) -> None:
    own = feed(tmp_path, topics="events")
    own.options = {**own.options, "tables": {"shop.orders": {}}}
    name = own.dimension(feed(tmp_path).open()).name
    own.options = {"topics": "events", "tables": {name: {"format": "json", "topics": "odd", "record_key": ["id"]}}}
    own.broker.create("odd")
    own.broker.send("odd", b'{"a":"x"}', key=b"4")
    assert own.apply() == [4]
    own.options = {"format": "json", "record_key": ["id"], "tables": {name: {"topics": "odd"}}}
    own.broker.send("odd", b'{"a":"x"}', key=b"5")
    assert own.apply() == [4, 5]
    own.options = {
        "format": "json",
        "record_key": ["id"],
        "tables": {name: {"topics": "odd", "format": "debezium"}},
    }
    own.broker.send(
        "odd", b'{"op":"c","after":{"id":6,"a":"x"},"source":{"lsn":1,"schema":"shop","table":"orders"}}'
    )
    assert own.apply() == [4, 5, 6]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"record_key": ["id"]}, '`record_key` is for `format = "json"` alone'),
        ({"order_by": "at"}, "`order_by` is for"),
        ({"format": "json", "record_key": ["id", "ID"]}, "names a column twice"),
        ({"format": "json", "types": "schema"}, "`types` is for"),
        ({"format": "json", "topics": "events"}, "which table they are of"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, options: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match="settings are not right") as raised:
        feed(tmp_path, **options).open()
    assert words in str(raised.value)


def test_settings_of_a_table_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    name = feed(tmp_path).dimension(feed(tmp_path).open()).name
    with pytest.raises(ConfigError, match="all tables share one topic"):
        feed(tmp_path, topics="events", tables={name: {"format": "json"}}).open()
    with pytest.raises(ConfigError, match="settings are not right"):
        feed(tmp_path, tables={name: {"record_key": ["id"]}}).open()


def test_ranges_of_offsets_are_no_snapshots(tmp_path: Path) -> None:
    own = rows_feed(tmp_path)
    source = own.open()
    with pytest.raises(ConfigError, match="its full loads are snapshots"):
        source.select_objects(replace(own.dimension(source), snapshots=1), own.object_history())
