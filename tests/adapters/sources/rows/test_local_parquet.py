"""Parquet of a small batch is read here as Spark reads it, or left to Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.sources.csv.layout import OPERATIONS
from lakeward.adapters.sources.rows.local_files import SmallFile, read_files
from lakeward.adapters.sources.rows.parquet_footers import Footer, read_footer
from lakeward.adapters.sources.rows.parquet_frames import read_parquet
from lakeward.adapters.sources.rows.read_spec import NumberedFile, Reading, file_frame
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_source_rows import FilePlace
from lakeward.adapters.spark.frames.source_rows import to_events
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import ORDERED, Dimension, TableName
from lakeward.core.events import Sequences
from lakeward.core.schema import Column, Schema, parse_type

MOMENT: Final = datetime(2026, 11, 21, 10, 20, 30, tzinfo=UTC)
COLUMNS: Final[Mapping[str, tuple[pa.DataType, str, Callable[[int], Any]]]] = {
    "id": (pa.int32(), "bigint", lambda n: n),
    "flag": (pa.bool_(), "boolean", lambda n: n % 2 == 0),
    "small": (pa.uint16(), "int", lambda n: n),
    "share": (pa.float32(), "double", lambda n: n / 7),
    "single": (pa.float32(), "float", lambda n: n / 3),
    "price": (pa.decimal128(10, 2), "decimal(14,4)", lambda n: Decimal(n) / 100),
    "name": (pa.large_string(), "string", lambda n: f"n{n}  "),
    "category": (pa.dictionary(pa.int8(), pa.string()), "string", lambda n: "ab"[n % 2]),
    "bytes": (pa.binary(), "binary", lambda n: bytes([n])),
    "day": (pa.date64(), "date", lambda n: date(2026, 1, 1) + timedelta(days=n)),
    "at": (pa.timestamp("ms", "UTC"), "timestamp", lambda n: MOMENT + timedelta(milliseconds=n)),
    "wall": (
        pa.timestamp("us"),
        "timestamp_ntz",
        lambda n: MOMENT.replace(tzinfo=None) + timedelta(microseconds=n),
    ),
}
SCHEMA: Final = Schema(tuple(Column(name, parse_type(of[1])) for name, of in COLUMNS.items()))
TABLE: Final = Dimension(
    name=TableName("s", "t"), schema=SCHEMA, key=("id", "name"), sequences=Sequences.PLACES, lateness=ORDERED
)
READING: Final = Reading(
    dimension=TABLE,
    operations=OPERATIONS,
    timestamp_column="changed",
    sequence_column="place",
    before_prefix="b_",
    is_padded=True,
)


def rows_of(random: Random, count: int) -> pa.Table:
    """Return rows of changes, some with another key before, with two columns by old names."""

    def cells(value: Callable[[int], Any], *, has_nulls: bool) -> list[Any]:
        return [None if has_nulls and random.random() < 0.2 else value(random.randrange(100)) for _ in range(count)]

    made = {
        name: pa.array(cells(value, has_nulls=name not in (*TABLE.key, "category")), type_)
        for name, (type_, _, value) in COLUMNS.items()
    }
    made["title"] = made.pop("name")
    made["b_id"] = pa.array(cells(lambda n: n, has_nulls=True), pa.int32())
    made["b_title"] = pa.array(cells(lambda n: f"n{n}", has_nulls=True))
    made["Op"] = pa.array(random.choices("IUD", k=count))
    made["changed"] = pa.array(cells(COLUMNS["at"][2], has_nulls=False), pa.timestamp("ms", "UTC"))
    made["place"] = pa.array([random.randrange(1, 999) for _ in range(count)], pa.int64())
    return pa.table(made)


def write(folder: Path, rows: pa.Table, name: str) -> tuple[Path, Footer]:
    path = folder / name
    pq.write_table(rows, path)
    return path, read_footer(path, "s.t")


def small(path: Path, found: Footer, rank: int = 0, called: Mapping[str, str] | None = None) -> SmallFile:
    place = FilePlace(rank * 7, rank, is_load=False, has_op=True)
    size = path.stat().st_size
    return SmallFile(path.name, size, lambda: path.open("rb"), place, footer=found, called=called or {})


CALLED: Final = {"name": "title"}


def types_of(rows: pa.Table) -> Mapping[str, str]:
    """Return the types of columns; Spark says of some lists that nothing in them is NULL."""
    return {field.name: str(field.type).replace(" not null", "") for field in rows.schema}


@pytest.mark.spark
def test_event_frames_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    random = Random("parquet")
    found = [write(tmp_path, rows_of(random, random.randrange(3, 20)), f"{rank:03}.parquet") for rank in range(100)]
    reading = replace(READING, base=str(tmp_path))
    here = read_files([small(*one, rank, CALLED) for rank, one in enumerate(found)], reading, 20_000)

    numbered = [NumberedFile(str(path), rank * 7, rank, False, True) for rank, (path, _) in enumerate(found)]
    paths = [str(path) for path, _ in found]
    rows = read_parquet(spark, paths, reading, found[0][1], has_op=True, called=CALLED)
    frame = to_arrow(to_events(rows, file_frame(spark, numbered, reading), reading))
    place = [(names.OBJECT, "ascending"), (names.ROW, "ascending")]
    assert types_of(here) == types_of(frame)
    for own, wanted in zip(here.to_pylist(), frame.sort_by(place).to_pylist(), strict=True):
        assert repr(own) == repr(wanted)
    assert 0 < here.column(names.OLD).null_count < here.num_rows


# Without Spark.


def table_of(name: str, values: Sequence[Any], type_: pa.DataType) -> pa.Table:
    return pa.table({"Op": ["I"] * len(values), "id": range(len(values)), name: pa.array(values, type_)})


@pytest.mark.parametrize(
    ("name", "values", "type_", "why"),
    [
        ("day", [date(1899, 12, 31)], pa.date32(), "before 1900"),
        ("at", [253_402_300_800_000_000], pa.timestamp("us", "UTC"), "after 9999"),
        ("at", [1_001], pa.timestamp("ns", "UTC"), "plain types"),
        ("id_", [None], pa.null(), "plain types"),
        ("parts", [[1]], pa.list_(pa.int32()), "nested"),
        ("name", [b"\xff"], pa.binary(), "cannot be read here"),
    ],
)
def test_spark_reads_others(tmp_path: Path, name: str, values: Sequence[Any], type_: pa.DataType, why: str) -> None:
    path, found = write(tmp_path, table_of(name, values, type_), "a.parquet")
    schema = Schema(tuple(c for c in found.schema if c.name != "Op"))
    if name == "name":
        schema = Schema((schema.columns[0], Column("name", parse_type("string"))))
    reading = Reading(dimension=replace(TABLE, schema=schema, key=("id",)), operations=OPERATIONS)
    with pytest.raises(SparkNeeded, match=why):
        read_files([small(path, found)], reading, 10)


@pytest.mark.parametrize(
    ("operations", "keeps_text", "why"), [("IX", False, "goes into quarantine"), ("I", True, "kept as a text")]
)
def test_rows_with_texts_are_left_to_spark(tmp_path: Path, operations: str, keeps_text: bool, why: str) -> None:
    rows = pa.table({"Op": [*operations], "id": [*range(len(operations))]})
    path, found = write(tmp_path, rows, "a.parquet")
    schema = Schema((Column("id", parse_type("bigint")),))
    table = replace(TABLE, schema=schema, key=("id",), keeps_text=keeps_text)
    with pytest.raises(SparkNeeded, match=why):
        read_files([small(path, found)], Reading(dimension=table, operations=OPERATIONS), 10)
