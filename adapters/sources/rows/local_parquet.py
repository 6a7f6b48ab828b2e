"""Parquet files read in this process as Arrow tables, equal to the frames of `rows.parquet_frames`.

Files with rows that go into quarantine are left to Spark, which writes the texts of these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from io import BytesIO
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.adapters.sources.rows.read_spec import Reading
from lakeward.adapters.spark.frames.local_casts import SparkNeeded, arrow_type
from lakeward.adapters.spark.frames.local_source_rows import NAMES
from lakeward.adapters.spark.frames.source_rows import (
    BLANK,
    BROKEN,
    HAS_IMAGE,
    KEY_MISFIT,
    LINE,
    MISFIT,
    OP_TEXT,
    SEQUENCE_TEXT,
    TIME_TEXT,
    TORN,
    VALUE,
    before_column,
)
from lakeward.adapters.spark.sql import names
from lakeward.core.schema import Column, Type

_YEARS: Final = tuple((day - date(1970, 1, 1)).days for day in (date(1900, 1, 1), date(9999, 12, 31)))
"""The first and the last day, counted from 1970, that are the same in all calendars and that the lake can store."""

_TEXT: Final = Type("string")


def why_spark(reading: Reading) -> str | None:
    """Return in words why Spark must read the Parquet files of a table; None if they may be read here."""
    if reading.dimension.keeps_text:
        return "each row of Parquet is kept as a text"
    nested = [item.name for item in reading.dimension.schema if item.type.is_nested]
    return f"the column {nested[0]} is nested" if nested else None


def read_parquet(data: bytes, reading: Reading, *, has_op: bool, called: Mapping[str, str]) -> pa.Table:
    """Return the rows of one file; raises SparkNeeded if Spark must read them.

    `called` has the names in the file of columns that were renamed, by their present names.
    """
    try:
        file = pq.ParquetFile(BytesIO(data), coerce_int96_timestamp_unit="us").read()
        file.validate(full=True)
        return _rows(_File(file, reading), reading, has_op=has_op, called=called)
    except (pa.ArrowException, OSError) as error:
        raise SparkNeeded(f"a file of Parquet cannot be read here: {error}") from error


class _File:
    """The columns of one file, by their names in the file."""

    def __init__(self, rows: pa.Table, reading: Reading) -> None:
        self.rows = rows
        self.reading = reading
        self.count = rows.num_rows

    def has(self, name: str) -> bool:
        return name in self.rows.column_names

    def values(self, name: str | None, item: Column) -> pa.Array:
        """Return the values of a column in the type of the table; NULL if the file has no such column."""
        if name is None or not self.has(name):
            return pa.nulls(self.count, arrow_type(item.type))
        values = self.rows.column(name).combine_chunks().cast(arrow_type(item.type))
        if pa.types.is_temporal(values.type):
            _refuse_other_years(name, values)
        return self._unpadded(values)

    def text(self, name: str | None) -> pa.Array:
        """Return a column with the operation, time or sequence of rows, as texts; NULL if the file lacks it."""
        if name is None or not self.has(name):
            return pa.nulls(self.count, pa.string())
        values = self.rows.column(name).combine_chunks()
        if pa.types.is_timestamp(values.type):
            moments = self.values(name, Column(name, Type("timestamp"))).cast(pa.timestamp("us"))
            return pc.strftime(moments, format="%Y-%m-%d %H:%M:%S")
        is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        if not is_text and not pa.types.is_integer(values.type):
            raise SparkNeeded(f"the column {name} is of the type {values.type}")
        return values.cast(pa.string())

    def _unpadded(self, values: pa.Array) -> pa.Array:
        """Return texts without the trailing blanks that the endpoint adds."""
        is_padded = self.reading.is_padded and pa.types.is_string(values.type)
        return pc.utf8_rtrim(values, characters=" ") if is_padded else values

    def sequence(self, name: str | None) -> pa.Array:
        """Return the sequence of each row as a text."""
        return self._unpadded(self.text(name))


def _refuse_other_years(name: str, values: pa.Array) -> None:
    days = values.cast(pa.timestamp("us")).cast(pa.date32(), safe=False).cast(pa.int32())
    bounds = pc.min_max(days).as_py()
    if bounds["min"] is not None and not _YEARS[0] <= bounds["min"] <= bounds["max"] <= _YEARS[1]:
        raise SparkNeeded(f"the column {name} has times before 1900 or after 9999")


def _rows(file: _File, reading: Reading, *, has_op: bool, called: Mapping[str, str]) -> pa.Table:
    own = {item.name: file.values(called.get(item.name, item.name), item) for item in reading.dimension.schema}
    before, lacks = {}, False
    for index, item in enumerate(reading.before_columns):
        name = None if reading.before_prefix is None else reading.before_prefix + called.get(item.name, item.name)
        lacks = lacks or name is None or not file.has(name)
        before[before_column(index)] = file.values(name, item)
    nothing, never = pa.nulls(file.count, pa.string()), pa.repeat(pa.scalar(False), file.count)
    has_image = pa.scalar(None if lacks else True, pa.bool_())
    return pa.table(
        {
            **own,
            **before,
            OP_TEXT: file.text(reading.op_column if has_op else None),
            TIME_TEXT: file.text(reading.timestamp_column),
            SEQUENCE_TEXT: file.sequence(reading.sequence_column),
            LINE: pa.array(range(1, file.count + 1), pa.int64()),
            **dict.fromkeys((VALUE, KEY_MISFIT, MISFIT, BROKEN), nothing),
            **dict.fromkeys((BLANK, TORN), never),
            names.UNSET: pa.nulls(file.count, NAMES),
            HAS_IMAGE: pa.repeat(has_image, file.count),
        }
    )
