"""Columns of Parquet files by what they mean, however they are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka_feeds import no_spark
from pyspark.sql import SparkSession

from lakeward.adapters.sources import dms, files
from lakeward.adapters.sources.rows.local_parquet import read_parquet as read_here
from lakeward.adapters.sources.rows.parquet_footers import Footer, PhysicalForm, read_footer, refuse_unknown
from lakeward.adapters.sources.rows.parquet_frames import NOT_UTF8, read_parquet
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import Frame
from lakeward.adapters.spark.frames.source_rows import KEY_MISFIT, LINE, MISFIT, NAME, OP_TEXT, VALUE
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SourceError
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.ports import Source
from lakeward.core.schema import Column, Schema, Type, parse_type
from lakeward.plugins import Runtime

ID = UUID("6e6f2d76-616c-3365-b0b1-c2c3d4e5f607")
MOMENT = datetime(2026, 11, 21, 10, 20, 30, 123456)  # what a clock on the wall shows
MICROS = int(MOMENT.replace(tzinfo=UTC).timestamp()) * 10**6 + 123456
CUT = [MICROS * 1000, MICROS * 1000 + 1, -1_000, -1, None]
"""Nanoseconds: the second and the fourth have no microseconds."""

COLUMNS: dict[str, tuple[pa.Array, str, object]] = {
    "category": (pa.array(["a", None, "b", "a", "a"]).dictionary_encode(), "string", "a"),
    "view": (pa.array(["a"] * 5, pa.string_view()), "string", "a"),
    "document": (pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}'] * 5)), "string", '{"a": 1}'),
    "uid": (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([ID.bytes] * 5, pa.binary(16))), "string", str(ID)),
    "fixed": (pa.array([b"abcd"] * 5, pa.binary(4)), "binary", bytearray(b"abcd")),
    "pair": (pa.array([[1, 2]] * 5, pa.list_(pa.int32(), 2)), "list<int>", [1, 2]),
    "day": (pa.array([date(2026, 1, 1)] * 5, pa.date64()), "date", date(2026, 1, 1)),
    "fine": (pa.array(CUT, pa.timestamp("ns")), "timestamp_ntz", MOMENT),
    "empty": (pa.nulls(5), "decimal(8,2)", None),
    "no_pair": (pa.nulls(5), "list<int>", None),
    "no_parts": (pa.nulls(5), "struct<a: int>", None),
    "no_marks": (pa.nulls(5), "map<string, int>", None),
    "count": (pa.array([7] * 5, pa.int32()), "bigint", 7),
    "share": (pa.array([0.5] * 5, pa.float32()), "double", 0.5),
    "price": (
        pa.array([Decimal("12345678.25")] * 5, pa.decimal128(10, 2)),
        "decimal(14,4)",
        Decimal("12345678.2500"),
    ),
    "whole": (pa.array([2**64 - 1] * 5, pa.uint64()), "decimal(22,1)", Decimal(2**64 - 1)),
}
"""A column of a file, its type in the table, and its value in the first row."""


@pytest.mark.spark
@pytest.mark.usefixtures("active")
def test_columns_are_read_by_what_they_mean(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({name: values for name, (values, _, _) in COLUMNS.items()}), tmp_path / "a.parquet")
    schema = Schema(tuple(Column(name, parse_type(type_)) for name, (_, type_, _) in COLUMNS.items()))
    found = read_footer(tmp_path / "a.parquet", "shop.item").with_types(schema)
    reading = Reading(dimension=Dimension(name=TableName("shop", "item"), schema=schema), base=str(tmp_path))
    rows = read_parquet(spark, [str(tmp_path / "a.parquet")], reading, found, has_op=False).orderBy(LINE).collect()
    assert {name: rows[0][name] for name in COLUMNS} == {name: value for name, (_, _, value) in COLUMNS.items()}
    assert [row[MISFIT] for row in rows] == [
        None,
        '"2026-11-21T10:20:30.123456001" is not a timestamp_ntz (column fine)',
        None,
        '"1969-12-31T23:59:59.999999999" is not a timestamp_ntz (column fine)',
        None,
    ]
    value = json.loads(rows[1][VALUE])
    assert (value["fine"], value["uid"], value["empty"]) == ("2026-11-21T10:20:30.123456001", str(ID), None)


BAD, GOOD = b"M\xfcller", "Müller".encode()


def texts(*values: bytes | None, type_: pa.DataType | None = None) -> pa.Array:
    """Return texts of these bytes, which Arrow would refuse."""
    found = pa.array(values, pa.binary())
    return pa.Array.from_buffers(type_ or pa.string(), len(found), found.buffers(), found.null_count)


def with_texts(bad: bytes) -> dict[str, pa.Array]:
    """Return columns of three rows that have texts in all places: only the first may be bad."""
    places = pa.array([0, 1, 2, 3], pa.int32())
    own = texts(bad, GOOD, None)
    return {
        "id": texts(b"1", b"2", b"3"),
        "name": own,
        "large": texts(GOOD, GOOD, GOOD).cast(pa.large_string()),
        "category": pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int32()), texts(bad, GOOD)),
        "list": pa.ListArray.from_arrays(places, own),
        "pair": pa.StructArray.from_arrays([pa.array([1, 2, 3]), own], ["n", "t"]),
        "map": pa.MapArray.from_arrays(places, texts(b"a", b"b", b"c"), own),
        "deep": pa.ListArray.from_arrays(places, pa.StructArray.from_arrays([own], ["t"])),
    }


@pytest.mark.spark
@pytest.mark.usefixtures("active")
def test_a_text_that_is_not_utf8_is_reported_in_each_kind_of_column(spark: SparkSession, tmp_path: Path) -> None:
    good, bad = with_texts(GOOD), {name: of for name, of in with_texts(BAD).items() if name not in ("id", "large")}
    for number, name in enumerate(bad):
        pq.write_table(pa.table({**good, name: bad[name]}), tmp_path / f"{number}.parquet")
    found = read_footer(tmp_path / "0.parquet", "shop.item")
    dimension = Dimension(name=TableName("shop", "item"), schema=found.schema, key=("id",))
    reading = Reading(dimension=dimension, base=str(tmp_path))
    files_ = sorted(map(str, tmp_path.glob("*.parquet")))
    rows = read_parquet(spark, files_, reading, found, has_op=False).orderBy(NAME, LINE).collect()
    for place, row in enumerate(rows):
        name = [*bad][place // 3]
        is_bad = place % 3 == 0
        detail = f"the text is not valid UTF-8 (column {name})" if is_bad else None
        assert (row[MISFIT], row[KEY_MISFIT]) == (detail, None)
        assert (row[name] is None) is (is_bad or (place % 3 == 2 and name in ("name", "category")))
        kept = json.loads(row[VALUE])
        assert kept.pop(NOT_UTF8, None) == (name if is_bad else None)
        shown = "0x4DFC6C6C6572" if is_bad and name == "name" else "Müller"
        assert kept["name"] == [shown, "Müller", None][place % 3]


@pytest.mark.spark
@pytest.mark.usefixtures("active")
def test_a_key_and_an_operation_that_are_not_utf8_are_shown_in_hex(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": texts(BAD, GOOD), "Op": texts(b"I", BAD)}), tmp_path / "a.parquet")
    found = read_footer(tmp_path / "a.parquet", "shop.item")
    dimension = Dimension(name=TableName("shop", "item"), schema=Schema(found.schema.columns[:1]), key=("id",))
    reading = Reading(dimension=dimension, base=str(tmp_path), op_column="Op")
    rows = read_parquet(spark, [str(tmp_path / "a.parquet")], reading, found, has_op=True).orderBy(LINE).collect()
    assert [(row["id"], row[OP_TEXT], row[KEY_MISFIT], row[MISFIT]) for row in rows] == [
        (None, "I", "the text is not valid UTF-8 (column id)", None),
        ("Müller", "0x4DFC6C6C6572", None, None),
    ]
    assert json.loads(rows[0][VALUE]) == {"id": "0x4DFC6C6C6572", NOT_UTF8: "id"}


@pytest.mark.parametrize("name", ["name", "category"])
def test_texts_that_are_not_utf8_are_left_to_spark(tmp_path: Path, name: str) -> None:
    columns = {n: values for n, values in with_texts(GOOD).items() if n in ("id", "name", "category")}
    schema = Schema(tuple(Column(n, Type("string")) for n in columns))
    reading = Reading(dimension=Dimension(name=TableName("shop", "item"), schema=schema), base=str(tmp_path))
    for bad, end in ((GOOD, nullcontext()), (BAD, pytest.raises(SparkNeeded))):
        pq.write_table(pa.table({**columns, name: with_texts(bad)[name]}), tmp_path / "a.parquet")
        with end:
            read_here((tmp_path / "a.parquet").read_bytes(), reading, has_op=False, called={})


@pytest.mark.spark
@pytest.mark.usefixtures("active")
def test_a_file_of_nothing_but_columns_without_values_has_its_rows(tmp_path: Path, spark: SparkSession) -> None:
    pq.write_table(pa.table({"id": pa.nulls(2), "note": pa.nulls(2)}), tmp_path / "a.parquet")
    schema = Schema((Column("id", Type("int")), Column("note", Type("date"))))
    dimension = Dimension(name=TableName("shop", "item"), schema=schema, key=("id",))
    found = read_footer(tmp_path / "a.parquet", "shop.item").with_types(dimension.schema)
    reading = Reading(dimension=dimension, base=str(tmp_path))
    rows = read_parquet(spark, [str(tmp_path / "a.parquet")], reading, found, has_op=False)
    assert [tuple(row) for row in rows.select("id", "note", LINE).collect()] == [(None, None, 1), (None, None, 2)]


def test_a_column_without_values_has_the_type_that_is_known(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "note": pa.nulls(1)}), tmp_path / "a.parquet")
    found, own = read_footer(tmp_path / "a.parquet", "shop.item"), Column("id", Type("bigint"))
    assert found == Footer(Schema((own,)), (("note", PhysicalForm.NOTHING),))
    note = Column("note", Type("date"))
    assert found.with_types(None, Schema((note,))).schema == Schema((own, note))
    now = Schema((replace(note, name="remark"),))
    assert found.with_types(now, renames={note.name: "remark"}).schema == Schema((own, note))
    assert found.with_types(now).schema == Schema((own,))
    with pytest.raises(SourceError, match=r"column note of a.parquet has no type"):
        refuse_unknown(found.with_types(Schema((own,))), "shop.item", "a.parquet")
    refuse_unknown(found.with_types(Schema((note,))), "shop.item", "a.parquet")


@pytest.mark.parametrize("build", [dms.build, files.build])
def test_where_rules_make_the_columns_of_a_table_one_without_values_is_never_left_out(
    tmp_path: Path, build: Callable[[Mapping[str, Any], Runtime], Source[Frame]]
) -> None:
    """The table may have it, by whatever name: an update that made it NULL would seem to lack it."""
    folder = tmp_path / "landing" / "shop" / "item"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"Op": ["I"], "id": [1], "note": pa.nulls(1)}), folder / "20261105-100000000.parquet")
    source = build({"path": "landing", "formats": {}}, Runtime(no_spark, tmp_path, small_batch=100))
    dimension = Dimension(name=TableName("shop", "item"), schema=Schema(()), key=("id",))
    selection = source.select_objects(dimension, ObjectHistory(has_no_batch=True))
    with pytest.raises(AssertionError, match="needs no Spark"):  # it goes on to read such a column
        source.read(dimension, selection, 1)
    with pytest.raises(SourceError, match=r"column note of 20261105-100000000.parquet has no type"):
        source.read(replace(dimension, has_column_rules=True), selection, 1)


@pytest.mark.parametrize(
    ("nanos", "is_taken"),
    [
        ([0, None, -1_000, MICROS * 1000], True),
        ([0] * 70_000 + [1], False),
        ([-1], False),
        ([MICROS * 1000 + 999], False),
    ],
)
def test_times_that_spark_would_cut_stop_the_table(tmp_path: Path, nanos: list[int | None], is_taken: bool) -> None:
    content = pa.table({"at": pa.array(nanos, pa.timestamp("ns"))})
    pq.write_table(content, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    if is_taken:
        assert read_footer(tmp_path / "a.parquet", "shop.item") == Footer(
            Schema((Column("at", Type("timestamp")),))
        )
        return
    with pytest.raises(SourceError, match=r"column at of .* has times that lakeward does not hold") as caught:
        read_footer(tmp_path / "a.parquet", "shop.item")
    assert "INT96" in caught.value.found
