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

from lakeward.adapters.kafka.broker import Broker, Topic
from lakeward.adapters.kafka.lines import to_line
from lakeward.adapters.kafka.parts import Cut, Part, cut
from lakeward.adapters.kafka.ranges import OffsetRange
from lakeward.adapters.kafka.several_topics import Place as Partition
from lakeward.adapters.kafka.staging import Staging
from lakeward.adapters.kafka.transaction_places import TransactionPlaces
from lakeward.adapters.kafka.transaction_topic import (
    PATIENCE,
    Boundary,
    Decode,
    Place,
    TransactionLog,
    is_change,
    transaction_of,
)
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError

log = structlog.get_logger()

_MORE: Final = 4
"""How many times as much is read where a transaction is larger than a batch may be."""


class Bounds(NamedTuple):
    """How much a batch takes, unless a transaction is larger: messages, bytes, and seconds of reading."""

    messages: int
    bytes: int
    seconds: float

    def times(self, factor: int) -> Bounds:
        """Return so many times as much."""
        return Bounds(self.messages * factor, self.bytes * factor, self.seconds * factor)


class Landed(NamedTuple):
    """The ranges of the files that were written, and the place that the table has once they are applied.

    The place is in the topic of transactions with the `id`, in which it lay at the offset `start` before. All three
    are None where there is no such topic.
    """

    ranges: Sequence[OffsetRange]
    id: str | None = None
    start: int | None = None
    place: Place | None = None

    def in_topic(self, name: str) -> tuple[OffsetRange, int] | None:
        """Return the range of the topic of transactions that is whole, and when the last of it ended.

        The time is in milliseconds since 1970. None where nothing more became whole.
        """
        if self.id is None or self.start is None or self.place is None or self.place.offset <= self.start:
            return None
        found = OffsetRange.of_transactions(name, self.id, self.start, self.place.offset)
        return found, self.place.time or 0


@dataclass(slots=True)
class WholeTransactions:
    """Lands messages of a table up to the end of a transaction.

    The transactions are in the topic `name`; `decode` makes JSON of messages. `now` is in microseconds since 1970.
    """

    broker: Broker
    staging: Staging
    table: TableName
    name: str
    decode: Decode
    bounds: Bounds
    now: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    given_up: set[str] = field(default_factory=set)
    """Transactions whose END does not come any more."""

    def find(self) -> Topic | None:
        """Return the topic of transactions; raises ConfigError where it has several partitions."""
        found = self.broker.find(self.name)
        if found is not None and len(found.partitions) != 1:
            raise ConfigError(
                f"{self.table}: the topic of transactions must have one partition, which puts them in order",
                found=f"{self.name} has {len(found.partitions)}",
                todo="Let the connector send them into a topic with one partition (`topic.transaction`), or take "
                "`transactions` out of [source].",
            )
        return found

    def begin(self, topic: Topic, wanted: Sequence[OffsetRange]) -> Place:
        """Return the place of a table whose commits say none: where its first message was sent."""
        firsts = []
        for one in wanted:
            with closing(self.broker.read(one.topic, one.partition, one.start, one.end)) as records:
                firsts += [found.timestamp for found in islice(records, 1)]
        (offsets,) = topic.partitions.values()
        times = [time for time in firsts if time is not None]
        if not times:
            return Place(offsets.low)
        found = self.broker.offsets_at(self.name, topic.partitions, min(times))
        return Place(max(offsets.low, found.get(0, offsets.high)))

    def land(self, places: TransactionPlaces, wanted: Callable[[], Sequence[OffsetRange]]) -> Landed:
        """Read what comes next into files.

        `places` says how far the table is in the topic of transactions, and `wanted` which offsets wait now. Raises
        ConfigError for changes where no topic says to which transaction they belong.
        """
        topic = self.find()
        ranges = wanted()
        start = Place(0)
        if topic is not None:
            start = places.find(self.name, topic.id) or self.begin(topic, ranges)
        transactions, bounds = TransactionLog(self.table, start), self.bounds
        while True:
            if topic is not None and not transactions.is_whole:
                self._read_on(transactions, topic, bounds.messages)
                ranges = wanted()
            parts = self._read(ranges, transactions, bounds, has_topic=topic is not None)
            found = self._cut(parts, transactions)
            if any(found.kept) or topic is None:
                break
            if not transactions.is_whole or any(part.is_full for part in parts):
                bounds = bounds.times(_MORE)
            elif not self._give_up(parts):
                break
        landed = list(self._name(parts, found.kept))
        if topic is None:
            return Landed(landed)

        def is_applied(name: str) -> bool:
            return self._is_whole(transactions, name, found.changes.get(name, 0), found.behind)

        return Landed(landed, topic.id, start.offset, transactions.place(is_applied))

    def _read_on(self, transactions: TransactionLog, topic: Topic, most: int) -> None:
        """Read the topic of transactions on, up to its end, or until so many changes are known."""
        (offsets,) = topic.partitions.values()
        start = max(offsets.low, transactions.reached.offset)
        with closing(self.broker.read(self.name, 0, start, offsets.high)) as records:
            decoded = (self.decode(self.name, 0, one) for one in records)
            boundaries = (found for found in map(Boundary.read, decoded) if found is not None)
            transactions.read(boundaries if start < offsets.high else (), offsets.high, most)

    def _read(
        self, ranges: Sequence[OffsetRange], transactions: TransactionLog, bounds: Bounds, *, has_topic: bool
    ) -> list[Part]:
        """Read ranges into files without names, each up to a transaction that is not known to end.

        Partitions share the bounds; what one does not need is left to those behind it.
        """
        until = self.clock() + bounds.seconds
        messages, size = bounds.messages, bounds.bytes
        parts = []
        for number, one in enumerate(ranges):
            share = len(ranges) - number
            most, most_bytes = max(1, messages // share), max(1, size // share)
            part = Part(one, self.staging.unnamed(self.table, one), one.end)
            parts.append(part)
            reading = closing(self.broker.read(one.topic, one.partition, one.start, one.end))
            with reading as records, self.staging.writing(self.table, part.file) as file:
                place = Partition.of(one.topic, one.partition)
                for record in map(partial(self.decode, *place), records):
                    if not has_topic and is_change(record):
                        raise _no_topic(self.table, self.name)
                    transaction = transaction_of(record, one.topic, self.table)
                    if transaction is not None and not self._ends(transaction, transactions):
                        part.stop(transaction, record)
                        break
                    part.add(transaction, record, file.write(to_line(*place, record)))
                    if part.messages >= most or part.bytes >= most_bytes or self.clock() >= until:
                        part.fill(record)
                        break
            messages, size = messages - part.messages, size - part.bytes
        return parts

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

    def _give_up(self, parts: Sequence[Part]) -> bool:
        """Give transactions up that hold their partition though others have ended long behind them; say which.

        Return whether there are any.
        """
        found = False
        for part in parts:
            if part.stopped is None or part.stopped_at is None or part.runs:
                continue
            if self.broker.offsets_at(self.name, [0], part.stopped_at + PATIENCE):
                log.warning(
                    "a transaction has no end, and is applied as far as it was sent",
                    table=str(self.table),
                    transaction=part.stopped,
                    before=part.of.words,
                )
                self.given_up.add(part.stopped)
                found = True
        return found

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
        found=f"there is no topic {name}, which `transactions` under [source] names",
        todo="Set `provide.transaction.metadata=true` in the connector, and name the topic that it writes then: "
        "the prefix of its topics and `.transaction`. Without `transactions` a commit may end within one.",
    )
