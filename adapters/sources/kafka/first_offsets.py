"""The offsets at which a table without a batch begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.adapters.sources.kafka.broker import Broker, Topic
from lakeward.adapters.sources.kafka.loss_checks import refuse_unknown_start
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange
from lakeward.adapters.sources.kafka.options import parse_time
from lakeward.adapters.sources.kafka.staging.message_files import MessageStaging
from lakeward.core.dimension import Dimension


@dataclass(frozen=True, slots=True)
class FirstOffsets:
    """The first offsets of tables in their topics, by the setting `start`."""

    broker: Broker
    staging: MessageStaging
    start: str | None

    def find(self, dimension: Dimension, topic: Topic) -> Mapping[int, int]:
        """Return the first offset of partitions of a table without a batch, and write ranges that record it.

        Each range covers the one offset before the first one and has no messages. Through it the first commit
        records where each partition begins.
        """
        table, start = dimension.source, self.start
        if start is None:
            refuse_unknown_start(dimension.name, topic)
        origin = {"topic": topic.name, "id": topic.id, "start": start}
        offsets = self.staging.read_starts(table, origin)
        if offsets is None or start in (None, "earliest"):
            offsets = self._start_offsets(topic, start or "earliest")
            self.staging.write_starts(table, origin, offsets)
        markers = [
            OffsetRange(topic.name, topic.id, partition, offset - 1, offset)
            for partition, offset in offsets.items()
            if offset > 0 and partition in topic.partitions
        ]
        self.staging.write_begin(table, topic.id, markers)
        return {one.partition: one.start for one in markers}

    def _start_offsets(self, topic: Topic, start: str) -> Mapping[int, int]:
        partitions = topic.partitions
        if start in ("earliest", "latest"):
            return {number: low if start == "earliest" else high for number, (low, high) in partitions.items()}
        at_time = self.broker.offsets_at(topic.name, partitions, parse_time(start))
        return {number: at_time.get(number, high) for number, (_, high) in partitions.items()}
