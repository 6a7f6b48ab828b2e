"""A broker in memory: topics with committed and aborted messages, and consumer groups."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, field
from itertools import count

from lakeward.adapters.sources.kafka.broker import Offsets, Record, Records, Topic

_IDS = count(1)
_A_FETCH = 3


@dataclass
class FakePartition:
    """Messages by offset. Deleted or aborted ones and transaction markers leave gaps."""

    committed: dict[int, Record] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    low: int = 0
    high: int = 0
    """The offset after the last message of an ended transaction."""
    end: int = 0


@dataclass
class FakeBroker:
    """The methods of a broker that the source calls. `log` has the calls in order."""

    made: dict[str, tuple[str, dict[int, FakePartition]]] = field(default_factory=dict)
    group_offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    compacted: set[str] = field(default_factory=set)

    def create(self, topic: str, partitions: int = 1) -> None:
        self.made[topic] = (f"-id_{next(_IDS)}", {number: FakePartition() for number in range(partitions)})

    def add_partition(self, topic: str) -> None:
        partitions = self.made[topic][1]
        partitions[len(partitions)] = FakePartition()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int = 0,
        timestamp: int | None = 1_700_000_000_000,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> int:
        """Append a message, and return its offset."""
        own = self.made[topic][1][partition]
        own.committed[own.end] = Record(own.end, timestamp, key, value, headers)
        own.high = own.end = own.end + 1
        return own.end - 1

    def abort(self, topic: str, partition: int = 0, messages: int = 1) -> None:
        """Append messages of a transaction that was aborted, and its marker."""
        own = self.made[topic][1][partition]
        own.aborted.update(range(own.end, own.end + messages))
        own.high = own.end = own.end + messages + 1

    def open_transaction(self, topic: str, partition: int = 0) -> None:
        """Append a message of an open transaction."""
        self.made[topic][1][partition].end += 1

    def delete_before(self, topic: str, low: int, partition: int = 0) -> None:
        own = self.made[topic][1][partition]
        own.low = low
        own.committed = {offset: one for offset, one in own.committed.items() if offset >= low}

    def cut_off(self, topic: str, end: int, partition: int = 0) -> None:
        """Lose the last messages, as an election of an unclean leader does."""
        own = self.made[topic][1][partition]
        own.high = own.end = end
        own.committed = {offset: one for offset, one in own.committed.items() if offset < end}

    def topics(self) -> Collection[str]:
        return list(self.made)

    def find(self, topic: str) -> Topic | None:
        if topic not in self.made:
            return None
        id_, partitions = self.made[topic]
        return Topic(topic, id_, {number: Offsets(one.low, one.high) for number, one in partitions.items()})

    def is_compacted(self, topic: str) -> bool:
        return topic in self.compacted

    def offsets_at(self, topic: str, partitions: Collection[int], millis: int) -> Mapping[int, int]:
        offsets = {}
        for number in partitions:
            own = self.made[topic][1][number].committed
            at = [offset for offset, one in own.items() if one.timestamp is not None and one.timestamp >= millis]
            offsets.update({number: min(at)} if at else {})
        return offsets

    def read(self, topic: str, partition: int, start: int, end: int) -> Generator[Records]:
        self.log.append(f"read {topic} {partition} {start}-{end - 1}")
        own = self.made[topic][1][partition]
        assert start >= own.low, "what is not there was asked for"
        offsets = [offset for offset in sorted(own.committed) if start <= offset < end]
        for first in range(0, len(offsets), _A_FETCH):
            yield Records.of([own.committed[offset] for offset in offsets[first : first + _A_FETCH]])

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self.log.append(f"tell {group} {dict(offsets)}")
        self.group_offsets.setdefault(group, {}).update(offsets)
