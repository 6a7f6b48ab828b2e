"""Arrow columns are given other types and names, whatever is NULL in them; no Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeward.adapters.formats.delta_rs.arrow_rewrite import convert_array, convert_batch

THEN = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.float32())])))])
NOW = pa.struct(
    [("new", pa.string()), ("b", pa.list_(pa.struct([("d", pa.string()), ("c", pa.float64())]))), ("a", pa.int64())]
)
CASES: list[tuple[pa.DataType, pa.DataType, list[Any], list[Any]]] = [
    (pa.int32(), pa.int64(), [1, None], [1, None]),
    (
        THEN,
        NOW,
        [None, {"a": None, "b": None}, {"a": 1, "b": [None, {"c": 0.5}]}, {"a": 2, "b": []}],
        [
            None,
            {"new": None, "b": None, "a": None},
            {"new": None, "b": [None, {"d": None, "c": 0.5}], "a": 1},
            {"new": None, "b": [], "a": 2},
        ],
    ),
    (
        pa.map_(pa.string(), pa.int32()),
        pa.map_(pa.string(), pa.int64()),
        [None, [], [("k", 1), ("l", None)]],
        [None, [], [("k", 1), ("l", None)]],
    ),
]


@pytest.mark.parametrize(("then", "now", "values", "expected"), CASES)
def test_values_are_converted(then: pa.DataType, now: pa.DataType, values: list[Any], expected: list[Any]) -> None:
    found = convert_array(pa.array(values, then), now, {})
    assert found.type == now
    assert found.to_pylist() == expected


def test_columns_and_fields_of_a_key_get_new_names() -> None:
    old = pa.struct([("id", pa.int64())])
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([{"id": 2}], old)], ["id", "_lakeward_old"])
    schema = pa.schema([("_lakeward_old", pa.struct([("no", pa.int64())])), ("no", pa.int64())])
    found = convert_batch(batch, schema, {"no": "id"}, {"_lakeward_old": {"id": "no"}})
    assert found.to_pylist() == [{"_lakeward_old": {"no": 2}, "no": 1}]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([[1], None, [2]], pa.list_(pa.int32())),
        ([[("a", 1)], None, [("b", 2)]], pa.map_(pa.string(), pa.int32())),
        ([{"a": 1}, None, {"a": 2}], pa.struct([("a", pa.int32())])),
    ],
)
def test_a_slice_is_as_good_as_a_whole(values: list[Any], type_: pa.DataType) -> None:
    assert convert_array(pa.array(values, type_)[1:], type_, {}).to_pylist() == values[1:]
