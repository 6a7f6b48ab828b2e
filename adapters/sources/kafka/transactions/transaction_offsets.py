"""The offset of a table in the topic of transactions: from its commits, or from a file between commits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.adapters.sources.kafka.offset_ranges import parse_transaction_ranges
from lakeward.adapters.sources.kafka.transactions.transaction_topic import TransactionOffset
from lakeward.core.ledger.objects import SourceObject


@dataclass(frozen=True, slots=True)
class TransactionOffsets:
    """The offsets of a table in topics of transactions, by the objects that it has applied.

    `noted` was recorded when the table had certain offsets in its own topic. It is ignored if the table was rolled
    back to `positions` before these.
    """

    applied: Collection[SourceObject]
    noted: Mapping[str, Any] | None
    positions: Mapping[int, int] = field(default_factory=dict)

    def find(self, topic: str, id_: str) -> TransactionOffset | None:
        """Return the offset in a topic, or None if none is recorded."""
        offsets = [
            TransactionOffset(one.end, item.modified // 1000 or None)
            for item in self.applied
            for one in parse_transaction_ranges([item.name])
            if (one.topic, one.id) == (f"~{topic}", id_)
        ]
        if self.noted is not None and (self.noted["topic"], self.noted["id"]) == (topic, id_):
            noted_positions = {int(partition): offset for partition, offset in self.noted["positions"].items()}
            if all(self.positions.get(partition, 0) >= offset for partition, offset in noted_positions.items()):
                offsets.append(TransactionOffset(self.noted["offset"], self.noted["time"]))
        return max(offsets, key=lambda one: one.offset, default=None)
