"""Columns of Parquet files by what they mean, however they are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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

from lakeward.adapters import dms, files
from lakeward.adapters.landed.footers import Footer, Form, footer, refuse_unknown
from lakeward.adapters.landed.parquet import read_parquet
from lakeward.adapters.landed.reading import Reading
from lakeward.adapters.spark.local_frame import Frame
from lakeward.adapters.spark.rows import LINE, MISFIT, VALUE
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SourceError
from lakeward.core.ledger import Past
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
    "uid": (
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([ID.bytes] * 5, pa.binary(16))),
        "string",
        str(ID),
    ),
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
    """Of types that no name tells, of wider ones that are declared, of none; what would be cut is told whole."""
    pq.write_table(pa.table({name: values for name, (values, _, _) in COLUMNS.items()}), tmp_path / "a.parquet")
    schema = Schema(tuple(Column(name, parse_type(type_)) for name, (_, type_, _) in COLUMNS.items()))
    found = footer(tmp_path / "a.parquet", "shop.item").with_known(schema)
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
    told = json.loads(rows[1][VALUE])
    assert (told["fine"], told["uid"], told["empty"]) == ("2026-11-21T10:20:30.123456001", str(ID), None)


@pytest.mark.spark
@pytest.mark.usefixtures("active")
def test_a_file_of_nothing_but_columns_without_values_has_its_rows(tmp_path: Path, spark: SparkSession) -> None:
    pq.write_table(pa.table({"id": pa.nulls(2), "note": pa.nulls(2)}), tmp_path / "a.parquet")
    schema = Schema((Column("id", Type("int")), Column("note", Type("date"))))
    dimension = Dimension(name=TableName("shop", "item"), schema=schema, key=("id",))
    found = footer(tmp_path / "a.parquet", "shop.item").with_known(dimension.schema)
    reading = Reading(dimension=dimension, base=str(tmp_path))
    rows = read_parquet(spark, [str(tmp_path / "a.parquet")], reading, found, has_op=False)
    assert [tuple(row) for row in rows.select("id", "note", LINE).collect()] == [(None, None, 1), (None, None, 2)]


def test_a_column_without_values_has_the_type_that_is_known(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "note": pa.nulls(1)}), tmp_path / "a.parquet")
    found, own = footer(tmp_path / "a.parquet", "shop.item"), Column("id", Type("bigint"))
    assert found == Footer(Schema((own,)), (("note", Form.NOTHING),))
    note = Column("note", Type("date"))
    assert found.with_known(None, Schema((note,))).schema == Schema((own, note))
    now = Schema((replace(note, name="remark"),))
    assert found.with_known(now, renames={note.name: "remark"}).schema == Schema((own, note))
    assert found.with_known(now).schema == Schema((own,))
    with pytest.raises(SourceError, match=r"column note of a.parquet has no type"):
        refuse_unknown(found.with_known(Schema((own,))), "shop.item", "a.parquet")
    refuse_unknown(found.with_known(Schema((note,))), "shop.item", "a.parquet")


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
    taken = source.take(dimension, Past(begins=True))
    with pytest.raises(AssertionError, match="needs no Spark"):  # it goes on to read such a column
        source.read(dimension, taken, 1)
    with pytest.raises(SourceError, match=r"column note of 20261105-100000000.parquet has no type"):
        source.read(replace(dimension, has_column_rules=True), taken, 1)


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
        assert footer(tmp_path / "a.parquet", "shop.item") == Footer(Schema((Column("at", Type("timestamp")),)))
        return
    with pytest.raises(SourceError, match=r"column at of .* has times that lakeward does not hold") as caught:
        footer(tmp_path / "a.parquet", "shop.item")
    assert "INT96" in caught.value.found
