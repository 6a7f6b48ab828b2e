"""Read plain files with Spark, as an event frame."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.sources.files.column_mapping import with_mapping
from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.json_lines.frames import UNDECLARED, json_rows, read_lines
from lakeward.adapters.sources.files.json_lines.message_warnings import with_missing_order
from lakeward.adapters.sources.files.json_lines.messages import message_rows
from lakeward.adapters.sources.files.json_lines.other_tables import HAS_OTHER
from lakeward.adapters.sources.files.named_fields import FIELD_FLAGS, fields_of, near_word
from lakeward.adapters.sources.files.paths.file_names import COUNTER_BITS
from lakeward.adapters.sources.files.paths.path_columns import with_path_values, without_path_columns
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.decoded import MESSAGE_FLAGS, OTHER_TABLE
from lakeward.adapters.sources.rows.csv_frames import WHOLE_FILES, read_csv
from lakeward.adapters.sources.rows.parquet_footers import Footer
from lakeward.adapters.sources.rows.parquet_frames import read_parquet
from lakeward.adapters.sources.rows.read_spec import NumberedFile, file_frame
from lakeward.adapters.spark.frames.event_frame import DATABASE, INITIAL, LOG
from lakeward.adapters.spark.frames.source_rows import to_events
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import text

_NAME_TIME: Final = f"nullif(shiftright({names.OBJECT}, {COUNTER_BITS}), 0L) * 1000L"
"""The time in the name of a row's file, in microseconds since 1970 without a zone, as SQL; NULL if it has none."""

ODD: Final = "_lakeward_odd"
"""Flags a row with undeclared columns."""


def frame_of(table: TableFiles, files: Sequence[File]) -> DataFrame:
    """Return the events of files that have the same columns, in one frame."""
    spark = table.spark()
    is_text = any(file.format != "parquet" for file in files)
    for name, value in WHOLE_FILES.items():
        spark.conf.set(name, value) if is_text else spark.conf.unset(name)
    numbered = [
        NumberedFile(
            table.path_of(file.item.name), file.item.order, rank, is_load=table.is_snapshot, has_op=table.has_op
        )
        for rank, file in enumerate(files)
    ]
    places = file_frame(spark, numbered, table.reading)
    groups: dict[Hashable, list[File]] = defaultdict(list)
    for file in files:
        groups[file.kind].append(file)
    own = without_path_columns(table)
    rows = reduce(
        partial(DataFrame.unionByName, allowMissingColumns=True),
        [_with_path(_rows(own, group, places), table, group) for group in groups.values()],
    )
    if not table.options.is_messages:
        rows = with_mapping(rows, table.options, table.dimension)
        if flags_near_words(table):
            rows = rows.selectExpr("*", near_word([*table.reading.operations]))
    beside = (UNDECLARED, OTHER_TABLE, *MESSAGE_FLAGS, DATABASE, INITIAL, LOG, *FIELD_FLAGS)
    also = tuple(name for name in beside if name in rows.columns)
    events = to_events(rows, places, table.reading, also)
    if table.dates_snapshots:
        zone = text(table.options.source_zone)
        time = f"unix_micros(to_utc_timestamp(timestamp_micros({_NAME_TIME}), {zone}))"
        events = events.withColumn(names.TIME, F.expr(time))
    return with_missing_order(events, table.options).selectExpr(
        "*",
        f"{UNDECLARED} IS NOT NULL AS {ODD}" if UNDECLARED in also else f"false AS {ODD}",
        f"{OTHER_TABLE} IS NOT NULL AS {HAS_OTHER}" if OTHER_TABLE in also else f"false AS {HAS_OTHER}",
    )


def flags_near_words(table: TableFiles) -> bool:
    """Return whether rows are flagged whose word for the operation is nearly one that the settings name."""
    return not table.options.is_messages and table.has_op and table.reading.takes_other_words


def _with_path(rows: DataFrame, table: TableFiles, files: Sequence[File]) -> DataFrame:
    names, is_parquet = [file.item.name for file in files], files[0].format == "parquet"
    return with_path_values(rows, table, names, is_parquet=is_parquet)


def _rows(table: TableFiles, files: Sequence[File], places: DataFrame) -> DataFrame:
    """Return the rows of files of one kind, read at once."""
    spark, reading, options, first = table.spark(), table.reading, table.options, files[0]
    paths = [table.path_of(file.item.name) for file in files]
    if first.layout is not None:
        return read_csv(spark, paths, first.layout, reading, has_torn_rows=table.has_torn_rows)
    if first.format == "parquet" and first.schema is not None:
        has = first.schema.names
        called = {new: old for old, new in table.dimension.policies.renames.items() if old in has}
        has_op = options.operation is not None and options.operation.column in has
        plain = replace(reading, sequence_column=None)  # `with_mapping` gives rows their order
        footer = Footer(first.schema, first.forms, first.written)
        return read_parquet(spark, paths, plain, footer, has_op=has_op, called=called)
    if first.format == "json":
        keeps_absent = options.absent == "unset"
        return json_rows(read_lines(spark, paths, reading), reading, fields_of(options), keeps_absent=keeps_absent)
    table = table.of_partitions([file.item.name for file in files])
    return message_rows(table, files, paths, places)
