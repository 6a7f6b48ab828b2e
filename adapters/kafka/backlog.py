"""How many messages wait at a broker for a table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakeward.adapters.kafka.broker import Topic
from lakeward.adapters.kafka.landing import KafkaLanding
from lakeward.adapters.kafka.ranges import OffsetRange, next_offsets, read_names
from lakeward.core.dimension import TableName


@dataclass(frozen=True, slots=True)
class KafkaBacklog:
    """The topics of a broker, with what lies behind the offsets that tables have applied."""

    landing: KafkaLanding
    start: str | None
    follows_snapshot: bool = False
    """Whether a table with a batch begins at 0, where its objects say nothing else."""

    def waiting(self, table: TableName, applied: Collection[str]) -> int | None:
        """Return how many offsets wait for a table that applied objects of these names.

        None where that cannot be told: there is no topic, or another one, or a table without a batch begins at a
        place that was not looked for yet.
        """
        topic, ranges = self.landing.broker.find(self.landing.topic_of(table)), read_names(applied)
        if topic is None or any((one.topic, one.id) != (topic.name, topic.id) for one in ranges):
            return None
        if not ranges and self.follows_snapshot:
            return _behind(topic, ()) if applied else None
        if not ranges:
            begins_at_low = self.start in (None, "earliest")
            return sum(high - low for low, high in topic.partitions.values()) if begins_at_low else None
        return _behind(topic, ranges)


def _behind(topic: Topic, applied: Collection[OffsetRange]) -> int:
    """Return how many offsets lie behind those that were applied; a partition of which none was begins at 0."""
    reached = next_offsets(applied)
    return sum(max(0, high - reached.get(number, 0)) for number, (_, high) in topic.partitions.items())
