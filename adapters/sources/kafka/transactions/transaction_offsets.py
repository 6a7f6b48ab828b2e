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

    `stored_progress` was recorded when the table had certain offsets in its own topic. It is ignored if the table
    was rolled back to `positions` before these.
    """

    applied: Collection[SourceObject]
    stored_progress: Mapping[str, Any] | None
    positions: Mapping[int, int] = field(default_factory=dict)

    def find(self, topic: str, id_: str) -> TransactionOffset | None:
        """Return the offset in a topic, or None if none is recorded."""
        offsets = [
            TransactionOffset(one.end, item.modified // 1000 or None)
            for item in self.applied
            for one in parse_transaction_ranges([item.name])
            if (one.topic, one.id) == (f"~{topic}", id_)
        ]
        if self.stored_progress is not None and (self.stored_progress["topic"], self.stored_progress["id"]) == (
            topic,
            id_,
        ):
            stored_positions = {
                int(partition): offset for partition, offset in self.stored_progress["positions"].items()
            }
            if all(self.positions.get(partition, 0) >= offset for partition, offset in stored_positions.items()):
                offsets.append(TransactionOffset(self.stored_progress["offset"], self.stored_progress["time"]))
        return max(offsets, key=lambda one: one.offset, default=None)
