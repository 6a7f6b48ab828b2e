"""Staged messages for the reader in Arrow columns: with schemas, and in Avro as they were sent.

Some Avro lands as JSON with the schema of its row in each message. Nearly all messages of a batch have the same
schema. It is parsed once, to know how cells are written, and removed as bytes from every line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.files.column_mapping import needs_schemas, writings
from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.local.message_columns.line_parts import line_parts
from lakeward.adapters.sources.files.local.message_columns.message_form import LinesNeeded
from lakeward.adapters.sources.files.local.message_columns.reader import Part
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.kafka.offset_ranges import parse_ranges
from lakeward.adapters.sources.kafka.staging.avro_envelopes import AvroPart
from lakeward.adapters.sources.kafka.staging.avro_frames import add_frames
from lakeward.adapters.sources.kafka.staging.json_envelopes import JsonPart
from lakeward.adapters.sources.kafka.staging.raw_messages import DamagedFile, is_raw, read_batches
from lakeward.adapters.sources.kafka.topics import TopicPartition
from lakeward.adapters.sources.landing.local_store import LocalStore
from lakeward.adapters.sources.messages.connect_schema import SchemaColumn, Version, columns_of
from lakeward.adapters.sources.messages.wrapped_texts import first_schema, have_schema, schema_text
from lakeward.adapters.spark.frames.local_casts import SparkNeeded

if TYPE_CHECKING:
    from types import TracebackType

    from lakeward.adapters.sources.kafka.registries.avro import AvroMessages

_VALUE: Final = b'"value":"'
_SCHEMA: Final = _VALUE + rb"{\"schema\":"
_PAYLOAD: Final = rb",\"payload\":"
_END: Final = b'","headers":['
"""The bytes before a value, before the schema and the payload in it, and after the value."""

_NO_VALUE: Final = b'"value":null,"headers":['
"""A message without a value, which needs no schema."""

_HEAD_BYTES: Final = 1024 * 1024
"""The size of the beginning of a file in which a schema is searched."""


@dataclass(frozen=True, slots=True)
class StagedMessages:
    """The form of staged files: lines, whose messages may have schemas, and messages as they were sent."""

    avro: AvroMessages | None = None
    finds_versions: bool = True
    """Whether schemas of lines are found without reading the messages."""

    def are_lines(self, table: TableFiles, files: Sequence[File]) -> bool:
        """Return whether all files are of lines."""
        return not any(is_raw(Path(table.path_of(file.item.name))) for file in files)

    def versions(self, table: TableFiles, files: Sequence[File]) -> Mapping[str, Sequence[Version]] | None:
        """Return the schemas of messages by the path of their file below the landing folder.

        All describe the same columns. None for lines without schemas, or with others. Raises LinesNeeded for such
        messages as they were sent.
        """
        start = len(table.folder.base.rstrip("/")) + 1
        paths = {file.item.name: table.path_of(file.item.name) for file in files}
        if not self.are_lines(table, files):
            versions_of = _versions_of_json if self.avro is None else partial(_versions_of_avro, self.avro)
            versions = {path[start:]: versions_of(Path(path)) for path in paths.values()}
            if not _are_alike(versions.values()):
                raise LinesNeeded("its schemas describe different columns, or none")
            return versions
        if not self.finds_versions or table.options.form != "envelope":
            return None
        of_lines = {paths[file.item.name][start:]: _versions_of_lines(table, file) for file in files}
        complete = {path: versions for path, versions in of_lines.items() if versions is not None}
        return complete if len(complete) == len(files) and _are_alike(complete.values()) else None

    def reading_schemas(self) -> StagedMessages:
        """Return the form of the same files, of which each message is read for its schema."""
        return replace(self, finds_versions=False)

    def described(self, table: TableFiles, files: Sequence[File]) -> TableFiles | None:
        """Return a table that reads the messages of files without their schemas.

        Its cells are written as the first schema describes them. None if the messages have no schemas, or must be
        read with them. Reading a file raises SparkNeeded for messages with another description, or without one.
        """
        options = table.options
        if options.format != "debezium" or options.form != "envelope":
            return None
        if options.types == "schema" and not _are_alike(file.versions for file in files):
            return None
        if table.dimension.keeps_text:  # the text of a row includes the schema
            return None
        schema = next(filter(None, (self._first_schema(table, file) for file in files)), None)
        columns = None if schema is None else _described(schema)
        if columns is None:
            return None
        is_consulted = options.types == "schema" or needs_schemas(options, table.dimension)
        described = replace(table, described=columns if is_consulted else {}, has_others=False)
        return replace(described, folder=replace(table.folder, store=_PayloadStore(_Schemas(described))))

    def parts(self, table: TableFiles, file: File) -> Iterator[Part]:
        """Yield the parts of a file; raises SparkNeeded if it cannot be read to its end."""
        path = Path(table.path_of(file.item.name))
        if not is_raw(path):
            yield from line_parts(table, file)
            return
        store, first_line = table.folder.store, 1
        check = store.schemas.check if isinstance(store, _PayloadStore) else None
        place = _place_of(path)
        try:
            for records in read_batches(path):
                if self._are_json(records):
                    if table.dimension.keeps_text:
                        raise SparkNeeded("the table keeps the texts of its lines")
                    yield JsonPart(records, first_line, place, check)
                elif self.avro is None or check is None:
                    raise SparkNeeded("its messages must be read with their schemas")
                else:
                    yield AvroPart(records, first_line, place, self.avro, check)
                first_line += records.num_rows
        except DamagedFile as error:
            raise SparkNeeded(f"{file.item.name} cannot be read to its end") from error

    def _first_schema(self, table: TableFiles, file: File) -> str | None:
        path = Path(table.path_of(file.item.name))
        if not is_raw(path):
            return _first_schema(table, file)
        try:
            if self.avro is None:
                values = (records.column("value").drop_null()[:1].to_pylist() for records in read_batches(path))
                return schema_text(next(chain.from_iterable(values), b"")) or None
            schemas = (records.column("value_schema").drop_null() for records in _framed(self.avro, path))
            id_ = next((ids[0].as_py() for ids in schemas if len(ids)), None)
        except DamagedFile:
            return None
        return None if id_ is None else self.avro.schema(id_, file.item.name).described_row

    def _are_json(self, records: pa.RecordBatch) -> bool:
        """Return whether messages are in JSON, by the first that has a value."""
        first = records.column("value").drop_null()[:1].to_pylist()
        return first[0].startswith(b"{") if first else self.avro is None


def _place_of(path: Path) -> TopicPartition:
    (offset_range,) = parse_ranges([path.name])
    return TopicPartition.of(offset_range.topic, offset_range.partition)


def _framed(avro: AvroMessages, path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a file with their schemas; raises DamagedFile, and what `add_frames` raises."""
    place = _place_of(path)
    for records in read_batches(path):
        yield add_frames(records, avro, place)


def _are_alike(versions: Iterable[Sequence[Version]]) -> bool:
    """Return whether there are schemas, and all describe the same columns."""
    return len({version.columns for file_versions in versions for version in file_versions}) == 1


def _versions_of_lines(table: TableFiles, file: File) -> Sequence[Version] | None:
    """Return the schemas of the messages in a file of lines; None unless each message with a value has one."""
    schemas: dict[str, tuple[SchemaColumn, ...]] = {}
    with table.folder.open(table.dimension.source, file.item.name) as file_lines:
        while data := file_lines.read(_HEAD_BYTES) + file_lines.readline():
            remaining = data.count(b"\n") - data.count(_NO_VALUE)
            while (start := data.find(_SCHEMA)) >= 0:
                end = data.find(_PAYLOAD, start)
                text = _unescaped(data[start + len(_SCHEMA) : end])
                columns = _described(text)
                if columns is None:
                    return None
                schemas[text] = tuple(columns.values())
                data, count = _replace(data, data[start : end + len(_PAYLOAD)], b"")
                remaining -= count
            if remaining:
                return None
    return [Version(_digest(text), columns) for text, columns in schemas.items()]


def _digest(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _versions_of_avro(avro: AvroMessages, path: Path) -> Sequence[Version]:
    """Return the schemas of the messages in a file; those of messages without rows are left out.

    Raises LinesNeeded if not all are in Avro.
    """
    schemas: dict[str, None] = {}
    try:
        for records in _framed(avro, path):
            ids = records.column("value_schema")
            if ids.null_count > records.column("value").null_count:
                raise LinesNeeded("a value has another form than Avro")
            schemas |= dict.fromkeys(pc.unique(ids.drop_null()).to_pylist())
    except DamagedFile as error:
        raise LinesNeeded(str(error)) from error
    texts = [avro.schema(id_, path.name).described_row for id_ in schemas]
    described = [(text, columns_of(text, is_flat=False)) for text in texts]
    return [Version(_digest(text), columns) for text, columns in described if columns is not None]


def _versions_of_json(path: Path) -> Sequence[Version]:
    """Return the schemas of the messages in a file.

    Raises LinesNeeded unless each message with a value has one, the same in each batch of them.
    """
    schemas: dict[str, tuple[SchemaColumn, ...]] = {}
    try:
        for records in read_batches(path):
            values = records.column("value")
            if values.null_count == len(values):
                continue
            text = first_schema(values)
            columns = _described(text)
            if columns is None or not have_schema(values, text):
                raise LinesNeeded("its messages have several schemas, or none of a row")
            schemas[text] = tuple(columns.values())
    except DamagedFile as error:
        raise LinesNeeded(str(error)) from error
    return [Version(_digest(text), columns) for text, columns in schemas.items()]


def _first_schema(table: TableFiles, file: File) -> str | None:
    with table.folder.open(table.dimension.source, file.item.name) as file_lines:
        data = file_lines.read(_HEAD_BYTES)
    start = data.find(_SCHEMA)
    end = data.find(_PAYLOAD, start)
    return None if start < 0 or end < 0 else _unescaped(data[start + len(_SCHEMA) : end])


def _unescaped(schema: bytes) -> str:
    """Return the text of a schema within a text; an empty one for bytes that are no UTF-8."""
    try:
        return schema.replace(rb"\"", b'"').decode()
    except UnicodeDecodeError:
        return ""


def _described(text: str) -> Mapping[str, SchemaColumn] | None:
    """Return the columns that a schema describes; None unless it is JSON as a program writes it.

    Such JSON has no blanks, no repeated names and no escapes, so that no reader finds anything else in it.
    """
    try:
        parsed = json.loads(text)
        is_usual = json.dumps(parsed, ensure_ascii=False, separators=(",", ":"), allow_nan=False) == text
    except ValueError:
        return None
    columns = columns_of(text, is_flat=False) if is_usual and "\\" not in text else None
    return None if columns is None else {column.name: column for column in columns}


@dataclass(frozen=True, slots=True)
class _Schemas:
    """The known schemas of a table's messages; all describe cells as `table` has them."""

    table: TableFiles
    known_schemas: set[str] = field(default_factory=set)

    def remove(self, data: bytes) -> bytes:
        """Return lines without the schemas of their messages.

        Raises SparkNeeded for a schema by which cells are written differently, and for messages without one.
        """
        described = 0
        while (start := data.find(_SCHEMA)) >= 0:
            end = data.find(_PAYLOAD, start)
            self.check(_unescaped(data[start + len(_SCHEMA) : end]))
            data, count = _replace(data, data[start : end + len(_PAYLOAD)], _VALUE)
            described += count
        data, ends = _replace(data, b"}" + _END, _END)
        if ends != described:
            raise SparkNeeded("some messages have schemas, and others have none")
        return data

    def check(self, schema: str) -> None:
        """Raise SparkNeeded for a schema by which cells are written differently."""
        if schema in self.known_schemas:
            return
        columns, table = _described(schema), self.table
        if columns is None:
            raise SparkNeeded("a message has a schema that describes no row")
        if table.described:
            written = writings(table.options, table.dimension, table.patterns, columns)
            if written != table.reading.written:
                raise SparkNeeded("the schemas of messages describe a column differently")
        self.known_schemas.add(schema)


def _replace(data: bytes, old: bytes, new: bytes) -> tuple[bytes, int]:
    """Return data with `old` replaced by the shorter `new`, and the number of replacements."""
    result = data.replace(old, new)
    return result, (len(data) - len(result)) // (len(old) - len(new))


@dataclass(frozen=True, slots=True)
class _PayloadStore(LocalStore):
    """A store whose files are read without the schemas of their messages."""

    schemas: _Schemas

    def open(self, path: str) -> BinaryIO:
        """Open a file."""
        return cast("BinaryIO", _PayloadFile(super(_PayloadStore, self).open(path), self.schemas))


@dataclass(frozen=True, slots=True)
class _PayloadFile:
    """A file that is read in whole lines, without the schemas of its messages."""

    file: BinaryIO
    schemas: _Schemas

    def read(self, size: int) -> bytes:
        """Return lines of at least `size` bytes before schemas were removed; fewer at the end of the file."""
        return self.schemas.remove(self.file.read(size) + self.file.readline())

    def readline(self) -> bytes:
        """Return the next line."""
        return self.schemas.remove(self.file.readline())

    def __enter__(self) -> _PayloadFile:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.file.close()
