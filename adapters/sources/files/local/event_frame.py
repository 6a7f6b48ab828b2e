"""Read a small batch of CSV or Parquet files in this process, as an event frame in Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.files.event_frame import ODD, flags_near_words
from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.json_lines.other_tables import HAS_OTHER
from lakeward.adapters.sources.files.named_fields import NEAR_WORD, fields_of, flag_near_words
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.rows.local_files import SmallFile, read_files
from lakeward.adapters.sources.rows.parquet_footers import Footer
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_source_rows import FilePlace
from lakeward.adapters.spark.frames.source_rows import OP_TEXT, SEQUENCE_TEXT, TIME_TEXT

_FIRST = -2_208_988_800_000_000
"""The beginning of 1900 in microseconds since 1970: later times are the same in all calendars."""


def read_here(table: TableFiles, files: Sequence[File], small_batch: int) -> pa.Table:
    """Return the events of a small batch; raises SparkNeeded if Spark must read it."""
    reason = _why_in_spark(table, files)
    if reason is not None:
        raise SparkNeeded(reason)
    small = [_small(table, file, rank) for rank, file in enumerate(files)]
    extra_columns = [NEAR_WORD] if flags_near_words(table) else []
    events = read_files(small, table.reading, small_batch, partial(_with_mapping, table), extra_columns)
    flag = pa.repeat(pa.scalar(False), events.num_rows)
    return events.append_column(ODD, flag).append_column(HAS_OTHER, flag)


def _why_in_spark(table: TableFiles, files: Sequence[File]) -> str | None:
    others = [file for file in files if file.format not in ("csv", "parquet")]
    if others:
        return f"{others[0].item.name} is neither CSV nor Parquet"
    if table.options.path_columns:
        return "columns come from the paths of files"
    if table.dates_snapshots:
        return "rows have the time in the name of their file"
    nested = [name for name in fields_of(table.options).values() if "." in name]
    return f"{nested[0]} may be a field of a column" if nested else None


def _small(table: TableFiles, file: File, rank: int) -> SmallFile:
    column_names = () if file.schema is None else file.schema.names
    return SmallFile(
        file.item.name,
        file.item.size,
        partial(table.folder.open, table.dimension.source, file.item.name),
        FilePlace(file.item.order, rank, is_load=table.is_snapshot, has_op=table.has_op),
        file.layout,
        None if file.schema is None else Footer(file.schema, file.forms, file.written),
        {new: old for old, new in table.dimension.policies.renames.items() if old in column_names},
    )


def _with_mapping(table: TableFiles, rows: pa.Table) -> pa.Table:
    """Return rows with operation, order and time filled from columns, as `column_mapping.with_mapping` does."""
    named = fields_of(table.options)
    columns = {setting: rows.column(name) for setting, name in named.items() if name in rows.column_names}
    operation, order = columns.get("operation"), columns.get("order_by")
    time = columns.get("time", order)
    mapped_columns = {}
    if operation is not None:
        if not pa.types.is_string(operation.type):
            raise SparkNeeded(f"the column {named['operation']} names the operation and is no text")
        mapped_columns[OP_TEXT] = operation
    if order is not None:
        mapped_columns[SEQUENCE_TEXT] = (_micros(order) if pa.types.is_temporal(order.type) else order).cast(
            pa.string()
        )
    if time is not None and pa.types.is_temporal(time.type):
        micros = _micros(time)
        if pc.any(pc.less(micros, _FIRST)).as_py():
            raise SparkNeeded("a row has a time before 1900")
        mapped_columns[TIME_TEXT] = pc.strftime(micros.cast(pa.timestamp("us")), format="%Y-%m-%d %H:%M:%S")
    for name, texts in mapped_columns.items():
        rows = rows.set_column(rows.column_names.index(name), name, texts)
    return flag_near_words(rows, table.reading.operations) if flags_near_words(table) else rows


def _micros(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times or dates as microseconds since 1970."""
    return values.cast(pa.timestamp("us")).cast(pa.int64())
