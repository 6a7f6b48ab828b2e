"""How many messages wait at a broker for a table, and up to when tables have all transactions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakeward.adapters.sources.kafka.broker import Topic
from lakeward.adapters.sources.kafka.inventory import KafkaSourceInventory
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange, next_offsets, read_names
from lakeward.adapters.sources.kafka.staging.message_files import Staging
from lakeward.adapters.sources.kafka.transactions.transaction_offsets import TransactionOffsets
from lakeward.core.dimension import TableName
from lakeward.core.ledger.objects import SourceObject


@dataclass(frozen=True, slots=True)
class KafkaBacklog:
    """The topics of a broker, with what lies behind the offsets that tables have applied."""

    landing: KafkaSourceInventory
    start: str | None
    follows_snapshot: bool = False
    """Whether a table with a batch begins at 0, where its objects say nothing else."""
    staging: Staging | None = None
    """Where messages land."""
    transactions: str | None = None
    """The topic of transactions, where the settings name one."""

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

    def consistent_as_of(self, applied: Sequence[tuple[TableName, Collection[SourceObject]]]) -> int | None:
        """Return up to when all transactions of the source are applied to tables of it with these objects.

        None where a table has no offset in the topic of transactions; one whose topic has no message needs none.
        """
        topic = None if self.transactions is None else self.landing.broker.find(self.transactions)
        if topic is None or self.staging is None:
            return None
        found = []
        for table, objects in applied:
            positions = next_offsets(read_names(item.name for item in objects))
            noted = self.staging.noted_transactions(table) if objects else None
            reached = TransactionOffsets(objects, noted, positions).find(topic.name, topic.id)
            if reached is None and not self._is_empty(table):
                return None
            found += [] if reached is None else [reached]
        first = min(found, key=lambda one: one.offset, default=None)
        return None if first is None or first.time is None else first.time * 1000

    def _is_empty(self, table: TableName) -> bool:
        topic = self.landing.broker.find(self.landing.topic_of(table))
        return topic is None or not any(high for _, high in topic.partitions.values())


def _behind(topic: Topic, applied: Collection[OffsetRange]) -> int:
    """Return how many offsets lie behind those that were applied; a partition of which none was begins at 0."""
    reached = next_offsets(applied)
    return sum(max(0, high - reached.get(number, 0)) for number, (_, high) in topic.partitions.items())
