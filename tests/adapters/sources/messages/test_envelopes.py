"""What Arrow decodes of messages, and what it leaves (`test_envelope_rows.py` compares the rows with SQL)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pytest

from lakeward.adapters.sources.messages.envelopes import (
    COMMIT,
    HAS_KEY,
    HAS_NO_VALUE,
    IS_DECODED,
    MICROS,
    Envelopes,
    cell_after,
    cell_before,
    cell_of_key,
    field_column,
)
from lakeward.adapters.spark.frames.source_rows import LINE, NAME, VALUE

ITEM: Final = Envelopes(
    columns={"id": pa.int64(), "note": None, "share": pa.float64(), "seen": None},
    numbers={"seen": pa.int64()},
    schema="shop",
    table="item",
    before=("id",),
    key=("id",),
    are_records=False,
    placeholders=("__debezium_unavailable_value",),
    key_headers=("__debezium.newkey",),
    skips_tombstones=True,
)
RECORDS: Final = replace(ITEM, are_records=True)
ROW: Final = {"id": 1, "note": "a", "share": 0.5, "seen": 1_700_000_000_000}
SOURCE: Final = {"schema": "shop", "table": "item", "lsn": 7, "sequence": '["5","7"]', "ts_ms": 1_700_000_000_000}


def decoded(envelopes: Envelopes, *lines: str) -> list[Mapping[str, Any]]:
    numbers = pa.array(range(1, len(lines) + 1), pa.int64())
    batch = pa.RecordBatch.from_pydict({VALUE: [*lines], NAME: ["f"] * len(lines), LINE: numbers})
    found = [row for part in envelopes.decode(batch) for row in part.to_pylist()]
    assert [row[VALUE] for row in found] == [*lines]
    return found


def written(row: Mapping[str, Any] | None = ROW, op: str = "c", **parts: Any) -> str:
    message = {"before": None, "after": row, "source": SOURCE, "op": op, "ts_ms": 1, **parts}
    return json.dumps(message, separators=(",", ":"))


def record(value: str | None, **parts: Any) -> str:
    place = {"topic": "live.shop.item", "partition": 0, "offset": 1, "timestamp": 1}
    message = {**place, "key": '{"id":1}', "value": value, "headers": [], **parts}
    return json.dumps(message, separators=(",", ":"))


def test_an_insert_is_decoded_whole() -> None:
    (row,) = decoded(ITEM, written())
    assert row[IS_DECODED]
    assert [row[cell_after(place)] for place in range(4)] == [1, "a", 0.5, "1700000000000"]
    assert (row[MICROS], row[COMMIT], row[HAS_KEY]) == (1_700_000_000_000_000, "5", False)


def test_a_column_is_found_by_its_whole_name() -> None:
    """Arrow reads a name that begins with a dot as a path: `.note` would be the column `note`."""
    dotted = replace(ITEM, columns={**ITEM.columns, ".note": None})
    (row,) = decoded(dotted, written({**ROW, ".note": "b"}))
    assert (row[IS_DECODED], row[cell_after(1)], row[cell_after(4)]) == (True, "a", "b")


def test_a_delete_has_the_key_of_its_image_and_of_its_message() -> None:
    deleted = written(None, "d", before={**ROW, "note": None, "seen": None})
    (row,) = decoded(RECORDS, record(deleted))
    assert (row[IS_DECODED], row[cell_before(0)], row[cell_of_key(0)], row[HAS_KEY]) == (True, 1, 1, True)


def test_a_tombstone_of_the_table_is_no_row() -> None:
    rows = decoded(RECORDS, *(record(None, topic=topic) for topic in ("live.shop.item", "live.shop.other", None)))
    assert [row[IS_DECODED] and row[HAS_NO_VALUE] for row in rows] == [True, False, True]
    (kept,) = decoded(replace(RECORDS, skips_tombstones=False), record(None))
    assert not kept[IS_DECODED]


@pytest.mark.parametrize("name", ["note", "share", "seen"])
def test_an_unsent_cell_is_not_null(name: str) -> None:
    lacking = {column: value for column, value in ROW.items() if column != name}
    null, absent = decoded(ITEM, written({**ROW, name: None}, "u"), written(lacking, "u"))
    assert (null[IS_DECODED], absent[IS_DECODED]) == (True, False)


@pytest.mark.parametrize("name", ["note", "share", "seen"])
@pytest.mark.parametrize(
    "more", [{}, {"transaction": None}, {"transaction": {"id": "7", "total_order": 1, "data_collection_order": 1}}]
)
def test_an_unsent_cell_is_not_null_if_several_columns_are(name: str, more: Mapping[str, Any]) -> None:
    """The names of a message are counted. A text with a quote before a colon is no name."""
    null = {"note": 'a":null', "share": None, "seen": None}
    rows = {"null": {"id": 1, **null}, "absent": {"id": 1, **null}, "said": {"id": 1, **null, "note": '":":'}}
    rows["begins with a colon"] = {"id": 1, **null, "note": ":)"}
    for label in ("absent", "said", "begins with a colon"):
        del rows[label][name]
    lines = [written(row, "u", **parts) for row in rows.values() for parts in (more, {**more, "before": ROW})]
    found = [row[IS_DECODED] for row in decoded(ITEM, written(), *lines)]
    assert found == [True, True, True, *[False] * 6]


def test_a_null_under_the_name_of_a_field_of_the_source_is_left() -> None:
    envelopes = replace(ITEM, columns={**ITEM.columns, "schema": None})
    value, null = decoded(envelopes, written({**ROW, "schema": "a"}), written({**ROW, "schema": None}))
    assert (value[IS_DECODED], null[IS_DECODED]) == (True, False)


def test_decimals_that_are_numbers_are_texts_without_an_exponent() -> None:
    prices = replace(ITEM, columns={**ITEM.columns, "price": None}, numbers={"price": pa.decimal128(18, 8)})
    texts = ("0", "-0", "1.5", "0.00000001", "1.2345678E7", "1.123456789")
    line = written({**ROW, "seen": "x", "price": 0})
    rows = decoded(prices, *(line.replace(":0}", f":{text}}}") for text in texts))
    found = [row[cell_after(4)] if row[IS_DECODED] else None for row in rows]
    assert found == ["0", "0", "1.50000000", None, None, None]


def test_a_float_that_is_too_close_to_0_is_left() -> None:
    floats = replace(ITEM, columns={**ITEM.columns, "share": pa.float32()})
    rows = decoded(floats, *(written().replace("0.5", text) for text in ("0.0", "1e-50", "1.0E-46", "1e-20")))
    assert [row[IS_DECODED] for row in rows] == [True, False, False, True]


def test_zero_has_no_sign() -> None:
    (row,) = decoded(ITEM, written().replace("0.5", "-0.0"))
    assert (row[IS_DECODED], str(row[cell_after(2)])) == (True, "0.0")


def test_a_transaction_may_be_a_number_or_a_text() -> None:
    for transaction in (7, "0a001f"):
        (row,) = decoded(ITEM, written(source={**SOURCE, "txId": transaction, "redo_thread": 1}))
        assert (row[IS_DECODED], row[field_column("txId")]) == (True, str(transaction))


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
    "a source that is a number": written(source=5),
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
    "a time before all others": written(source={**SOURCE, "ts_ms": -(2**63)}),
}


@pytest.mark.parametrize("sort", ODD)
def test_only_the_unusual_message_is_left_to_sql(sort: str) -> None:
    rows = decoded(ITEM, written(), ODD[sort], written(ROW, "u"))
    assert [row[IS_DECODED] for row in rows] == [True, False, True]


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
def test_only_the_unusual_record_is_left_to_sql(sort: str) -> None:
    traced = record(written(), headers=[["trace", "1"]], key=None)
    rows = decoded(RECORDS, record(written()), ODD_RECORDS[sort], traced)
    assert [row[IS_DECODED] for row in rows] == [True, False, True]


def test_bytes_that_are_no_utf_8_are_left() -> None:
    data = [written().encode(), written().encode().replace(b'"a"', b'"\xff"')]
    values = pa.array(data, pa.binary()).view(pa.string())
    batch = pa.RecordBatch.from_arrays(
        [values, pa.array(["f", "f"]), pa.array([1, 2], pa.int64())], names=[VALUE, NAME, LINE]
    )
    assert [flag for part in ITEM.decode(batch) for flag in part.column(IS_DECODED).to_pylist()] == [True, False]


def test_a_batch_of_unusual_messages_is_left_to_sql_soon() -> None:
    """Half as many tries as there are lines, not one for each of them and for all that they are parts of."""
    tries = 0

    class Counting(Envelopes):
        def _read(self, lines: pa.RecordBatch) -> pa.RecordBatch | None:
            nonlocal tries
            tries += 1
            return super()._read(lines)

    settings = {name: getattr(ITEM, name) for name in Envelopes.__dataclass_fields__}
    rows = decoded(Counting(**settings), *[ODD["an unknown field"]] * 1000)
    assert not any(row[IS_DECODED] for row in rows)
    assert tries == 500
