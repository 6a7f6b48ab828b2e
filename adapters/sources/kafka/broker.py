"""The port to a broker: topics with their offsets, committed messages, and the offsets of a consumer group."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, overload

NO_ID: Final = "none"
"""The id of topics at a broker without topic ids, which is older than Kafka 2.8."""


class Offsets(NamedTuple):
    """The offsets of a partition: the first one that still exists, and the one after the last committed message."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now, with the offsets of its partitions. One that is created anew has another `id`.

    An id has only letters, digits, `-` and `_`.
    """

    name: str
    id: str
    partitions: Mapping[int, Offsets]

    @property
    def ends(self) -> Mapping[int, int]:
        """For each partition, the offset after the last committed message."""
        return {partition: high for partition, (_, high) in self.partitions.items()}


class Record(NamedTuple):
    """A message. `timestamp` is in milliseconds since 1970, or None. Header names may repeat."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Records(Sequence[Record]):
    """Messages in columns, one for each field of a record. A record is made when it is read."""

    columns: tuple[Sequence[Any], ...]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Records:
        """Return records in columns."""
        return cls(tuple(zip(*records, strict=True)) if records else ((),) * len(Record._fields))

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Record]:
        """Yield the messages."""
        return map(Record._make, zip(*self.columns, strict=True))

    @overload
    def __getitem__(self, place: int) -> Record: ...

    @overload
    def __getitem__(self, place: slice) -> Records: ...

    def __getitem__(self, place: int | slice) -> Record | Records:
        """Return the message at a place, or the messages of a slice."""
        columns = tuple(column[place] for column in self.columns)
        return Records(columns) if isinstance(place, slice) else Record._make(columns)


class Broker(Protocol):
    """A broker, or a cluster of brokers.

    Its methods raise StoreUnreachable where it does not answer, and ConfigError where it refuses access.
    """

    def topics(self) -> Collection[str]:
        """Return the names of all topics."""
        ...

    def find(self, topic: str) -> Topic | None:
        """Return a topic, or None if it does not exist."""
        ...

    def is_compacted(self, topic: str) -> bool:
        """Return True if the broker removes messages from the middle of a topic (`cleanup.policy`)."""
        ...

    def offsets_at(self, topic: str, partitions: Collection[int], millis: int) -> Mapping[int, int]:
        """Return for each partition the first offset at or after a time, in milliseconds since 1970.

        A partition without such a message is left out.
        """
        ...

    def read(self, topic: str, partition: int, start: int, end: int) -> Generator[Records]:
        """Yield the committed messages with offsets from `start` up to and without `end`, in order, in batches.

        Raises SourceError where `start` no longer exists: no message is ever skipped.
        """
        ...

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets for a consumer group: for each partition, the offset of the next message to apply."""
        ...
