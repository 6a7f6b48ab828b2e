"""Staged messages with schemas, for the reader in Arrow columns.

Avro lands as JSON with the schema of its row in each message. Nearly all messages of a batch have the same schema.
It is parsed once, to know how cells are written, and removed as bytes from every line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from lakeward.adapters.sources.files.column_mapping import needs_schemas, writings
from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.landing.local_store import LocalStore
from lakeward.adapters.sources.messages.connect_schema import SchemaColumn, columns_of
from lakeward.adapters.spark.frames.local_casts import SparkNeeded

if TYPE_CHECKING:
    from types import TracebackType

_VALUE: Final = b'"value":"'
_SCHEMA: Final = _VALUE + rb"{\"schema\":"
_PAYLOAD: Final = rb",\"payload\":"
_END: Final = b'","headers":['
"""The bytes before a value, before the schema and the payload in it, and after the value."""

_HEAD_BYTES: Final = 1024 * 1024
"""The size of the beginning of a file in which a schema is searched."""


def without_schemas(table: TableFiles, files: Sequence[File]) -> TableFiles | None:
    """Return a table that reads the messages of staged files without their schemas.

    Its cells are written as the first schema describes them. None if the messages have no schemas, or must be read
    with them. Reading a file raises SparkNeeded for messages with another description, or without one.
    """
    options = table.options
    if options.format != "debezium" or options.form != "envelope" or options.types == "schema":
        return None
    if table.dimension.keeps_text:  # the text of a row includes the schema
        return None
    schema = next(filter(None, (_first_schema(table, file) for file in files)), None)
    columns = None if schema is None else _described(schema)
    if columns is None:
        return None
    described = replace(
        table, described=columns if needs_schemas(options, table.dimension) else {}, has_others=False
    )
    return replace(described, folder=replace(table.folder, store=_PayloadStore(_Schemas(described))))


def _first_schema(table: TableFiles, file: File) -> bytes | None:
    with table.folder.open(table.dimension.source, file.item.name) as opened:
        data = opened.read(_HEAD_BYTES)
    start = data.find(_SCHEMA)
    end = data.find(_PAYLOAD, start)
    return None if start < 0 or end < 0 else data[start + len(_SCHEMA) : end]


def _described(schema: bytes) -> Mapping[str, SchemaColumn] | None:
    """Return the columns that an escaped schema describes; None unless it is JSON as a program writes it.

    Such JSON has no blanks, no repeated names and no escapes, so that no reader finds anything else in it.
    """
    try:
        text = schema.replace(rb"\"", b'"').decode()
        parsed = json.loads(text)
        is_usual = json.dumps(parsed, ensure_ascii=False, separators=(",", ":"), allow_nan=False) == text
    except ValueError:
        return None
    columns = columns_of(text, is_flat=False) if is_usual and "\\" not in text else None
    return None if columns is None else {column.name: column for column in columns}


@dataclass(frozen=True, slots=True)
class _Schemas:
    """The schemas of a table's messages that were found so far; all describe cells as `table` has them."""

    table: TableFiles
    known: set[bytes] = field(default_factory=set)

    def remove(self, data: bytes) -> bytes:
        """Return lines without the schemas of their messages.

        Raises SparkNeeded for a schema by which cells are written differently, and for messages without one.
        """
        described = 0
        while (start := data.find(_SCHEMA)) >= 0:
            end = data.find(_PAYLOAD, start)
            self._check(data[start + len(_SCHEMA) : end])
            data, found = _replace(data, data[start : end + len(_PAYLOAD)], _VALUE)
            described += found
        data, ends = _replace(data, b"}" + _END, _END)
        if ends != described:
            raise SparkNeeded("some messages have schemas, and others have none")
        return data

    def _check(self, schema: bytes) -> None:
        if schema in self.known:
            return
        columns, table = _described(schema), self.table
        if columns is None:
            raise SparkNeeded("a message has a schema that describes no row")
        if needs_schemas(table.options, table.dimension):
            written = writings(table.options, table.dimension, table.patterns, columns)
            if written != table.reading.written:
                raise SparkNeeded("the schemas of messages describe a column differently")
        self.known.add(schema)


def _replace(data: bytes, old: bytes, new: bytes) -> tuple[bytes, int]:
    """Return data with bytes replaced by fewer, and how often they were."""
    replaced = data.replace(old, new)
    return replaced, (len(data) - len(replaced)) // (len(old) - len(new))


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
