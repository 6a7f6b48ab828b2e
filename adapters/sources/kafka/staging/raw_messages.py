"""Staged files of messages in Avro as they were sent: streams of Arrow's batches, which are read in columns.

Decoding single messages takes longer than all that follows, so a file with more messages than plain Python reads at
once is stored so. If it cannot be read in columns, lines are made of its messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import pyarrow as pa

from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.kafka.topics import TopicPartition

if TYPE_CHECKING:
    from lakeward.adapters.sources.kafka.registries.avro import AvroMessages

SIZE_FACTOR: Final = 3
"""How many bytes of a batch a byte in Avro counts: the same messages as JSON have about as many."""

_ROWS, _BYTES = 16 * 1024, 32 * 1024 * 1024
"""The messages of a part of a file, and the bytes with which it ends before."""

_NO_JSON: Final = b"\xff\xff\xff\xff"
"""The first bytes of a stream; those of a line of JSON are others."""

_HEADER: Final = pa.struct([("name", pa.string()), ("value", pa.binary())])
_SCHEMA: Final = pa.schema(
    [
        *(("offset", pa.int64()), ("timestamp", pa.int64())),
        *(("key", pa.binary()), ("key_schema", pa.string()), ("key_head", pa.int32())),
        *(("value", pa.binary()), ("value_schema", pa.string()), ("value_head", pa.int32())),
        ("headers", pa.list_(_HEADER)),
    ]
)
"""A message, the ids of its schemas, and the bytes before what is in Avro. Both are NULL for any other form."""


@dataclass(slots=True)
class RawWriter:
    """Writes messages into a file as they were sent, and fetches their schemas."""

    file: BinaryIO
    place: TopicPartition
    avro: AvroMessages
    _stream: pa.ipc.RecordBatchStreamWriter = field(init=False)
    _columns: tuple[list[Any], ...] = field(default_factory=lambda: tuple([] for _ in Record._fields))
    """The fields of messages, not yet written. A list of messages would make Python's garbage collector busy."""
    _size: int = 0
    _frames: dict[bytes | None, str | None] = field(default_factory=lambda: {None: None})
    """The schemas by the first bytes of keys and values; None for those that are not in Avro, or are compressed."""

    def __post_init__(self) -> None:
        """Begin the stream."""
        self._stream = pa.ipc.new_stream(self.file, _SCHEMA)

    def write(self, record: Record) -> int:
        """Write a message, and return how many bytes of a batch it counts.

        Raises SourceError for a schema that cannot be used or stored, and StoreUnreachable where the registry does
        not answer.
        """
        for column, value in zip(self._columns, record, strict=True):
            column.append(value)
        size = len(record.key or b"") + len(record.value or b"")
        self._size += size
        if len(self._columns[0]) >= _ROWS or self._size >= _BYTES:
            self._write_columns()
        return SIZE_FACTOR * size

    def _write_columns(self) -> None:
        offsets, timestamps, keys, values, headers = self._columns
        columns = (
            *(offsets, timestamps, keys, *self._frames_of(keys, offsets)),
            *(values, *self._frames_of(values, offsets), headers),
        )
        arrays = [pa.array(column, of.type) for column, of in zip(columns, _SCHEMA, strict=True)]
        self._stream.write_batch(pa.record_batch(arrays, schema=_SCHEMA))
        for column in self._columns:
            column.clear()
        self._size = 0

    def _frames_of(self, data: Sequence[bytes | None], offsets: Sequence[int]) -> Sequence[Sequence[Any]]:
        """Return the schemas of keys or values, and the lengths of their heads."""
        head = self.avro.store.registry.head
        starts = [None if one is None else one[:head] for one in data]
        for start, one, offset in zip(starts, data, offsets, strict=True):
            if start not in self._frames and one is not None:
                self._frames[start] = self._frame(one, offset)
        schemas = [self._frames[start] for start in starts]
        return schemas, [None if schema is None else head for schema in schemas]

    def _frame(self, data: bytes, offset: int) -> str | None:
        framed = self.avro.store.registry.split(data)
        if framed is None or framed.is_packed:
            return None
        topic, partition = self.place
        self.avro.schema(framed.schema, f"{topic}, partition {partition}, offset {offset:,}")
        return framed.schema

    def finish(self) -> None:
        """Write what remains, and end the stream."""
        if self._columns[0]:
            self._write_columns()
        self._stream.close()


def is_raw(file: Path) -> bool:
    """Return whether a staged file has messages as they were sent; False if it does not exist."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(_NO_JSON)) == _NO_JSON
    except FileNotFoundError:
        return False


class DamagedFile(Exception):
    """A file cannot be read to its end; the text says why."""


def read_batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a file in batches; raises DamagedFile."""
    try:
        with file.open("rb") as opened, pa.ipc.open_stream(opened) as stream:
            yield from stream
    except (OSError, pa.ArrowInvalid) as error:
        raise DamagedFile(str(error)) from error


def read_records(file: Path) -> Iterator[Record]:
    """Yield the messages of a file; raises DamagedFile."""
    for batch in read_batches(file):
        columns: Sequence[Sequence[Any]] = [
            batch.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value", "headers")
        ]
        for offset, timestamp, key, value, headers in zip(*columns, strict=True):
            yield Record(offset, timestamp, key, value, tuple((one["name"], one["value"]) for one in headers))
