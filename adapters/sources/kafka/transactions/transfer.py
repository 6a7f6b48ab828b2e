"""Transfer of messages where a batch must end between transactions: all changes of a transaction land, or none.

The topic of transactions is read first, and the ends of the partitions after it: by then they have what a
transaction sent before its END, except for what a producer must send again. Messages land up to the first one whose
transaction is not whole. If its changes are in one partition, the messages after it in other partitions wait, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Final, NamedTuple

import structlog

from lakeward.adapters.sources.kafka.broker import Broker, Topic
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange
from lakeward.adapters.sources.kafka.staging.message_files import MessageStaging
from lakeward.adapters.sources.kafka.staging.message_lines import to_line
from lakeward.adapters.sources.kafka.staging.transfer import ProgressLog
from lakeward.adapters.sources.kafka.topics import TopicPartition
from lakeward.adapters.sources.kafka.transactions.partition_cuts import Cut, PartitionRead, cut
from lakeward.adapters.sources.kafka.transactions.transaction_offsets import TransactionOffsets
from lakeward.adapters.sources.kafka.transactions.transaction_topic import (
    PATIENCE,
    Boundary,
    Change,
    Decode,
    TransactionLog,
    TransactionOffset,
)
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError

log = structlog.get_logger()

_MORE: Final = 4
"""The factor of the limits for a transaction that is larger than a batch."""


class Bounds(NamedTuple):
    """The limits of a batch, unless a transaction is larger: messages, bytes, and seconds of reading."""

    messages: int
    bytes: int
    seconds: float

    def times(self, factor: int) -> Bounds:
        """Return the limits multiplied by a factor."""
        return Bounds(self.messages * factor, self.bytes * factor, self.seconds * factor)


class LandedRanges(NamedTuple):
    """The ranges of the files that were written, and the position of the table once they are applied.

    The position is in the topic of transactions with the `id`, in which the table was at the offset `start`. All
    three are None where there is no such topic.
    """

    ranges: Sequence[OffsetRange]
    id: str | None = None
    start: int | None = None
    position: TransactionOffset | None = None

    def in_topic(self, name: str) -> tuple[OffsetRange, int] | None:
        """Return the range of the topic of transactions that is completed, and when its last transaction ended.

        The time is in milliseconds since 1970. None where no further transaction is whole.
        """
        if self.id is None or self.start is None or self.position is None or self.position.offset <= self.start:
            return None
        complete = OffsetRange.of_transactions(name, self.id, self.start, self.position.offset)
        return complete, self.position.time or 0


@dataclass(slots=True)
class TransactionTransfer:
    """Writes messages of a table into files, up to the end of a transaction.

    The transactions are in the topic `name`, which is read up to the offset `end` (None: all of it). `decode` makes
    JSON of messages. `now` is in microseconds since 1970.
    """

    broker: Broker
    staging: MessageStaging
    table: TableName
    name: str
    decode: Decode
    bounds: Bounds
    now: Callable[[], int]
    end: int | None = None
    clock: Callable[[], float] = time.monotonic
    abandoned: set[str] = field(default_factory=set)
    """Transactions whose END is no longer expected."""
    oldest_time: int = 0
    """When the first message was sent that is still in the topic of transactions; 0 if none is gone."""
    older_changes: int = 0
    """The number of changes that were read and are older than `oldest_time`."""

    def find(self) -> Topic | None:
        """Return the topic of transactions; raises ConfigError if it has several partitions."""
        topic = self.broker.find(self.name)
        if topic is not None and len(topic.partitions) != 1:
            raise ConfigError(
                f"{self.table}: the topic of transactions must have one partition, which puts them in order",
                found=f"{self.name} has {len(topic.partitions)}",
                todo="Let the connector send them into a topic with one partition (`topic.transaction`), or take "
                "`transactions` out of the settings.",
            )
        return topic

    def land(self, offsets: TransactionOffsets, find_ranges: Callable[[], Sequence[OffsetRange]]) -> LandedRanges:
        """Read the next messages into files.

        `offsets` has the position of the table in the topic of transactions. `find_ranges` returns the ranges that
        wait at the broker now. Raises ConfigError for changes of transactions if there is no topic of transactions.
        """
        topic = self.find()  # before the ends of the partitions, so that they have what was sent before an END
        ranges = find_ranges()
        start = TransactionOffset(0)
        if topic is not None:
            self.oldest_time = self._find_oldest_time(topic)
            start = offsets.find(self.name, topic.id) or self._find_begin(topic, ranges)
        transactions, bounds = TransactionLog(self.table, start), self.bounds
        while True:
            if topic is not None and not transactions.is_whole:
                self._read_log(transactions, topic, bounds.messages)
            parts = self._read(ranges, transactions, bounds, has_topic=topic is not None)
            cut_result = self._cut(parts, transactions)
            if any(cut_result.landed_runs) or topic is None:
                break
            if self._needs_more(parts, cut_result, transactions):
                bounds = bounds.times(_MORE)
            elif not self._give_up(parts, transactions):
                break
        landed_ranges = list(self._name_files(parts, cut_result.landed_runs))
        if self.older_changes and landed_ranges:
            log.warning(
                "changes are older than the topic of transactions, and each is taken as a whole transaction",
                table=str(self.table),
                changes=self.older_changes,
            )
        if topic is None:
            return LandedRanges(landed_ranges)

        def is_applied(name: str) -> bool:
            return name not in cut_result.incomplete and self._is_whole(
                transactions, name, cut_result.changes.get(name, 0), cut_result.searched_to
            )

        return LandedRanges(landed_ranges, topic.id, start.offset, transactions.offset(is_applied))

    def _find_oldest_time(self, topic: Topic) -> int:
        """Return when the first message was sent that still exists; 0 if it is the first message of all."""
        (offsets,) = topic.partitions.values()
        if not 0 < offsets.low < offsets.high:
            return 0
        with closing(self.broker.read(self.name, 0, offsets.low, offsets.high)) as records:
            return next((one.timestamp or 0 for one in _single(records)), 0)

    def _find_begin(self, topic: Topic, ranges: Sequence[OffsetRange]) -> TransactionOffset:
        """Return the offset for a table whose commits have none: `PATIENCE` before its first message was sent."""
        firsts = []
        for one in ranges:
            with closing(self.broker.read(one.topic, one.partition, one.start, one.end)) as records:
                firsts += [one.timestamp for one in islice(_single(records), 1)]
        (offsets,) = topic.partitions.values()
        times = [time for time in firsts if time is not None]
        if not times:
            return TransactionOffset(offsets.low)
        offsets_by_time = self.broker.offsets_at(self.name, topic.partitions, min(times) - PATIENCE)
        return TransactionOffset(max(offsets.low, offsets_by_time.get(0, offsets.high)))

    def _read_log(self, transactions: TransactionLog, topic: Topic, most: int) -> None:
        """Read the topic of transactions up to its end, or until so many changes are known."""
        (offsets,) = topic.partitions.values()
        end = offsets.high if self.end is None else min(self.end, offsets.high)
        start = max(offsets.low, transactions.position.offset)
        if start >= end:
            transactions.read((), end, most)
            return
        with closing(self.broker.read(self.name, 0, start, end)) as records:
            decoded = (self.decode(self.name, 0, one) for one in _single(records))
            transactions.read((one for one in map(Boundary.read, decoded) if one is not None), end, most)

    def _read(
        self, ranges: Sequence[OffsetRange], transactions: TransactionLog, bounds: Bounds, *, has_topic: bool
    ) -> list[PartitionRead]:
        """Read ranges into files without names, each up to a transaction without a known end.

        Partitions share the limits; the unused part of a share is passed on to the next partitions.
        """
        self.older_changes = 0
        until = self.clock() + bounds.seconds
        messages, size = bounds.messages, bounds.bytes
        parts = []
        for number, one in enumerate(ranges):
            share = len(ranges) - number
            part_bounds = Bounds(max(1, messages // share), max(1, size // share), until)
            part = PartitionRead(one, self.staging.new_file(self.table, one), one.end)
            parts.append(part)
            self._read_part(part, part_bounds, transactions, has_topic=has_topic)
            messages, size = messages - part.messages, size - part.bytes
        return parts

    def _read_part(
        self, part: PartitionRead, most: Bounds, transactions: TransactionLog, *, has_topic: bool
    ) -> None:
        one, progress = part.offset_range, ProgressLog(self.clock)
        place = TopicPartition.of(one.topic, one.partition)
        reading = closing(self.broker.read(one.topic, one.partition, one.start, one.end))
        with reading as records, self.staging.writing(self.table, part.file) as file:
            for record in map(partial(self.decode, *place), _single(records)):
                change = Change.read(record, place.topic, self.table)
                if change.is_own and not has_topic:
                    raise _no_topic_error(self.table, self.name)
                name = change.transaction
                if name is not None and record.timestamp is not None and record.timestamp < self.oldest_time:
                    name, self.older_changes = None, self.older_changes + 1
                if name is not None and not self._ends(name, transactions):
                    part.stop(name, record)
                    return
                part.add(name, record, file.write(to_line(*place, record)))
                progress.update(one, part.messages)
                if part.messages >= most.messages or part.bytes >= most.bytes or self.clock() >= most.seconds:
                    part.fill(record)
                    return

    def _ends(self, name: str, transactions: TransactionLog) -> bool:
        transaction = transactions.transactions.get(name)
        return name in self.abandoned or (transaction is not None and transaction.ends is not None)

    def _cut(self, parts: Sequence[PartitionRead], transactions: TransactionLog) -> Cut:
        def ends(name: str) -> int:
            transaction = transactions.transactions.get(name)
            return -1 if transaction is None or transaction.ends is None else transaction.ends

        return cut(parts, ends, partial(self._is_whole, transactions))

    def _is_whole(self, transactions: TransactionLog, name: str, changes_read: int, searched_to: float) -> bool:
        if name in self.abandoned:
            return True
        return transactions.transactions[name].is_whole(changes_read, searched_to, self.now() // 1000)

    def _needs_more(self, parts: Sequence[PartitionRead], cut_result: Cut, transactions: TransactionLog) -> bool:
        """Return True if more must be read because a transaction is larger than a batch."""
        if not transactions.is_whole and any(part.blocking for part in parts):
            return True
        first = min((transactions.transactions[name].ends or 0 for name in cut_result.incomplete), default=None)
        return any(part.is_full for part in parts) and (first is None or first >= cut_result.searched_to)

    def _give_up(self, parts: Sequence[PartitionRead], transactions: TransactionLog) -> bool:
        """Give up transactions without an END that block a partition, long after others ended, and log them.

        Return True if there are any.
        """
        blocking = {
            part.blocking: part
            for part in parts
            if part.blocking is not None
            and part.blocked_at is not None
            and part.blocked_at + PATIENCE < transactions.last_end
        }
        for name, part in blocking.items():
            log.warning(
                "a transaction has no END, and its changes so far are applied",
                table=str(self.table),
                transaction=name,
                before=part.offset_range.words,
            )
        self.abandoned |= blocking.keys()
        return bool(blocking)

    def _name_files(self, parts: Sequence[PartitionRead], landed_runs: Sequence[int]) -> Iterator[OffsetRange]:
        """Give files their names, without the messages that do not land; a range without messages has no file."""
        for part, runs in zip(parts, landed_runs, strict=True):
            offset_range = part.offset_range
            if runs == 0:
                part.file.unlink()
                continue
            size, end, last = part.bytes, part.end, part.last
            if runs < len(part.runs):
                _, end, size, last = part.runs[runs]
            written_range = OffsetRange(
                offset_range.topic, offset_range.id, offset_range.partition, offset_range.start, end
            )
            self.staging.name_file(self.table, part.file, written_range, size, last)
            yield written_range


_single: Final = chain.from_iterable
"""Yields the single messages of batches."""


def _no_topic_error(table: TableName, name: str) -> ConfigError:
    return ConfigError(
        f"{table}: it is unknown where the transactions of its changes end",
        found=f"there is no topic {name}, which `transactions` names",
        todo="Set `provide.transaction.metadata=true` in the connector, and name the topic that it writes then: "
        "the prefix of its topics and `.transaction`. Without `transactions` a commit may end within one.",
    )
