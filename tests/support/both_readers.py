"""Rows of lines as Spark and plain Python read them, with one job of Spark for all feeds."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from functools import reduce
from struct import pack, unpack
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type

from lakeward.adapters.sources.files.column_mapping import with_mapping
from lakeward.adapters.sources.files.event_frame import _rows
from lakeward.adapters.sources.files.file_columns import File, with_schema
from lakeward.adapters.sources.files.json_lines.messages import with_versions
from lakeward.adapters.sources.files.local.arrow_tables import to_table
from lakeward.adapters.sources.files.local.line_reader import (
    LocalMessages,
    read_lines_of,
    read_local,
    read_rows,
    why_not_local,
)
from lakeward.adapters.sources.files.local.rows import RowLists
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.debezium import Debezium
from lakeward.adapters.sources.rows.csv_frames import WHOLE_FILES
from lakeward.adapters.sources.rows.read_spec import NumberedFile, file_frame
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.source_rows import LINE, NAME, before_column
from lakeward.adapters.spark.sql.inline_rows import as_json
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import Type

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Feed:
    """Files of a table with its settings. Plain Python reads each line by itself if lines are independent."""

    table: TableFiles
    names: Sequence[str]
    is_apart: bool = False

    @property
    def files(self) -> Sequence[File]:
        """The files, with the schemas of their messages."""
        items = [SourceObject(name, order, 1, 0) for order, name in enumerate(self.names, 1)]
        own_files = [File(item, self.table.format_of(item.name)) for item in items]
        return with_versions(self.table, own_files)


Rows = Mapping[tuple[str, int], Mapping[str, Any]]


@dataclass(frozen=True)
class Answer:
    """The rows of both readers for a feed. `left` says why plain Python leaves lines, or the whole feed, to Spark.

    `types` has the columns with another type in Arrow, and the files with other schemas.
    """

    spark: Rows
    local: Rows
    left: Sequence[str] = ()
    types: Sequence[str] = ()

    def differences(self) -> list[str]:
        """Return the differences as texts. Lines left to Spark have none."""
        if self.left and not self.local:
            return []
        differing = [*self.types, *([] if self.spark.keys() == self.local.keys() else ["other lines"])]
        for place, row in self.spark.items():
            own = self.local.get(place, {})
            differing += [
                f"{place} {name}: Spark has {row.get(name)!r}, Python {own.get(name)!r}"
                for name in sorted({*row, *own})
                if repr(row.get(name)) != repr(own.get(name))
            ]
        return differing


def ask_both(spark: SparkSession, feeds: Sequence[Feed]) -> Sequence[Answer]:
    """Return the rows of both readers for feeds."""
    for name, value in WHOLE_FILES.items():
        spark.conf.set(name, value)
    files_of_feeds = [(feed, feed.files) for feed in feeds]
    tables = [replace(feed.table, dimension=with_schema(feed.table, files)) for feed, files in files_of_feeds]
    frames = [_frame(spark, table, files) for table, (_, files) in zip(tables, files_of_feeds, strict=True)]
    rows = _read_by_spark(frames, tables)
    every = zip(rows, frames, tables, files_of_feeds, strict=True)
    return [_answer(own, feed, table, files, frame) for own, frame, table, (feed, files) in every]


def _read_by_spark(of_feeds: Sequence[DataFrame], tables: Sequence[TableFiles]) -> Sequence[Rows]:
    frames = [_as_json(str(number), frame) for number, frame in enumerate(of_feeds)]
    rows: list[dict[tuple[str, int], Mapping[str, Any]]] = [{} for _ in tables]
    for number, found in reduce(DataFrame.unionByName, frames).collect():
        row = _typed(json.loads(found, parse_float=Decimal), tables[int(number)])
        rows[int(number)][row[NAME], row[LINE]] = row
    return rows


def _frame(spark: SparkSession, table: TableFiles, files: Sequence[File]) -> DataFrame:
    numbered = [NumberedFile(table.path_of(f.item.name), f.item.order, n, False, True) for n, f in enumerate(files)]
    rows = _rows(table, files, file_frame(spark, numbered, table.reading))
    return rows if table.options.is_messages else with_mapping(rows, table.options, table.dimension)


def _as_json(number: str, rows: DataFrame) -> DataFrame:
    return rows.selectExpr(f"{text(number)} AS feed", f"{as_json([quoted(name) for name in rows.columns])} AS row")


def _typed(row: dict[str, Any], table: TableFiles) -> Mapping[str, Any]:
    """Return a row of Spark, read from JSON, with the values of plain Python."""
    types = {column.name: column.type for column in table.dimension.schema}
    types |= {before_column(n): column.type for n, column in enumerate(table.reading.before_columns)}
    return {name: _value(value, types[name]) if name in types else value for name, value in row.items()}


def _value(value: Any, type_: Type) -> Any:
    match type_.name:
        case _ if value is None:
            return None
        case "list" | "map" | "struct":
            return _nested(value, type_)
        case "decimal":
            return Decimal(str(value)).quantize(Decimal((0, (1,), -type_.scale)), context=Context(prec=80))
        case "double":
            return float(value)
        case "float":
            return unpack("f", pack("f", float(value)))[0]
        case "binary":
            return base64.b64decode(value)
        case "date":
            return (date.fromisoformat(value) - EPOCH.date()).days
        case "timestamp" | "timestamp_ntz":
            moment = datetime.fromisoformat(value)
            since = moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        case _:
            return value


def _nested(value: Any, type_: Type) -> Any:
    match type_.name:
        case "struct":
            return {part.name: _value(value[part.name], part.type) for part in type_.parts}
        case "list":
            return [_value(item, type_.parts[0].type) for item in value]
        case _:
            return [(name, _value(item, type_.parts[1].type)) for name, item in value.items()]


def _answer(spark: Rows, feed: Feed, table: TableFiles, files: Sequence[File], frame: DataFrame) -> Answer:
    names = [file.item.name for file in files]
    why = why_not_local(table, names)
    if why is not None:
        return Answer(spark, {}, [why])
    if not feed.is_apart:
        try:
            lists = read_local(table, files)
            other = [*_other_types(to_table(lists, table.reading), frame), *_other_versions(table, files)]
            return Answer(spark, _by_place(lists), types=other)
        except SparkNeeded as needed:
            return Answer(spark, {}, [str(needed)])
    local: dict[tuple[str, int], Mapping[str, Any]] = {}
    left = []
    for line in read_lines_of(table, names):
        try:
            local |= _by_place(read_rows(table, [line], {}))
        except SparkNeeded as needed:
            left.append(str(needed))
    return Answer({place: spark[place] for place in local}, local, left)


def _other_types(table: pa.Table, frame: DataFrame) -> list[str]:
    types = {field.name: _nullable(to_arrow_type(field.dataType)) for field in frame.schema}
    own = [(field.name, _nullable(field.type)) for field in table.schema]
    return [f"{name} is {type_}, and in Spark {types.get(name)}" for name, type_ in own if type_ != types.get(name)]


def _nullable(type_: pa.DataType) -> pa.DataType:
    """Return a list type with nullable items. Spark knows that some lists have no NULL."""
    return pa.list_(type_.value_type) if pa.types.is_list(type_) else type_


def _other_versions(table: TableFiles, files: Sequence[File]) -> list[str]:
    if table.options.types != "schema" or not isinstance(table.decoder, Debezium):
        return []
    lines = read_lines_of(table, [file.item.name for file in files])
    versions = LocalMessages(table, lines, table.decoder).versions(table)
    paths = {file.item.name: table.path_of(file.item.name) for file in files}
    start = len(table.folder.base.rstrip("/")) + 1
    own = {name: tuple(versions.get(path[start:], ())) for name, path in paths.items()}
    return [f"{f.item.name} has {own[f.item.name]}" for f in files if own[f.item.name] != f.versions]


def _by_place(lists: RowLists) -> Rows:
    rows = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    return {(row[NAME], row[LINE]): row for row in rows}
