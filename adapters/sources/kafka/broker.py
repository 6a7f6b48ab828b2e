"""What the source asks of a broker: topics with their offsets, committed messages, and the group that is told."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

NO_ID: Final = "none"
"""The id of topics at a broker that has none: it is older than Kafka 2.8."""


class Offsets(NamedTuple):
    """The offsets of a partition: the first that is still there, and the one behind the last committed message."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now, with the offsets of its partitions; one that is made anew has another `id`.

    An id has letters, digits, `-` and `_` alone.
    """

    name: str
    id: str
    partitions: Mapping[int, Offsets]


class Record(NamedTuple):
    """A message. `timestamp` is in milliseconds since 1970, None where it has none; headers may repeat."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Broker(Protocol):
    """A broker, or a cluster of them.

    Raises StoreUnreachable where it does not answer, and ConfigError where it refuses who asks.
    """

    def topics(self) -> Collection[str]:
        """Return the names of all topics."""
        ...

    def find(self, topic: str) -> Topic | None:
        """Return a topic, or None where there is none of that name."""
        ...

    def is_compacted(self, topic: str) -> bool:
        """Return whether the broker removes messages from the midst of a topic (`cleanup.policy`)."""
        ...

    def offsets_at(self, topic: str, partitions: Collection[int], millis: int) -> Mapping[int, int]:
        """Return for partitions the first offset at or after a time, in milliseconds since 1970.

        A partition without such a message is left out.
        """
        ...

    def read(self, topic: str, partition: int, start: int, end: int) -> Generator[Record]:
        """Yield the committed messages from the offset `start` on that lie before `end`, in their order.

        Raises SourceError where `start` is not there any more: nothing is ever passed over.
        """
        ...

    def tell(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Tell a consumer group how far the partitions of a topic are applied: the offset that comes next."""
        ...
