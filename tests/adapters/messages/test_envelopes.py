"""What Arrow takes of messages, and what it leaves: `tests/adapters/files/test_envelope_rows.py` compares rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pytest

from lakeward.adapters.messages.envelopes import (
    COMMIT,
    EMPTY,
    HAS_KEY,
    MICROS,
    TAKEN,
    Envelopes,
    cell_after,
    cell_before,
    cell_of_key,
)
from lakeward.adapters.spark.rows import LINE, NAME, VALUE

ITEM: Final = Envelopes(
    columns={"id": pa.int64(), "note": None, "share": pa.float64(), "seen": None},
    numbers={"seen": pa.int64()},
    schema="shop",
    table="item",
    told=("id",),
    key=("id",),
    are_records=False,
    unlogged=("__debezium_unavailable_value",),
    key_headers=("__debezium.newkey",),
    takes_tombstones=True,
)
RECORDS: Final = replace(ITEM, are_records=True)
ROW: Final = {"id": 1, "note": "a", "share": 0.5, "seen": 1_700_000_000_000}
SOURCE: Final = {"schema": "shop", "table": "item", "lsn": 7, "sequence": '["5","7"]', "ts_ms": 1_700_000_000_000}


def taken(envelopes: Envelopes, *lines: str) -> list[Mapping[str, Any]]:
    numbers = pa.array(range(1, len(lines) + 1), pa.int64())
    batch = pa.RecordBatch.from_pydict({VALUE: [*lines], NAME: ["f"] * len(lines), LINE: numbers})
    found = [row for part in envelopes.take(batch) for row in part.to_pylist()]
    assert [row[VALUE] for row in found] == [*lines]
    return found


def written(row: Mapping[str, Any] | None = ROW, op: str = "c", **parts: Any) -> str:
    message = {"before": None, "after": row, "source": SOURCE, "op": op, "ts_ms": 1, **parts}
    return json.dumps(message, separators=(",", ":"))


def record(value: str | None, **parts: Any) -> str:
    place = {"topic": "live.shop.item", "partition": 0, "offset": 1, "timestamp": 1}
    told = {**place, "key": '{"id":1}', "value": value, "headers": [], **parts}
    return json.dumps(told, separators=(",", ":"))


def test_an_insert_is_taken_whole() -> None:
    (row,) = taken(ITEM, written())
    assert row[TAKEN]
    assert [row[cell_after(place)] for place in range(4)] == [1, "a", 0.5, "1700000000000"]
    assert (row[MICROS], row[COMMIT], row[HAS_KEY]) == (1_700_000_000_000_000, "5", False)


def test_a_delete_has_the_key_of_its_image_and_of_its_message() -> None:
    deleted = written(None, "d", before={**ROW, "note": None, "seen": None})
    (row,) = taken(RECORDS, record(deleted))
    assert (row[TAKEN], row[cell_before(0)], row[cell_of_key(0)], row[HAS_KEY]) == (True, 1, 1, True)


def test_a_tombstone_of_the_table_is_no_row() -> None:
    rows = taken(RECORDS, *(record(None, topic=topic) for topic in ("live.shop.item", "live.shop.other", None)))
    assert [row[TAKEN] and row[EMPTY] for row in rows] == [True, False, True]
    (kept,) = taken(replace(RECORDS, takes_tombstones=False), record(None))
    assert not kept[TAKEN]


@pytest.mark.parametrize("name", ["note", "share", "seen"])
def test_a_cell_that_was_not_sent_is_not_taken_for_null(name: str) -> None:
    lacking = {column: value for column, value in ROW.items() if column != name}
    null, absent = taken(ITEM, written({**ROW, name: None}, "u"), written(lacking, "u"))
    assert (null[TAKEN], absent[TAKEN]) == (True, False)


def test_a_null_under_the_name_of_a_field_of_the_source_is_left() -> None:
    envelopes = replace(ITEM, columns={**ITEM.columns, "schema": None})
    told, null = taken(envelopes, written({**ROW, "schema": "a"}), written({**ROW, "schema": None}))
    assert (told[TAKEN], null[TAKEN]) == (True, False)


ODD: Final = {
    "nothing": "",
    "NULL": "null",
    "no object": "[]",
    "NULL behind it": written() + "null",
    "two objects": written() + written(),
    "cut off": written()[:-1],
    "a blank before": " " + written(),
    "a name twice": written().replace('"note":"a"', '"note":"a","note":"b"'),
    "half of a character": written().replace('"a"', '"\\ud800"'),
    "an unknown column": written({**ROW, "colour": "red"}),
    "an unknown field": written(source={**SOURCE, "extra": 1}),
    "a schema": json.dumps({"schema": {}, "payload": json.loads(written())}),
    "another table": written(source={**SOURCE, "table": "other"}),
    "no table": written(source={**SOURCE, "table": None}),
    "not logged": written({**ROW, "note": "__debezium_unavailable_value"}),
    "no number": written({**ROW, "share": "0.5"}),
    "infinite": written().replace("0.5", "Infinity"),
    "too close to 0": written().replace("0.5", "1e-400"),
    "too large": written().replace('"id":1', '"id":9223372036854775808'),
    "a fraction": written().replace('"id":1', '"id":1.0'),
    "a number for a text": written({**ROW, "note": 5}),
    "a truncate": written(None, "t"),
    "a message of its own": written(None, "m"),
    "no image": written(None, "u"),
    "a delete with an image after": written(ROW, "d"),
    "an odd sequence": written(source={**SOURCE, "sequence": "[]"}),
    "a time too far away": written(source={**SOURCE, "ts_ms": 2**62}),
}


@pytest.mark.parametrize("sort", ODD)
def test_what_is_odd_is_left_and_nothing_beside_it(sort: str) -> None:
    rows = taken(ITEM, written(), ODD[sort], written(ROW, "u"))
    assert [row[TAKEN] for row in rows] == [True, False, True]


ODD_RECORDS: Final = {
    "no value": record(None).replace(',"value":null', ""),
    "an object": record(None).replace('"value":null', f'"value":{written()}'),
    "an unknown field": record(written(), more=1),
    "a header that tells a key": record(written(), headers=[["__debezium.newkey", '{"id":2}']]),
    "headers as an object": record(written(), headers={"a": "b"}),
    "another key": record(written(), key='{"other":1}'),
    "a key that is none": record(written(), key="5"),
}


@pytest.mark.parametrize("sort", ODD_RECORDS)
def test_odd_records_are_left(sort: str) -> None:
    traced = record(written(), headers=[["trace", "1"]], key=None)
    rows = taken(RECORDS, record(written()), ODD_RECORDS[sort], traced)
    assert [row[TAKEN] for row in rows] == [True, False, True]


def test_bytes_that_are_no_utf_8_are_left() -> None:
    data = [written().encode(), written().encode().replace(b'"a"', b'"\xff"')]
    values = pa.array(data, pa.binary()).view(pa.string())
    batch = pa.RecordBatch.from_arrays(
        [values, pa.array(["f", "f"]), pa.array([1, 2], pa.int64())], names=[VALUE, NAME, LINE]
    )
    assert [flag for part in ITEM.take(batch) for flag in part.column(TAKEN).to_pylist()] == [True, False]


def test_a_batch_in_which_all_are_odd_is_left_soon() -> None:
    """Half as many tries as there are lines, not one for each of them and for all that they are parts of."""
    tries = 0

    class Counting(Envelopes):
        def _read(self, lines: pa.RecordBatch) -> pa.RecordBatch | None:
            nonlocal tries
            tries += 1
            return super()._read(lines)

    told = {name: getattr(ITEM, name) for name in Envelopes.__dataclass_fields__}
    rows = taken(Counting(**told), *[ODD["an unknown field"]] * 1000)
    assert not any(row[TAKEN] for row in rows)
    assert tries == 500
