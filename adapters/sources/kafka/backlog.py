"""The backlog of a broker: waiting messages of a table, and the time up to which tables have all transactions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakeward.adapters.sources.kafka.broker import Topic
from lakeward.adapters.sources.kafka.inventory import KafkaSourceInventory
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange, next_offsets, parse_ranges
from lakeward.adapters.sources.kafka.staging.message_files import MessageStaging
from lakeward.adapters.sources.kafka.transactions.transaction_offsets import TransactionOffsets
from lakeward.core.dimension import TableName
from lakeward.core.ledger.objects import SourceObject


@dataclass(frozen=True, slots=True)
class KafkaBacklog:
    """The topics of a broker, compared with the offsets that tables have applied."""

    inventory: KafkaSourceInventory
    start: str | None
    follows_snapshot: bool = False
    """True if a partition that a table's commits do not name begins at offset 0, because a snapshot came first."""
    staging: MessageStaging | None = None
    """The folder in which messages land."""
    transactions: str | None = None
    """The topic of transactions, or None if the settings name none."""

    def count_waiting(self, table: TableName, applied: Collection[str]) -> int | None:
        """Return the number of offsets that wait for a table, by the names of the objects that it has applied.

        None where it is not known: the topic is missing or was created anew, or the table has no batch and begins
        at a place that was not looked up yet.
        """
        topic, ranges = self.inventory.broker.find(self.inventory.topic_of(table)), parse_ranges(applied)
        if topic is None or any((one.topic, one.id) != (topic.name, topic.id) for one in ranges):
            return None
        if not ranges and self.follows_snapshot:
            return _count_waiting(topic, ()) if applied else None
        if not ranges:
            begins_at_low = self.start in (None, "earliest")
            return sum(high - low for low, high in topic.partitions.values()) if begins_at_low else None
        return _count_waiting(topic, ranges)

    def consistent_as_of(self, applied: Sequence[tuple[TableName, Collection[SourceObject]]]) -> int | None:
        """Return the time up to which the tables have all transactions of the source, in microseconds since 1970.

        `applied` has the objects of each table. None where a table has no offset in the topic of transactions,
        unless its own topic has no message.
        """
        topic = None if self.transactions is None else self.inventory.broker.find(self.transactions)
        if topic is None or self.staging is None:
            return None
        offsets = []
        for table, objects in applied:
            positions = next_offsets(parse_ranges(item.name for item in objects))
            progress = self.staging.read_transaction_progress(table) if objects else None
            offset = TransactionOffsets(objects, progress, positions).find(topic.name, topic.id)
            if offset is None and not self._is_empty(table):
                return None
            offsets += [] if offset is None else [offset]
        earliest = min(offsets, key=lambda one: one.offset, default=None)
        return None if earliest is None or earliest.time is None else earliest.time * 1000

    def _is_empty(self, table: TableName) -> bool:
        topic = self.inventory.broker.find(self.inventory.topic_of(table))
        return topic is None or not any(high for _, high in topic.partitions.values())


def _count_waiting(topic: Topic, applied: Collection[OffsetRange]) -> int:
    """Return the number of offsets after the applied ones; a partition without an applied one begins at 0."""
    positions = next_offsets(applied)
    return sum(max(0, high - positions.get(number, 0)) for number, (_, high) in topic.partitions.items())
