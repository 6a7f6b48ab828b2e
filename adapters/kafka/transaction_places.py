"""How far a table is in the topic of transactions: its commits say it, and, while nothing comes, a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.adapters.kafka.ranges import read_transactions
from lakeward.adapters.kafka.transaction_topic import Place
from lakeward.core.ledger import SourceObject


@dataclass(frozen=True, slots=True)
class TransactionPlaces:
    """The places of a table in topics of transactions, by the objects that it has applied.

    `told` was written down when the table was at certain offsets of its own topic; it is no more so where the table
    was taken back behind these.
    """

    applied: Collection[SourceObject]
    told: Mapping[str, Any] | None
    positions: Mapping[int, int] = field(default_factory=dict)

    def find(self, topic: str, id_: str) -> Place | None:
        """Return the place in a topic, None where nothing says it."""
        found = [
            Place(one.end, item.modified // 1000 or None)
            for item in self.applied
            for one in read_transactions([item.name])
            if (one.topic, one.id) == (f"~{topic}", id_)
        ]
        if self.told is not None and (self.told["topic"], self.told["id"]) == (topic, id_):
            at = {int(partition): offset for partition, offset in self.told["positions"].items()}
            if all(self.positions.get(partition, 0) >= offset for partition, offset in at.items()):
                found.append(Place(self.told["offset"], self.told["time"]))
        return max(found, key=lambda one: one.offset, default=None)
