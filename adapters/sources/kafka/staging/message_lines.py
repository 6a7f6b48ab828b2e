"""Messages as lines of JSON, in the form that the source of files reads with `line = "record"`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import BinaryIO, Final, NamedTuple, Protocol, TypeAlias

from lakeward.adapters.sources.kafka.broker import Record, Records
from lakeward.adapters.sources.kafka.topics import TopicPartition

_NO_UTF_8: Final = "no UTF-8, in hexadecimal: "
"""Precedes the bytes of a value that is not UTF-8. It is no JSON object, so its row goes into quarantine."""

ToLine = Callable[[str, int, Record], bytes]
"""Makes a line, with its end, of a topic, a partition and a message."""


def to_line(topic: str, partition: int, record: Record) -> bytes:
    r"""Return a message as a line with its end. Key and value are exactly the texts that were sent.

    >>> to_line("t", 0, Record(7, 1700000000000, None, b'{"a": 1.50}'))[-60:]
    b'0000000000,"key":null,"value":"{\\"a\\": 1.50}","headers":[]}\n'
    """
    value, key, headers = quote(record.value), quote(record.key), headers_of(record)
    return f'{{{place_of(topic, partition, record)},"key":{key},"value":{value},"headers":{headers}}}\n'.encode()


def place_of(topic: str, partition: int, record: Record) -> str:
    """Return topic, partition, offset and time of a message as JSON fields."""
    timestamp = "null" if record.timestamp is None else record.timestamp
    return f'"topic":"{topic}","partition":{partition},"offset":{record.offset},"timestamp":{timestamp}'


def headers_of(record: Record) -> str:
    """Return the headers of a message as a JSON list."""
    if not record.headers:
        return "[]"
    return "[" + ",".join(f"[{encode_basestring(name)},{quote(value)}]" for name, value in record.headers) + "]"


def quote(data: bytes | None) -> str:
    """Return bytes as a JSON text."""
    text = to_text(data)
    return "null" if text is None else encode_basestring(text)


def to_text(data: bytes | None) -> str | None:
    r"""Return bytes as text; bytes that are not UTF-8 become hexadecimal digits after a text that says so.

    >>> to_text(b"\xff\x00")
    'no UTF-8, in hexadecimal: ff00'
    """
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _NO_UTF_8 + data.hex()


class WrittenMessages(NamedTuple):
    """The number of written messages, and the bytes of a batch that they count."""

    messages: int
    bytes: int


class MessageWriter(Protocol):
    """Writes messages into a file."""

    def write(self, records: Records, most_bytes: int) -> WrittenMessages:
        """Write messages until they count `most_bytes` of a batch, and at least one."""
        ...

    def finish(self) -> None:
        """Write what remains."""
        ...


OpenWriter: TypeAlias = Callable[[BinaryIO, TopicPartition], MessageWriter]
"""Makes the writer of a file for the messages of a partition."""


@dataclass(frozen=True, slots=True)
class LineWriter:
    """Writes messages as lines."""

    file: BinaryIO
    place: TopicPartition
    to_line: ToLine = to_line

    def write(self, records: Records, most_bytes: int) -> WrittenMessages:
        """Write messages until their lines have `most_bytes`, and at least one."""
        size = 0
        for count, record in enumerate(records, 1):
            size += self.file.write(self.to_line(*self.place, record))
            if size >= most_bytes:
                return WrittenMessages(count, size)
        return WrittenMessages(len(records), size)

    def finish(self) -> None:
        """Do nothing: all lines are written."""
