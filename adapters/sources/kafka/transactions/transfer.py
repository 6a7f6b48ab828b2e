"""What lands of a topic where a batch must end between transactions: of each, all changes of the table or none.

The topic of transactions is read first, and then the ends of the partitions: what a transaction sent before its END
is there by then, but for what a producer has to send again. Messages land up to the first one whose transaction is
not whole; where that is in one partition, those behind it in others wait, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

import structlog

from lakeward.adapters.sources.kafka.broker import Broker, Topic
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange
from lakeward.adapters.sources.kafka.staging.message_files import Staging
from lakeward.adapters.sources.kafka.staging.message_lines import to_line
from lakeward.adapters.sources.kafka.topics import Place
from lakeward.adapters.sources.kafka.transactions.partition_cuts import Cut, Part, cut
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
"""How many times as much is read where a transaction is larger than a batch may be."""

_TELL_EVERY: Final = 10.0
"""Seconds between two words of how far it is."""


class Bounds(NamedTuple):
    """How much a batch takes, unless a transaction is larger: messages, bytes, and seconds of reading."""

    messages: int
    bytes: int
    seconds: float

    def times(self, factor: int) -> Bounds:
        """Return so many times as much."""
        return Bounds(self.messages * factor, self.bytes * factor, self.seconds * factor)


class Landed(NamedTuple):
    """The ranges of the files that were written, and how far the table is once they are applied.

    That is in the topic of transactions with the `id`, in which the table was at the offset `start`. All three are
    None where there is no such topic.
    """

    ranges: Sequence[OffsetRange]
    id: str | None = None
    start: int | None = None
    reached: TransactionOffset | None = None

    def in_topic(self, name: str) -> tuple[OffsetRange, int] | None:
        """Return the range of the topic of transactions that is whole, and when the last of it ended.

        The time is in milliseconds since 1970. None where nothing more became whole.
        """
        if self.id is None or self.start is None or self.reached is None or self.reached.offset <= self.start:
            return None
        found = OffsetRange.of_transactions(name, self.id, self.start, self.reached.offset)
        return found, self.reached.time or 0


@dataclass(slots=True)
class WholeTransactions:
    """Lands messages of a table up to the end of a transaction.

    The transactions are in the topic `name`, of which nothing is read from the offset `end` on (None: all is);
    `decode` makes JSON of messages. `now` is in microseconds since 1970.
    """

    broker: Broker
    staging: Staging
    table: TableName
    name: str
    decode: Decode
    bounds: Bounds
    now: Callable[[], int]
    end: int | None = None
    clock: Callable[[], float] = time.monotonic
    given_up: set[str] = field(default_factory=set)
    """Transactions whose END does not come any more."""
    oldest: int = 0
    """When the first message was sent that is still in the topic of transactions; 0 where none is gone."""
    older: int = 0
    """How many changes were read that are older than that."""

    def find(self) -> Topic | None:
        """Return the topic of transactions; raises ConfigError where it has several partitions."""
        found = self.broker.find(self.name)
        if found is not None and len(found.partitions) != 1:
            raise ConfigError(
                f"{self.table}: the topic of transactions must have one partition, which puts them in order",
                found=f"{self.name} has {len(found.partitions)}",
                todo="Let the connector send them into a topic with one partition (`topic.transaction`), or take "
                "`transactions` out of the settings.",
            )
        return found

    def land(self, offsets: TransactionOffsets, wanted: Callable[[], Sequence[OffsetRange]]) -> Landed:
        """Read what comes next into files.

        `offsets` says how far the table is in the topic of transactions, and `wanted` which offsets wait now.
        Raises ConfigError for changes where no topic says to which transaction they belong.
        """
        topic = self.find()  # before the ends of the partitions: what was sent before an END is there then
        ranges = wanted()
        start = TransactionOffset(0)
        if topic is not None:
            self.oldest = self._oldest(topic)
            start = offsets.find(self.name, topic.id) or self._begin(topic, ranges)
        transactions, bounds = TransactionLog(self.table, start), self.bounds
        while True:
            if topic is not None and not transactions.is_whole:
                self._read_on(transactions, topic, bounds.messages)
            parts = self._read(ranges, transactions, bounds, has_topic=topic is not None)
            found = self._cut(parts, transactions)
            if any(found.kept) or topic is None:
                break
            if self._needs_more(parts, found, transactions):
                bounds = bounds.times(_MORE)
            elif not self._give_up(parts, transactions):
                break
        landed = list(self._name(parts, found.kept))
        if self.older and landed:
            log.warning(
                "changes are older than the topic of transactions, and are taken for whole one by one",
                table=str(self.table),
                changes=self.older,
            )
        if topic is None:
            return Landed(landed)

        def is_applied(name: str) -> bool:
            return name not in found.left and self._is_whole(
                transactions, name, found.changes.get(name, 0), found.behind
            )

        return Landed(landed, topic.id, start.offset, transactions.offset(is_applied))

    def _oldest(self, topic: Topic) -> int:
        """Return when the first message was sent that is still there; 0 where it is the first of all."""
        (offsets,) = topic.partitions.values()
        if not 0 < offsets.low < offsets.high:
            return 0
        with closing(self.broker.read(self.name, 0, offsets.low, offsets.high)) as records:
            return next((one.timestamp or 0 for one in islice(records, 1)), 0)

    def _begin(self, topic: Topic, wanted: Sequence[OffsetRange]) -> TransactionOffset:
        """Return the offset of a table whose commits say none: a while before its first message was sent."""
        firsts = []
        for one in wanted:
            with closing(self.broker.read(one.topic, one.partition, one.start, one.end)) as records:
                firsts += [found.timestamp for found in islice(records, 1)]
        (offsets,) = topic.partitions.values()
        times = [time for time in firsts if time is not None]
        if not times:
            return TransactionOffset(offsets.low)
        found = self.broker.offsets_at(self.name, topic.partitions, min(times) - PATIENCE)
        return TransactionOffset(max(offsets.low, found.get(0, offsets.high)))

    def _read_on(self, transactions: TransactionLog, topic: Topic, most: int) -> None:
        """Read the topic of transactions on, up to its end, or until so many changes are known."""
        (offsets,) = topic.partitions.values()
        end = offsets.high if self.end is None else min(self.end, offsets.high)
        start = max(offsets.low, transactions.reached.offset)
        if start >= end:
            transactions.read((), end, most)
            return
        with closing(self.broker.read(self.name, 0, start, end)) as records:
            decoded = (self.decode(self.name, 0, one) for one in records)
            transactions.read((one for one in map(Boundary.read, decoded) if one is not None), end, most)

    def _read(
        self, ranges: Sequence[OffsetRange], transactions: TransactionLog, bounds: Bounds, *, has_topic: bool
    ) -> list[Part]:
        """Read ranges into files without names, each up to a transaction that is not known to end.

        Partitions share the bounds; what one does not need is left to those behind it.
        """
        self.older = 0
        until = self.clock() + bounds.seconds
        messages, size = bounds.messages, bounds.bytes
        parts = []
        for number, one in enumerate(ranges):
            share = len(ranges) - number
            own = Bounds(max(1, messages // share), max(1, size // share), until)
            part = Part(one, self.staging.unnamed(self.table, one), one.end)
            parts.append(part)
            self._read_part(part, own, transactions, has_topic=has_topic)
            messages, size = messages - part.messages, size - part.bytes
        return parts

    def _read_part(self, part: Part, most: Bounds, transactions: TransactionLog, *, has_topic: bool) -> None:
        one, tell = part.of, self.clock() + _TELL_EVERY
        place = Place.of(one.topic, one.partition)
        reading = closing(self.broker.read(one.topic, one.partition, one.start, one.end))
        with reading as records, self.staging.writing(self.table, part.file) as file:
            for record in map(partial(self.decode, *place), records):
                change = Change.read(record, place.topic, self.table)
                if change.is_own and not has_topic:
                    raise _no_topic(self.table, self.name)
                name = change.transaction
                if name is not None and record.timestamp is not None and record.timestamp < self.oldest:
                    name, self.older = None, self.older + 1
                if name is not None and not self._ends(name, transactions):
                    part.stop(name, record)
                    return
                part.add(name, record, file.write(to_line(*place, record)))
                now = self.clock()
                if part.messages >= most.messages or part.bytes >= most.bytes or now >= most.seconds:
                    part.fill(record)
                    return
                if now >= tell:
                    tell = now + _TELL_EVERY
                    log.info("reads messages", **place._asdict(), messages=part.messages, of=one.end - one.start)

    def _ends(self, name: str, transactions: TransactionLog) -> bool:
        known = transactions.found.get(name)
        return name in self.given_up or (known is not None and known.ends is not None)

    def _cut(self, parts: Sequence[Part], transactions: TransactionLog) -> Cut:
        def ends(name: str) -> int:
            known = transactions.found.get(name)
            return -1 if known is None or known.ends is None else known.ends

        return cut(parts, ends, partial(self._is_whole, transactions))

    def _is_whole(self, transactions: TransactionLog, name: str, seen: int, behind: float) -> bool:
        if name in self.given_up:
            return True
        return transactions.found[name].is_whole(seen, behind, self.now() // 1000)

    def _needs_more(self, parts: Sequence[Part], found: Cut, transactions: TransactionLog) -> bool:
        """Whether more must be read to know of a transaction that nothing lands: it is larger than a batch."""
        if not transactions.is_whole and any(part.stopped for part in parts):
            return True
        first = min((transactions.found[name].ends or 0 for name in found.left), default=None)
        return any(part.is_full for part in parts) and (first is None or first >= found.behind)

    def _give_up(self, parts: Sequence[Part], transactions: TransactionLog) -> bool:
        """Give up transactions that hold a partition up though others have ended long after; say which.

        Return whether there are any.
        """
        stopped = {
            part.stopped: part
            for part in parts
            if part.stopped is not None
            and part.stopped_at is not None
            and part.stopped_at + PATIENCE < transactions.last_end
        }
        for name, part in stopped.items():
            log.warning(
                "a transaction has no end, and is applied as far as it was sent",
                table=str(self.table),
                transaction=name,
                before=part.of.words,
            )
        self.given_up |= stopped.keys()
        return bool(stopped)

    def _name(self, parts: Sequence[Part], kept: Sequence[int]) -> Iterator[OffsetRange]:
        """Give files their names, without what does not land; a range without messages makes none."""
        for part, most in zip(parts, kept, strict=True):
            of = part.of
            if most == 0:
                part.file.unlink()
                continue
            size, end, last = part.bytes, part.end, part.last
            if most < len(part.runs):
                _, end, size, last = part.runs[most]
            found = OffsetRange(of.topic, of.id, of.partition, of.start, end)
            self.staging.name(self.table, part.file, found, size, last)
            yield found


def _no_topic(table: TableName, name: str) -> ConfigError:
    return ConfigError(
        f"{table}: nothing says where the transactions of its changes end",
        found=f"there is no topic {name}, which `transactions` names",
        todo="Set `provide.transaction.metadata=true` in the connector, and name the topic that it writes then: "
        "the prefix of its topics and `.transaction`. Without `transactions` a commit may end within one.",
    )
