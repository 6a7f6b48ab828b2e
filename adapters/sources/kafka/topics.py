"""Several topics of one table as one topic, whose partitions are numbered in the order of the topics."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakeward.adapters.sources.kafka.broker import Broker, Offsets, Records, Topic
from lakeward.core.errors import ConfigError

SEPARATOR: Final = ","
"""Separates the names of topics. No topic name contains it."""

_ID: Final = len("--") + 22
"""The length of a topic's id in a file name, with its separator."""

_NUMBERS: Final = len("+12345+1234567890123-1234567890123+.json")

_NAME: Final = 255
"""The most characters of a file name."""

_PARTITIONS: Final = 1000
"""The most partitions that each of several topics may have."""


class TopicPartition(NamedTuple):
    """A partition of a topic, as the broker numbers it."""

    topic: str
    partition: int

    @classmethod
    def of(cls, topic: str, partition: int) -> TopicPartition:
        """Return the broker's partition for a partition of a combined topic, or of a single one.

        >>> TopicPartition.of("a,b", 1003), TopicPartition.of("a", 1003)
        (TopicPartition(topic='b', partition=3), TopicPartition(topic='a', partition=1003))
        """
        names = topic.split(SEPARATOR)
        if len(names) == 1:
            return cls(topic, partition)
        return cls(names[partition // _PARTITIONS], partition % _PARTITIONS)


def fits_file_name(names: Collection[str]) -> bool:
    """Return True if the name of a file has room for the names and ids of these topics.

    >>> fits_file_name(["orders-v1", "orders-v2"]), fits_file_name([f"shop-{n}.public.orders" for n in range(6)])
    (True, False)
    """
    return len(SEPARATOR.join(names)) + _ID * len(names) + _NUMBERS <= _NAME


@dataclass(frozen=True, slots=True)
class SeveralTopics:
    """A broker whose topics may be combined, by their names with a comma between."""

    broker: Broker

    def topics(self) -> Collection[str]:
        """Return the names of all topics."""
        return self.broker.topics()

    def find(self, topic: str) -> Topic | None:
        """Return several topics as one, whose id consists of theirs; None if one of them does not exist.

        Raises ConfigError for one of several topics with more than a thousand partitions.
        """
        names = topic.split(SEPARATOR)
        if len(names) == 1:
            return self.broker.find(topic)
        partitions: dict[int, Offsets] = {}
        ids = []
        for number, name in enumerate(names):
            one_topic = self.broker.find(name)
            if one_topic is None:
                return None
            if max(one_topic.partitions, default=0) >= _PARTITIONS:
                raise _too_many_partitions(name, len(one_topic.partitions))
            ids.append(one_topic.id)
            partitions |= {
                number * _PARTITIONS + partition: offsets for partition, offsets in one_topic.partitions.items()
            }
        return Topic(topic, "--".join(ids), partitions)

    def is_compacted(self, topic: str) -> bool:
        """Return True if one of the topics is compacted."""
        return any(map(self.broker.is_compacted, topic.split(SEPARATOR)))

    def offsets_at(self, topic: str, partitions: Collection[int], millis: int) -> Mapping[int, int]:
        """Return for each partition the first offset at or after a time, in milliseconds since 1970."""
        offsets: dict[int, int] = {}
        for name, own_partitions in _group_by_topic(topic, partitions).items():
            own_offsets = self.broker.offsets_at(name, own_partitions.values(), millis)
            offsets |= {
                number: own_offsets[partition]
                for number, partition in own_partitions.items()
                if partition in own_offsets
            }
        return offsets

    def read(self, topic: str, partition: int, start: int, end: int) -> Generator[Records]:
        """Yield the committed messages of a partition of one of the topics."""
        return self.broker.read(*TopicPartition.of(topic, partition), start, end)

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of each topic for a consumer group."""
        for name, own_partitions in _group_by_topic(topic, offsets).items():
            self.broker.commit_offsets(
                group, name, {partition: offsets[number] for number, partition in own_partitions.items()}
            )


def _group_by_topic(topic: str, partitions: Collection[int]) -> Mapping[str, Mapping[int, int]]:
    """Return the partitions of each topic: their numbers in the combined topic, with those in their own."""
    partitions_of: dict[str, dict[int, int]] = {}
    for number in partitions:
        place = TopicPartition.of(topic, number)
        partitions_of.setdefault(place.topic, {})[number] = place.partition
    return partitions_of


def _too_many_partitions(topic: str, partitions: int) -> ConfigError:
    return ConfigError(
        f"the topic {topic} has more partitions than one of several topics of a table may have",
        found=f"it has {partitions:,}, and {_PARTITIONS:,} are the most",
        todo="Give each of these topics a table of its own: `topics` under its settings.",
    )
