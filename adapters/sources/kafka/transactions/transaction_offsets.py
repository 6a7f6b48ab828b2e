"""How far a table is in the topic of transactions: its commits say it, and, while nothing comes, a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.adapters.sources.kafka.offset_ranges import read_transactions
from lakeward.adapters.sources.kafka.transactions.transaction_topic import TransactionOffset
from lakeward.core.ledger.objects import SourceObject


@dataclass(frozen=True, slots=True)
class TransactionOffsets:
    """The offsets of a table in topics of transactions, by the objects that it has applied.

    `noted` was written down when the table was at certain offsets of its own topic; it is no more so where the
    table was taken back behind these `positions`.
    """

    applied: Collection[SourceObject]
    noted: Mapping[str, Any] | None
    positions: Mapping[int, int] = field(default_factory=dict)

    def find(self, topic: str, id_: str) -> TransactionOffset | None:
        """Return the offset in a topic, None where nothing says it."""
        found = [
            TransactionOffset(one.end, item.modified // 1000 or None)
            for item in self.applied
            for one in read_transactions([item.name])
            if (one.topic, one.id) == (f"~{topic}", id_)
        ]
        if self.noted is not None and (self.noted["topic"], self.noted["id"]) == (topic, id_):
            at = {int(partition): offset for partition, offset in self.noted["positions"].items()}
            if all(self.positions.get(partition, 0) >= offset for partition, offset in at.items()):
                found.append(TransactionOffset(self.noted["offset"], self.noted["time"]))
        return max(found, key=lambda one: one.offset, default=None)
