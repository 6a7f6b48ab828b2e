"""Staged files of messages as they were sent: streams of Arrow's batches, which are read in columns.

Decoding messages one by one takes longer than all later steps, so files of more messages than a small batch have
this form. If one cannot be read in columns, it is rewritten as lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.sources.kafka.broker import Record, Records
from lakeward.adapters.sources.kafka.staging.message_lines import WrittenMessages
from lakeward.adapters.sources.kafka.topics import TopicPartition
from lakeward.adapters.spark.frames.source_rows import LINE, NAME, VALUE

AVRO_FACTOR: Final = 3
"""The bytes of a batch that a byte of Avro counts: about the size of the same messages in JSON."""

JSON_FACTOR: Final = 1
"""How many bytes of a batch a byte of JSON counts."""

_ROWS, _BYTES = 32 * 1024, 32 * 1024 * 1024
"""The most messages of a part of a file, and its bytes at which it ends earlier."""

_NO_JSON: Final = b"\xff\xff\xff\xff"
"""The first bytes of a stream. No line of JSON begins with them."""

_HEADER: Final = pa.struct([("name", pa.string()), ("value", pa.binary())])
_SCHEMA: Final = pa.schema(
    [
        *(("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary())),
        ("headers", pa.list_(_HEADER)),
    ]
)
"""The fields of a message."""


@dataclass(slots=True)
class RawWriter:
    """Writes messages into a file as they were sent."""

    file: BinaryIO
    place: TopicPartition
    size_factor: int
    """How many bytes of a batch a byte counts."""
    _stream: pa.ipc.RecordBatchStreamWriter = field(init=False)
    _columns: tuple[list[Any], ...] = field(default_factory=lambda: tuple([] for _ in Record._fields))
    """The fields of messages, not yet written. A list of messages would make Python's garbage collector busy."""
    _size: int = 0

    def __post_init__(self) -> None:
        """Begin the stream."""
        self._stream = pa.ipc.new_stream(self.file, _SCHEMA)

    def write(self, records: Records, most_bytes: int) -> WrittenMessages:
        """Write messages until they count `most_bytes` of a batch, and at least one."""
        size = _size_of(records)
        if self.size_factor * size >= most_bytes:
            sizes = accumulate(len(record.key or b"") + len(record.value or b"") for record in records)
            records = records[: 1 + bisect_left([*sizes], most_bytes / self.size_factor, hi=len(records) - 1)]
            size = _size_of(records)
        for column, values in zip(self._columns, records.columns, strict=True):
            column.extend(values)
        self._size += size
        if len(self._columns[0]) >= _ROWS or self._size >= _BYTES:
            self._write_columns()
        return WrittenMessages(len(records), self.size_factor * size)

    def _write_columns(self) -> None:
        arrays = [*map(pa.array, self._columns, _SCHEMA.types)]
        self._stream.write_batch(pa.record_batch(arrays, schema=_SCHEMA))
        for column in self._columns:
            column.clear()
        self._size = 0

    def finish(self) -> None:
        """Write what remains, and end the stream."""
        if self._columns[0]:
            self._write_columns()
        self._stream.close()


def _size_of(records: Records) -> int:
    _, _, keys, values, _ = records.columns
    return sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))


def is_raw(file: Path) -> bool:
    """Return whether a staged file has messages as they were sent; False if it does not exist."""
    try:
        with file.open("rb") as stream:
            return stream.read(len(_NO_JSON)) == _NO_JSON
    except FileNotFoundError:
        return False


class DamagedFile(Exception):
    """A file cannot be read to its end; the text says why."""


def read_batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a file in batches; raises DamagedFile."""
    try:
        with file.open("rb") as source, pa.ipc.open_stream(source) as stream:
            yield from stream
    except (OSError, pa.ArrowInvalid) as error:
        raise DamagedFile(str(error)) from error


def read_records(file: Path) -> Iterator[Records]:
    """Yield the messages of a file in batches, as records; raises DamagedFile."""
    for batch in read_batches(file):
        *columns, headers = (column.to_pylist() for column in batch.columns)
        yield Records(
            (*columns, [tuple((one["name"], one["value"]) for one in record_headers) for record_headers in headers])
        )


def size_of_batch(records: pa.RecordBatch) -> int:
    """Return the bytes of all keys and values."""
    lengths = (pc.sum(pc.binary_length(records.column(part))).as_py() or 0 for part in ("key", "value"))
    return sum(lengths)


def header_names(records: pa.RecordBatch) -> pa.Array:
    """Return the names of all headers of messages."""
    return records.column("headers").flatten().field("name")


def numbered_lines(records: pa.RecordBatch, first_line: int) -> pa.RecordBatch:
    """Return messages as the lines of a file from the number `first_line` on, without texts."""
    count = records.num_rows
    no_text = pa.nulls(count, pa.string())
    numbers = pa.array(np.arange(first_line, first_line + count), pa.int64())
    return pa.RecordBatch.from_pydict({VALUE: no_text, NAME: no_text, LINE: numbers})
