"""The topic in which Debezium records begin and end of transactions, and their number of changes of each table.

debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-transaction-metadata. A connector
that starts again may send both messages again, and one of an older version counts anew within the transaction
(github.com/debezium/dbz/issues/633): the number in an END is at most that of the changes that were sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.messages.transaction_ids import transaction_name
from lakeward.core.dimension import TableName

PATIENCE: Final = 600_000
"""Milliseconds after which a missing change is no longer expected.

A transform may drop it, compaction may have removed it, or the connector was created anew. A Kafka producer gives
up after two minutes by default.
"""

_OF_SQL_SERVER: Final = re.compile(r"[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}")
"""The id of a transaction of SQL Server, whose connector may interleave several transactions."""

Decode = Callable[[str, int, Record], Record]
"""Makes JSON of a topic, a partition and a message."""


class TransactionOffset(NamedTuple):
    """The position of a table in the topic: all transactions that begin before the `offset` are applied.

    `time` is when the last of them ended, in milliseconds since 1970; None if unknown.
    """

    offset: int
    time: int | None = None


class Boundary(NamedTuple):
    """A message of the topic. `tables` of an END has the number of changes of each table by its database name.

    `time` is that of the boundary, `sent` that of the message, both in milliseconds since 1970.
    """

    offset: int
    sent: int | None
    transaction: str
    time: int | None
    tables: Mapping[str, int] | None = None

    @classmethod
    def read(cls, record: Record) -> Boundary | None:
        """Return the boundary that a message is, or None if it is none.

        >>> end = b'{"status": "END", "id": "7:99", "ts_ms": 5, "data_collections": []}'
        >>> Boundary.read(Record(3, 6, None, end))
        Boundary(offset=3, sent=6, transaction='7', time=5, tables={})
        """
        value = payload_of(record.value)
        match value:
            case {"status": "BEGIN" | "END" as status, "id": str(id_)}:
                millis = value.get("ts_ms")
                time = millis if isinstance(millis, int) else None
                tables = _counts(value.get("data_collections")) if status == "END" else None
                return cls(record.offset, record.timestamp, transaction_name(id_), time, tables)
        return None


def payload_of(value: bytes | None) -> Any:
    """Return the JSON object of a message, without the schema that may accompany it; None for anything else."""
    try:
        payload = json.loads(value or b"null")
    except ValueError:
        return None
    if isinstance(payload, dict) and isinstance(payload.get("payload"), dict):
        payload = payload["payload"]
    return payload if isinstance(payload, dict) else None


def _counts(listed: Any) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for one in listed if isinstance(listed, list) else ():
        match one:
            case {"data_collection": str(name), "event_count": int(count)}:
                counts[name] = counts.get(name, 0) + count
    return counts


class Change(NamedTuple):
    """Whether a message is a change of the table, and its transaction, if the message names one."""

    is_own: bool = False
    transaction: str | None = None

    @classmethod
    def read(cls, record: Record, topic: str, table: TableName) -> Change:
        """Return what a message of a topic is; rows of a snapshot, tombstones and heartbeats are no changes.

        A TRUNCATE of MariaDB or MySQL is a transaction by itself, and no END is sent for it.
        """
        match payload_of(record.value):
            case {"op": "c" | "u" | "d" | "t" as op, "source": dict(source), **rest}:
                schema, name = topic.rsplit(".", 2)[-2:] if topic.count(".") else ("", topic)
                named = (source.get("schema") or source.get("db") or schema, source.get("table") or name)
                if [str(part).lower() for part in named] != [table.schema.lower(), table.table.lower()]:
                    return cls()
                if op == "t" and source.get("connector") in ("mariadb", "mysql"):
                    return cls(is_own=True)
                match rest.get("transaction"):
                    case {"id": str(id_)}:
                        return cls(is_own=True, transaction=transaction_name(id_))
                return cls(is_own=True)
        return cls()


@dataclass(slots=True)
class Transaction:
    """A transaction that began at or after a place in the topic, or ended there and began before.

    `begins` and `ends` are the offsets of its first BEGIN and its first END, `begun` and `sent` the times at which
    these were sent. `changes` is its number of changes of the table. `before` is the time of the last END before
    it.
    """

    begins: int | None
    before: int | None
    begun: int | None = None
    ends: int | None = None
    sent: int | None = None
    changes: int = 0

    @property
    def first(self) -> int:
        """The offset of its first message."""
        return self.begins if self.begins is not None else self.ends or 0

    def is_whole(self, changes_read: int, searched_to: float, now: int) -> bool:
        """Return True if no further change of the table is expected, after `changes_read` changes.

        All transactions that end before the offset `searched_to` were searched for in each partition; `now` is in
        milliseconds since 1970. The number of a transaction whose BEGIN was not read says nothing, because a part
        of it may have been applied before.
        """
        if self.ends is None:
            return False
        if self.begins is not None and changes_read >= self.changes:
            return True
        is_old = self.sent is None or self.sent + PATIENCE < now
        return self.ends < searched_to and (self.begins is None or is_old)


@dataclass(slots=True)
class TransactionLog:
    """The transactions of a table from a place in the topic on: open ones, and those that changed the table.

    `last_end` is when the last END that was read was sent.
    """

    table: TableName
    position: TransactionOffset
    transactions: dict[str, Transaction] = field(default_factory=dict)
    is_whole: bool = False
    """True if the topic was read to its end."""
    newest: str = ""
    """The transaction that began last."""
    last_end: int = 0

    def read(self, boundaries: Iterable[Boundary], end: int, most: int) -> None:
        """Read boundaries up to the offset `end`, or until `most` changes of the table are known."""
        changes = 0
        for one in boundaries:
            changes += self._begin(one) if one.tables is None else self._end(one, self._changes(one.tables))
            if changes >= most:
                return
        self.position = TransactionOffset(max(end, self.position.offset), self.position.time)
        self.is_whole = True

    def _begin(self, one: Boundary) -> int:
        """Add a BEGIN, and drop the transaction before it if that has no END, as with a DDL of MariaDB.

        Transactions of SQL Server are not dropped: several may be open.
        """
        before, name = self.transactions.get(self.newest), self.newest
        is_over = before is not None and before.ends is None and name != one.transaction
        if is_over and _OF_SQL_SERVER.fullmatch(name) is None:
            del self.transactions[name]
        self.newest = one.transaction
        self.transactions.setdefault(one.transaction, Transaction(one.offset, self.position.time, one.sent))
        self.position = TransactionOffset(one.offset + 1, self.position.time)
        return 0

    def _end(self, one: Boundary, changes: int) -> int:
        """Add an END of a transaction with a number of changes of the table, and return that number."""
        name, time = one.transaction, self.position.time
        if changes:
            transaction = self.transactions.setdefault(name, Transaction(None, time))
            if transaction.ends is None:
                transaction.ends, transaction.sent = one.offset, one.sent
            transaction.changes = max(changes, transaction.changes)
        elif (open_ := self.transactions.get(name)) is not None and open_.ends is None:
            del self.transactions[name]
        self.last_end = max(self.last_end, one.sent or 0)
        self.position = TransactionOffset(one.offset + 1, time if one.time is None else max(one.time, time or 0))
        return changes

    def _changes(self, tables: Mapping[str, int]) -> int:
        table_name = str(self.table).lower()
        return sum(n for name, n in tables.items() if f".{name}".lower().endswith(f".{table_name}"))

    def offset(self, is_applied: Callable[[str], bool]) -> TransactionOffset:
        """Return the position up to which all is applied, after the transactions of `is_applied`.

        A transaction that has been open for `PATIENCE` blocks nothing.
        """
        unapplied = [
            one for name, one in self.transactions.items() if not is_applied(name) and not self._is_abandoned(one)
        ]
        earliest = min(unapplied, key=lambda one: one.first, default=None)
        return self.position if earliest is None else TransactionOffset(earliest.first, earliest.before)

    def _is_abandoned(self, one: Transaction) -> bool:
        return one.ends is None and one.begun is not None and one.begun + PATIENCE < self.last_end
