"""Rows of some keys, as this process reads them from Parquet files: exactly those that a filter finds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakeward.adapters.formats.shared.storage import parquet_files
from lakeward.adapters.formats.shared.storage.loaded_columns import cached_columns
from lakeward.adapters.formats.shared.storage.parquet_files import (
    MOST_FILES,
    StoredFile,
    read_live_rows,
    read_rows,
)
from lakeward.adapters.spark.merge.resolution import FILE, POS

Row = Mapping[str, Any]

_SCHEMA: Final = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("note", pa.string())])


def _written(rows: pa.Table, *, group: int = 3) -> bytes:
    buffer = BytesIO()
    pq.write_table(rows, buffer, row_group_size=group)
    return buffer.getvalue()


def _file(rows: pa.Table, number: int = 0, deleted: Sequence[int] = ()) -> StoredFile:
    content = _written(rows)
    return StoredFile(f"file-{number}", lambda: BytesIO(content), lambda: BitMap64(deleted))


_EPOCH: Final = "_lakeward_epoch"
_ONE: Final = pa.table({"id": [1]})


@given(
    files=st.lists(st.tuples(st.lists(st.integers(-3, 3) | st.none(), max_size=9), st.sets(st.integers(0, 8)))),
    more=st.sets(st.integers(0, 8)),
    sought=st.lists(st.integers(-3, 3), min_size=1),
)
def test_columns_that_are_kept_have_the_rows_of_their_files(
    files: list[tuple[list[int | None], set[int]]], more: set[int], sought: list[int]
) -> None:
    """The first batch reads the files, the second opens none; rows that were deleted meanwhile are not found."""
    tables = [
        pa.table({"id": pa.array(ids, pa.int64()), _EPOCH: pa.array(range(len(ids)), pa.int64())})
        for ids, _ in files
    ]
    wanted = pa.schema([("id", pa.int64()), (_EPOCH, pa.int64())])
    contents, keys = [object() for _ in files], pa.table({"id": pa.array(sought, pa.int64())})

    def found_rows(opened: list[int], later: set[int]) -> Sequence[Row]:
        def open_file(number: int) -> BytesIO:
            opened.append(number)
            return BytesIO(_written(tables[number]))

        stored = [
            StoredFile(f"file-{number}", partial(open_file, number), partial(BitMap64, deleted | later), content)
            for number, ((_, deleted), content) in enumerate(zip(files, contents, strict=True))
        ]
        rows = read_rows(stored, _same, wanted, keys)
        assert rows is not None
        return sorted(rows.to_pylist(), key=lambda row: (row[FILE], row[POS]))

    def expected(later: set[int]) -> Sequence[Row]:
        return [
            {"id": id_, _EPOCH: place, FILE: f"file-{number}", POS: place}
            for number, (ids, deleted) in enumerate(files)
            for place, id_ in enumerate(ids)
            if id_ in sought and place not in deleted | later
        ]

    first, second = list[int](), list[int]()
    assert found_rows(first, set()) == sorted(expected(set()), key=lambda row: (row[FILE], row[POS]))
    assert found_rows(second, more) == sorted(expected(more), key=lambda row: (row[FILE], row[POS]))
    assert (sorted(first), second) == ([*range(len(files))], [])


@pytest.mark.parametrize(
    ("wanted", "is_kept"),
    [
        pytest.param([("id", pa.int64()), (_EPOCH, pa.int64())], True, id="the key and a system column"),
        pytest.param([("id", pa.int64()), ("note", pa.string())], False, id="a cell"),
        pytest.param([("id", pa.int64()), ("_lakeward_batch", pa.int64())], False, id="a column it lacks"),
    ],
)
def test_only_columns_that_each_batch_reads_are_kept(wanted: Any, is_kept: bool) -> None:
    content, schema = object(), pa.schema(wanted)
    data = _written(pa.table({"id": [1], _EPOCH: [1], "note": ["a"]}))
    stored = StoredFile("file", lambda: BytesIO(data), BitMap64, content)
    found = read_rows([stored], _same, schema, pa.table({"id": [1]}))
    assert found is not None
    assert found.num_rows == 1
    assert (cached_columns(content, schema) is not None) is is_kept


def test_columns_of_a_large_file_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "MOST_ROWS", 1)
    wanted = pa.schema([("id", pa.int64())])
    for ids in ([1], [1, 2]):
        content, data = object(), _written(pa.table({"id": ids}))
        found = read_rows([StoredFile("file", partial(BytesIO, data), BitMap64, content)], _same, wanted, _ONE)
        assert found is not None
        assert found["id"].to_pylist() == [1]
        assert (cached_columns(content, wanted) is not None) is (len(ids) == 1)


def test_more_files_are_read_here_once_their_columns_are_kept() -> None:
    stored = []
    for number in range(MOST_FILES + 1):
        data = _written(pa.table({"id": [number]}))
        stored.append(StoredFile(f"{number}", partial(BytesIO, data), BitMap64, object()))
    wanted, keys = pa.schema([("id", pa.int64())]), pa.table({"id": [0, MOST_FILES]})
    assert read_rows(stored, _same, wanted, keys) is None
    assert read_rows(stored[:MOST_FILES], _same, wanted, keys) is not None
    found = read_rows(stored, _same, wanted, keys)
    assert found is not None
    assert sorted(found["id"].to_pylist()) == [0, MOST_FILES]


def _same(schema: pa.Schema) -> Mapping[str, str]:
    return {name: name for name in schema.names}


_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "tenant": st.sampled_from(["a", "b", "ä", None]),
            "id": st.integers(-3, 3) | st.none() | st.sampled_from([2**62, -(2**62)]),
            "note": st.none() | st.text(max_size=2),
        }
    ),
    max_size=12,
)


@given(files=st.lists(st.tuples(_ROWS, st.sets(st.integers(0, 11))), max_size=3), data=st.data())
def test_rows_are_those_that_a_filter_finds(files: list[tuple[list[Row], set[int]]], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from([["id"], ["tenant"], ["tenant", "id"]]))
    every = [tuple(row[name] for name in key) for rows, _ in files for row in rows]
    whole = [one for one in every if None not in one] or [tuple({"tenant": "a", "id": 1}[name] for name in key)]
    sought = data.draw(st.lists(st.sampled_from(whole), min_size=1))
    stored = [
        _file(pa.Table.from_pylist(rows, _SCHEMA), number, sorted(deleted))
        for number, (rows, deleted) in enumerate(files)
    ]
    keys = pa.Table.from_pylist(
        [dict(zip(key, one, strict=True)) for one in sought], pa.schema([_SCHEMA.field(name) for name in key])
    )
    found = read_rows(stored, _same, _SCHEMA, keys)
    assert found is not None
    wanted = [
        {**row, FILE: f"file-{number}", POS: place}
        for number, (rows, deleted) in enumerate(files)
        for place, row in enumerate(rows)
        if tuple(row[name] for name in key) in sought and place not in deleted
    ]
    assert sorted(found.to_pylist(), key=lambda row: (row[FILE], row[POS])) == wanted


@pytest.mark.parametrize(
    ("was", "type_", "values"),
    [
        (pa.int32(), pa.int64(), [1, 2]),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), [Decimal("1.50"), Decimal("2.50")]),
        (pa.large_string(), pa.string(), ["a", "b"]),
        (pa.date32(), pa.date32(), [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]),
        (pa.float32(), pa.float64(), [1.0, -12345678.0]),
    ],
)
def test_a_file_of_before_a_column_became_wider_is_read(was: pa.DataType, type_: pa.DataType, values: Any) -> None:
    found = read_rows(
        [_file(pa.table({"id": pa.array(values, was)}))],
        _same,
        pa.schema([("id", type_)]),
        pa.table({"id": pa.array(values[1:], type_)}),
    )
    assert found is not None
    assert (found["id"].to_pylist(), found[POS].to_pylist()) == (values[1:], [1])


def test_a_column_that_a_file_lacks_is_null() -> None:
    wanted = pa.schema([("id", pa.int64()), ("added", pa.date32())])
    found = read_rows([_file(pa.table({"id": [1]}))], _same, wanted, pa.table({"id": [1]}))
    assert found is not None
    assert found.select(["id", "added"]).to_pylist() == [{"id": 1, "added": None}]


def test_a_renamed_column_is_found_by_what_it_was_called() -> None:
    names = {"id": "other", "other": "id"}
    rows = pa.table({"id": [1, 2], "other": [2, 1]})
    wanted = pa.schema([("id", pa.int64()), ("other", pa.int64())])
    found = read_rows([_file(rows)], lambda _: names, wanted, pa.table({"id": [2]}))
    assert found is not None
    assert found.select(["id", "other", POS]).to_pylist() == [{"id": 2, "other": 1, POS: 0}]


def test_a_row_group_is_read_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_ROWS_AT_A_TIME", 2)
    rows = pa.table({"id": list(range(9))})
    found = read_rows([_file(rows)], _same, rows.schema, pa.table({"id": [0, 2, 5, 8]}))
    assert found is not None
    assert found[POS].to_pylist() == found["id"].to_pylist() == [0, 2, 5, 8]


def test_nothing_is_sought_in_row_groups_without_such_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[int]()

    def spied(*args: Any) -> Sequence[pa.Table]:
        read.append(args[2])
        return original(*args)

    original = parquet_files._Reader._read
    monkeypatch.setattr(parquet_files._Reader, "_read", spied)
    rows = pa.table({"id": list(range(9))})
    found = read_rows([_file(rows)], _same, rows.schema, pa.table({"id": [4]}))
    assert found is not None
    assert (found[POS].to_pylist(), read) == ([4], [1])


_INT = pa.schema([("id", pa.int64())])
_DOUBLES = pa.table({"id": [1.5, 0.0, -0.0, float("nan")]})
_FLOATS = pa.table({"id": pa.array([1.0], pa.float32())})
_CENTS = pa.table({"id": pa.array([Decimal("1.50")], pa.decimal128(5, 2))})


@pytest.mark.parametrize(
    ("stored", "wanted", "keys"),
    [
        pytest.param([_file(pa.table({"id": [1]}))] * (MOST_FILES + 1), _INT, [1], id="many files"),
        pytest.param([_file(pa.table({"id": ["1"]}))], _INT, [1], id="another type"),
        pytest.param([_file(_CENTS)], pa.schema([("id", pa.decimal128(9, 4))]), [Decimal("1.50")], id="scale"),
        *(pytest.param([_file(_DOUBLES)], _DOUBLES.schema, [key], id=f"{key}") for key in (1.5, 0.0, float("nan"))),
        pytest.param([_file(_FLOATS)], _FLOATS.schema, [1.0], id="float"),
        pytest.param(
            [_file(pa.table({"id": [1], "s": [{"a": 1}]}))],
            pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))]),
            [1],
            id="nested",
        ),
        pytest.param([StoredFile("x", lambda: BytesIO(b"PAR1 and no more"), BitMap64)], _INT, [1], id="broken"),
    ],
)
def test_what_only_spark_knows_to_read_is_left_to_it(stored: Any, wanted: pa.Schema, keys: list[Any]) -> None:
    assert read_rows(stored, _same, wanted, pa.table({"id": pa.array(keys, wanted.field("id").type)})) is None


def test_large_files_are_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_MOST_BYTES", 1)
    assert read_rows([_file(pa.table({"id": [1]}))], _same, _INT, pa.table({"id": [1]})) is None


def test_all_rows_that_are_not_deleted_are_read_with_the_columns_of_the_table() -> None:
    """A file may lack a column that the table has now, or have it in a narrower type or under another name."""
    files = [
        _file(pa.table({"id": pa.array([1, 2, 3], pa.int32())}), 0, [0, 2]),
        _file(pa.table({"key": pa.array([4], pa.int64()), "note": ["d"]}), 1),
        _file(pa.table({"id": pa.array([5], pa.int64()), "note": ["e"]}), 2, [0]),
    ]
    wanted = pa.schema([("note", pa.string()), ("id", pa.int64())])

    def names(schema: pa.Schema) -> Mapping[str, str]:
        return {("id" if name == "key" else name): name for name in schema.names}

    rows = read_live_rows(files, names, wanted)
    assert rows is not None
    assert rows.schema == wanted
    assert rows.to_pylist() == [{"note": None, "id": 2}, {"note": "d", "id": 4}]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (pa.table({"id": ["a"]}), pa.schema([("id", pa.int64())])),
        (pa.table({"id": [[1]]}), pa.schema([("id", pa.list_(pa.int64()))])),
    ],
)
def test_rows_in_types_that_only_spark_reads_are_left_to_it(rows: pa.Table, wanted: pa.Schema) -> None:
    assert read_live_rows([_file(rows)], lambda schema: {name: name for name in schema.names}, wanted) is None
