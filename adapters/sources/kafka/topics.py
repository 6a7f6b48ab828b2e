"""Several topics of one table as one: the partitions of each are numbered behind those of the topics before it."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakeward.adapters.sources.kafka.broker import Broker, Offsets, Record, Topic
from lakeward.core.errors import ConfigError

BETWEEN: Final = ","
"""What stands between the names of topics: no name of one has it."""

_ID: Final = len("--") + 22
"""The characters of a topic's id in the name of a file, with what stands between two."""

_NUMBERS: Final = len("+12345+1234567890123-1234567890123+.json")

_NAME: Final = 255
"""The characters that the name of a file may have."""

_PARTITIONS: Final = 1000
"""How many partitions each of several topics may have."""


class Place(NamedTuple):
    """A partition of a topic, as the broker has it."""

    topic: str
    partition: int

    @classmethod
    def of(cls, topic: str, partition: int) -> Place:
        """Return where a partition of several topics is, which a single topic is as well.

        >>> Place.of("a,b", 1003), Place.of("a", 1003)
        (Place(topic='b', partition=3), Place(topic='a', partition=1003))
        """
        names = topic.split(BETWEEN)
        if len(names) == 1:
            return cls(topic, partition)
        return cls(names[partition // _PARTITIONS], partition % _PARTITIONS)


def fit_a_name(names: Collection[str]) -> bool:
    """Return whether the name of a file can tell ranges of these topics: it has their names and their ids.

    >>> fit_a_name(["orders-v1", "orders-v2"]), fit_a_name([f"shop-{n}.public.orders" for n in range(6)])
    (True, False)
    """
    return len(BETWEEN.join(names)) + _ID * len(names) + _NUMBERS <= _NAME


@dataclass(frozen=True, slots=True)
class SeveralTopics:
    """A broker whose topics may be asked for together, by their names with a comma between."""

    broker: Broker

    def topics(self) -> Collection[str]:
        """Return the names of all topics."""
        return self.broker.topics()

    def find(self, topic: str) -> Topic | None:
        """Return topics as one, None where one of them is not there; its id is made of theirs.

        Raises ConfigError for one of several that has more than a thousand partitions.
        """
        names = topic.split(BETWEEN)
        if len(names) == 1:
            return self.broker.find(topic)
        partitions: dict[int, Offsets] = {}
        ids = []
        for number, name in enumerate(names):
            found = self.broker.find(name)
            if found is None:
                return None
            if max(found.partitions, default=0) >= _PARTITIONS:
                raise _too_many(name, len(found.partitions))
            ids.append(found.id)
            partitions |= {number * _PARTITIONS + own: offsets for own, offsets in found.partitions.items()}
        return Topic(topic, "--".join(ids), partitions)

    def is_compacted(self, topic: str) -> bool:
        """Return whether one of the topics is compacted."""
        return any(map(self.broker.is_compacted, topic.split(BETWEEN)))

    def offsets_at(self, topic: str, partitions: Collection[int], millis: int) -> Mapping[int, int]:
        """Return for partitions the first offset at or after a time, in milliseconds since 1970."""
        found: dict[int, int] = {}
        for name, own in _by_topic(topic, partitions).items():
            told = self.broker.offsets_at(name, own.values(), millis)
            found |= {number: told[partition] for number, partition in own.items() if partition in told}
        return found

    def read(self, topic: str, partition: int, start: int, end: int) -> Generator[Record]:
        """Yield the committed messages of a partition of one of the topics."""
        return self.broker.read(*Place.of(topic, partition), start, end)

    def tell(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Tell a consumer group how far each topic is applied."""
        for name, own in _by_topic(topic, offsets).items():
            self.broker.tell(group, name, {partition: offsets[number] for number, partition in own.items()})


def _by_topic(topic: str, partitions: Collection[int]) -> Mapping[str, Mapping[int, int]]:
    """Return the partitions of each topic: by their number among all, that in their topic."""
    found: dict[str, dict[int, int]] = {}
    for number in partitions:
        place = Place.of(topic, number)
        found.setdefault(place.topic, {})[number] = place.partition
    return found


def _too_many(topic: str, partitions: int) -> ConfigError:
    return ConfigError(
        f"the topic {topic} has more partitions than one of several topics of a table may have",
        found=f"it has {partitions:,}, and {_PARTITIONS:,} are the most",
        todo="Give each of these topics a table of its own: `topics` under its settings.",
    )
