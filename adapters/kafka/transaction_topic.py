"""The topic in which Debezium says where transactions begin and end, and how many changes of each table they have.

debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-transaction-metadata. A connector
that starts again may send both messages again, and one of an older version counts anew within the transaction
(github.com/debezium/dbz/issues/633): the number in an END is at most that of the changes that were sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lakeward.adapters.kafka.broker import Record
from lakeward.adapters.messages.transaction_ids import transaction_name
from lakeward.core.dimension import TableName

PATIENCE: Final = 600_000
"""Milliseconds after which a change that was not seen is taken for one that does not come: a transform drops it,
compaction removed it, or a connector was made anew. A producer of Kafka gives up after two minutes by default."""

Decode = Callable[[str, int, Record], Record]
"""Makes JSON of a message of a topic and a partition."""


class Place(NamedTuple):
    """A place in the topic: all transactions that begin before the `offset` are applied to a table.

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


def transaction_of(record: Record, topic: str, table: TableName) -> str | None:
    """Return the transaction of a message; None where it is no change of the table, or tells none.

    A TRUNCATE of MariaDB or MySQL is a transaction by itself, of which no END is sent.
    """
    match payload_of(record.value):
        case {"op": "t", "source": {"connector": "mariadb" | "mysql"}}:
            return None
        case {"transaction": {"id": str(id_)}, "source": dict(source)}:
            schema, name = topic.rsplit(".", 2)[-2:] if topic.count(".") else ("", topic)
            named = (source.get("schema") or source.get("db") or schema, source.get("table") or name)
            is_own = [str(part).lower() for part in named] == [table.schema.lower(), table.table.lower()]
            return transaction_name(id_) if is_own else None
    return None


def is_change(record: Record) -> bool:
    """Whether a message is a change that a transaction made: no snapshot row, tombstone or heartbeat."""
    match payload_of(record.value):
        case {"op": "c" | "u" | "d" | "t"}:
            return True
    return False


@dataclass(slots=True)
class Transaction:
    """A transaction that began behind a place in the topic, or ended there without a beginning.

    `begins` and `ends` are the offsets of its first BEGIN and its first END. `sent` is when that END was sent. It
    has so many `changes` of the table. `before` is the time of the last END before it.
    """

    begins: int | None
    before: int | None
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
        milliseconds. One that ends without a beginning was sent before: what was applied of it does not come again.
        """
        if self.ends is None:
            return False
        if self.begins is not None and seen >= self.changes:
            return True
        is_old = self.sent is None or self.sent + PATIENCE < now
        return self.ends < behind and (self.begins is None or is_old)


@dataclass(slots=True)
class TransactionLog:
    """The transactions of a table from a place in the topic on: those that go on, and those that changed it."""

    table: TableName
    reached: Place
    found: dict[str, Transaction] = field(default_factory=dict)
    is_whole: bool = False
    """Whether the topic was read to its end."""
    newest: str = ""
    """The transaction that began last."""

    def read(self, boundaries: Iterable[Boundary], end: int, most: int) -> None:
        """Read on up to the offset `end`, or until so many changes of the table are known."""
        changes = 0
        for one in boundaries:
            changes += self._add(one)
            if changes >= most:
                return
        self.reached, self.is_whole = Place(max(end, self.reached.offset), self.reached.time), True

    def _add(self, one: Boundary) -> int:
        """Add what a message says, and return how many changes of the table it tells of."""
        name, time = one.transaction, self.reached.time
        changes = 0 if one.tables is None else self._changes(one.tables)
        if one.tables is None:
            self._end_without_a_word(name)
            self.found.setdefault(name, Transaction(one.offset, time))
        elif changes:
            known = self.found.setdefault(name, Transaction(None, time))
            if known.ends is None:
                known.ends, known.sent = one.offset, one.sent
            known.changes = changes
        elif (open_ := self.found.get(name)) is not None and open_.ends is None:
            del self.found[name]
        if one.tables is not None and one.time is not None:
            time = max(one.time, time or 0)
        self.reached = Place(one.offset + 1, time)
        return changes

    def _end_without_a_word(self, name: str) -> None:
        """Forget the transaction that began before another one, and has no END: of a DDL MariaDB tells none."""
        before = self.found.get(self.newest)
        if before is not None and before.ends is None and self.newest != name:
            del self.found[self.newest]
        self.newest = name

    def _changes(self, tables: Mapping[str, int]) -> int:
        own = str(self.table).lower()
        return sum(n for name, n in tables.items() if f".{name}".lower().endswith(f".{own}"))

    def place(self, is_whole: Callable[[str], bool]) -> Place:
        """Return up to where all is applied, once what is whole is."""
        left = [one for name, one in self.found.items() if not is_whole(name)]
        first = min(left, key=lambda one: one.first, default=None)
        return self.reached if first is None else Place(first.first, first.before)
