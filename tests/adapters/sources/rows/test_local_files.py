"""The files of a small batch: which are read in this process, and what is left to Spark."""

from __future__ import annotations

import gzip
from functools import partial
from io import BytesIO

import pytest

from lakeward.adapters.sources.csv.layout import OP, OPERATIONS, Layout
from lakeward.adapters.sources.rows.local_files import SmallFile, read_files
from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_source_rows import FilePlace
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Column, Schema, Type

SCHEMA = Schema((Column("id", Type("int")), Column("day", Type("date")), Column("at", Type("timestamp"))))
READING = Reading(dimension=Dimension(name=TableName("s", "t"), schema=SCHEMA, key=("id",)), operations=OPERATIONS)
LAYOUT = Layout((OP, *SCHEMA.names), has_header=False, is_crlf=False)
ROW = b"I,1,2026-01-02,2026-01-02 03:04:05\n"


def file(data: bytes, name: str = "a.csv", *, rank: int = 0, size: int | None = None) -> SmallFile:
    place = FilePlace(5 + rank, rank, is_load=False, has_op=True)
    return SmallFile(name, len(data) if size is None else size, partial(BytesIO, data), place, LAYOUT)


def test_rows_of_all_files_are_there_in_their_order() -> None:
    packed = gzip.compress(ROW) + gzip.compress(ROW)
    found = read_files([file(ROW), file(packed, "b.csv.gz", rank=1)], READING, 3)
    assert found.select([names.OBJECT, names.ROW]).to_pylist() == [
        {names.OBJECT: 5, names.ROW: 1},
        {names.OBJECT: 6, names.ROW: 1},
        {names.OBJECT: 6, names.ROW: 2},
    ]


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (file(ROW, size=5000), "5,000 bytes"),
        (file(ROW * 4), "more than 3 rows"),
        (file(gzip.compress(b"\n" * 5000), "a.csv.gz"), "a small batch"),
        (file(gzip.compress(ROW)[:-9], "a.csv.gz"), "ends early"),
        (file(gzip.compress(ROW) + b"\0", "a.csv.gz"), "cannot be read here"),
        (file(ROW, "a.csv.gz"), "cannot be read here"),
        (file(ROW, "a.csv.zst"), "not packed by gzip"),
        (file(ROW, "a.csv.GZ"), "not packed by gzip"),
    ],
)
def test_other_files_are_left_to_spark(one: SmallFile, why: str) -> None:
    with pytest.raises(SparkNeeded, match=why):
        read_files([one], READING, 3)


@pytest.mark.parametrize(
    ("reading", "why"),
    [
        ({"patterns": {"day": "d-MMM-yy"}}, "has the format 'd-MMM-yy'"),
        ({"source_zone": "Europe/Berlin"}, "in the zone Europe/Berlin"),
        ({"indicator": "id"}, "tells the operation"),
    ],
)
def test_tables_that_spark_reads_say_why(reading: dict[str, object], why: str) -> None:
    own = Reading(dimension=READING.dimension, operations=OPERATIONS, **reading)  # type: ignore[arg-type]
    with pytest.raises(SparkNeeded, match=why):
        read_files([file(ROW)], own, 3)


def test_no_batch_is_small_where_the_settings_say_so() -> None:
    with pytest.raises(SparkNeeded, match="more than a small batch"):
        read_files([file(ROW)], READING, 0)
