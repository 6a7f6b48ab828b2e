"""The topic in which Debezium says where transactions begin and end, and how many changes of each table they have.

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
"""Milliseconds after which a change that was not seen is taken for one that does not come: a transform drops it,
compaction removed it, or a connector was made anew. A producer of Kafka gives up after two minutes by default."""

_OF_SQL_SERVER: Final = re.compile(r"[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}")
"""The id of a transaction of SQL Server, whose connector may send several side by side."""

Decode = Callable[[str, int, Record], Record]
"""Makes JSON of a message of a topic and a partition."""


class TransactionOffset(NamedTuple):
    """How far a table is in the topic: all transactions that begin before the `offset` are applied to it.

    `time` is when the last of them ended, in milliseconds since 1970; None where none is known.
    """

    offset: int
    time: int | None = None


class Boundary(NamedTuple):
    """A message of the topic. Of an END `tables` has the changes of each table by its name in the database.

    `time` is that of the boundary, `sent` that of the message, both in milliseconds since 1970.
    """

    offset: int
    sent: int | None
    transaction: str
    time: int | None
    tables: Mapping[str, int] | None = None

    @classmethod
    def read(cls, record: Record) -> Boundary | None:
        """Return what a message says, None where it is no boundary.

        >>> end = b'{"status": "END", "id": "7:99", "ts_ms": 5, "data_collections": []}'
        >>> Boundary.read(Record(3, 6, None, end))
        Boundary(offset=3, sent=6, transaction='7', time=5, tables={})
        """
        value = payload_of(record.value)
        match value:
            case {"status": "BEGIN" | "END" as status, "id": str(id_)}:
                found = value.get("ts_ms")
                time = found if isinstance(found, int) else None
                tables = _counts(value.get("data_collections")) if status == "END" else None
                return cls(record.offset, record.timestamp, transaction_name(id_), time, tables)
        return None


def payload_of(value: bytes | None) -> Any:
    """Return the JSON of a message, without the schema that may stand beside it; None for what is no object."""
    try:
        found = json.loads(value or b"null")
    except ValueError:
        return None
    if isinstance(found, dict) and isinstance(found.get("payload"), dict):
        found = found["payload"]
    return found if isinstance(found, dict) else None


def _counts(listed: Any) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for one in listed if isinstance(listed, list) else ():
        match one:
            case {"data_collection": str(name), "event_count": int(count)}:
                found[name] = found.get(name, 0) + count
    return found


class Change(NamedTuple):
    """What a message says of itself: whether it is a change of the table, and of which transaction, if it tells."""

    is_own: bool = False
    transaction: str | None = None

    @classmethod
    def read(cls, record: Record, topic: str, table: TableName) -> Change:
        """Return what a message of a topic says; rows of a snapshot, tombstones and heartbeats are no changes.

        A TRUNCATE of MariaDB or MySQL is a transaction by itself, of which no END is sent.
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
    """A transaction that began behind a place in the topic, or ended there without a beginning.

    `begins` and `ends` are the offsets of its first BEGIN and its first END, `begun` and `sent` when these were
    sent. It has so many `changes` of the table. `before` is the time of the last END before it.
    """

    begins: int | None
    before: int | None
    begun: int | None = None
    ends: int | None = None
    sent: int | None = None
    changes: int = 0

    @property
    def first(self) -> int:
        """The offset of the first message of it."""
        return self.begins if self.begins is not None else self.ends or 0

    def is_whole(self, seen: int, behind: float, now: int) -> bool:
        """Whether no further change of the table comes, of which so many were `seen`.

        All transactions that end before the offset `behind` were looked for in each partition; `now` is in
        milliseconds. Of one whose BEGIN was not read, a part may have been applied before: its number says nothing.
        """
        if self.ends is None:
            return False
        if self.begins is not None and seen >= self.changes:
            return True
        is_old = self.sent is None or self.sent + PATIENCE < now
        return self.ends < behind and (self.begins is None or is_old)


@dataclass(slots=True)
class TransactionLog:
    """The transactions of a table from a place in the topic on: those that go on, and those that changed it.

    The last END that was read was sent at `last_end`.
    """

    table: TableName
    reached: TransactionOffset
    found: dict[str, Transaction] = field(default_factory=dict)
    is_whole: bool = False
    """Whether the topic was read to its end."""
    newest: str = ""
    """The transaction that began last."""
    last_end: int = 0

    def read(self, boundaries: Iterable[Boundary], end: int, most: int) -> None:
        """Read on up to the offset `end`, or until so many changes of the table are known."""
        changes = 0
        for one in boundaries:
            changes += self._begin(one) if one.tables is None else self._end(one, self._changes(one.tables))
            if changes >= most:
                return
        self.reached = TransactionOffset(max(end, self.reached.offset), self.reached.time)
        self.is_whole = True

    def _begin(self, one: Boundary) -> int:
        """Add a BEGIN. What began before without an END is over: of a DDL MariaDB tells none. Not of SQL Server."""
        before, name = self.found.get(self.newest), self.newest
        is_over = before is not None and before.ends is None and name != one.transaction
        if is_over and _OF_SQL_SERVER.fullmatch(name) is None:
            del self.found[name]
        self.newest = one.transaction
        self.found.setdefault(one.transaction, Transaction(one.offset, self.reached.time, one.sent))
        self.reached = TransactionOffset(one.offset + 1, self.reached.time)
        return 0

    def _end(self, one: Boundary, changes: int) -> int:
        """Add an END of a transaction with so many changes of the table, and return how many."""
        name, time = one.transaction, self.reached.time
        if changes:
            known = self.found.setdefault(name, Transaction(None, time))
            if known.ends is None:
                known.ends, known.sent = one.offset, one.sent
            known.changes = max(changes, known.changes)
        elif (open_ := self.found.get(name)) is not None and open_.ends is None:
            del self.found[name]
        self.last_end = max(self.last_end, one.sent or 0)
        self.reached = TransactionOffset(one.offset + 1, time if one.time is None else max(one.time, time or 0))
        return changes

    def _changes(self, tables: Mapping[str, int]) -> int:
        own = str(self.table).lower()
        return sum(n for name, n in tables.items() if f".{name}".lower().endswith(f".{own}"))

    def offset(self, is_applied: Callable[[str], bool]) -> TransactionOffset:
        """Return up to where all is applied, once what `is_applied` is; what is open for long holds up nothing."""
        left = [one for name, one in self.found.items() if not is_applied(name) and not self._is_dead(one)]
        first = min(left, key=lambda one: one.first, default=None)
        return self.reached if first is None else TransactionOffset(first.first, first.before)

    def _is_dead(self, one: Transaction) -> bool:
        return one.ends is None and one.begun is not None and one.begun + PATIENCE < self.last_end
