"""Commits that end between transactions: what lands, as the topic of transactions says, and how far tables are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from kafka_feeds import TOPIC, BrokerFeed
from structlog.testing import capture_logs

from lakeward.adapters.sources import kafka
from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.kafka.offset_ranges import parse_ranges, parse_transaction_ranges
from lakeward.adapters.sources.kafka.source import KafkaSource
from lakeward.adapters.sources.kafka.staging import message_files
from lakeward.adapters.sources.kafka.transactions import partition_cuts as parts_module
from lakeward.adapters.sources.kafka.transactions import transaction_topic, transfer
from lakeward.adapters.sources.kafka.transactions.partition_cuts import Cut, PartitionRead
from lakeward.adapters.sources.kafka.transactions.transaction_topic import (
    PATIENCE,
    Boundary,
    Change,
    Transaction,
    TransactionLog,
    TransactionOffset,
)
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.plugins import Runtime

pytestmark = pytest.mark.usefixtures("no_broker")

TRANSACTIONS: Final = "shop.transaction"
ORDERS: Final = TableName("shop", "orders")
MINUTE: Final = 60_000
NOW: Final = 1_800_000_000_000


@dataclass
class Connector:
    """What a connector sends of transactions to a broker; `clock` is when, in milliseconds since 1970."""

    own: BrokerFeed
    clock: int = NOW
    made: int = 0
    place: int = 0
    sent: dict[int, str] = field(default_factory=dict)
    """The transaction of each row, by its key."""
    ended: list[str] = field(default_factory=list)
    """The transactions of which all was sent, in their order."""

    def begin(self) -> str:
        self.made += 1
        self._mark("BEGIN", str(self.made))
        return str(self.made)

    def change(self, transaction: str | None, partition: int = 0, table: str = "orders", schema: Any = None) -> int:
        """Send a row with a new key, and return that."""
        self.own.sent += 1
        key = self.own.sent
        self.place += 1
        place = self.place
        named = {"schema": "shop", "table": table}
        source = {**named, "ts_us": place, "lsn": place, "sequence": f'["{place}", "{place}"]'}
        block = None if transaction is None else {"id": f"{transaction}:{place}", "total_order": 1}
        op = "r" if transaction is None else "c"
        value: Any = {"op": op, "after": {"id": key, "a": "x"}, "source": source, "transaction": block}
        value = value if schema is None else {"schema": schema, "payload": value}
        self.own.broker.send(TOPIC, json.dumps(value).encode(), partition=partition, timestamp=self.clock)
        if transaction is not None and table == "orders":
            self.sent[key] = transaction
        return key

    def end(self, transaction: str, changes: int, others: int = 1) -> None:
        """Send the END of a transaction that changed the table so often, and another one."""
        listed = {"shop.orders": changes, "shop.items": others}
        counts = [{"data_collection": name, "event_count": count} for name, count in listed.items() if count]
        self._mark("END", transaction, event_count=changes + others, data_collections=counts)
        self.ended.append(transaction)

    def whole(self, *partitions: int) -> str:
        """Send a transaction with a change in each of these partitions."""
        transaction = self.begin()
        for partition in partitions:
            self.change(transaction, partition)
        self.end(transaction, len(partitions))
        return transaction

    def _mark(self, status: str, transaction: str, **told: Any) -> None:
        self.place += 1
        value = {"status": status, "id": f"{transaction}:{self.place}", "ts_ms": self.place, **told}
        self.own.broker.send(TRANSACTIONS, json.dumps(value).encode(), timestamp=self.clock)

    def set_clock(self, source: KafkaSource) -> KafkaSource:
        source.files.now = lambda: self.clock * 1000
        return source

    def check_whole(self) -> None:
        """Check that all changes of a transaction that were sent are applied, or none of them."""
        applied = {self.sent[key] for key in self.own.ids if key in self.sent}
        missing = {transaction for key, transaction in self.sent.items() if key not in self.own.ids}
        assert not applied & missing, "a commit ended within a transaction"


def feed(folder: Path, partitions: int = 1, **options: Any) -> Connector:
    own = BrokerFeed(folder, {"transactions": TRANSACTIONS, **options})
    own.broker.create(TOPIC, partitions)
    own.broker.create(TRANSACTIONS)
    made = Connector(own)
    own.change = made.set_clock
    return made


SCENARIOS: Final = {
    "a transaction waits for its END": (
        1,
        "begin; change 1; apply; change 1; end 1 2; begin; change 2; apply 1 2; end 2 1; apply 1 2 3",
    ),
    # A producer sends the change again, which is in another partition.
    "a change that is not there when its END is read is waited for": (
        2,
        "whole 0; begin; change 2; end 2 2; apply 1; change 2 1; apply 1 2 3",
    ),
    "messages after a missing change wait in all partitions": (
        2,
        "begin; change 1; end 1 2; whole 0 1; apply; change 1 1; apply 1 2 3 4",
    ),
    # Compaction removed it, or a transform of the connector.
    "a change that does not come in ten minutes is not waited for": (
        1,
        "begin; change 1; end 1 2; wait 9; apply; wait 2; apply 1",
    ),
    # Debezium before 3.7 counts anew if it is started again within a transaction: its END has the other changes.
    "a connector that counts anew is not waited for": (
        1,
        "begin; change 1; change 1; change 1; begin 1; change 1; end 1 1; apply 1 2 3 4",
    ),
    # There is no second BEGIN, and the END has the number of all its changes.
    "a transaction that is sent again after it was applied is not waited for": (
        1,
        "begin; change 1; change 1; change 1; end 1 3; apply 1 2 3; change 1; apply 1 2 3; end 1 3; apply 1 2 3 4",
    ),
    "changes of other tables are not waited for": (1, "begin; other 1; whole 0; apply 2"),
    "rows of a snapshot are of no transaction": (1, "snapshot; apply 1"),
    # It is sent a moment before the first change. Otherwise nothing would be known of the second change.
    "a table begins before the BEGIN of its first transaction": (
        2,
        "begin; wait 0; change 1; end 1 2; apply; change 1 1; apply 1 2",
    ),
    # A connector that counts anew sends the smaller one; the greater one was sent, too.
    "the greatest number of an END counts": (2, "begin; change 1; end 1 2; end 1 1; apply"),
    "a transaction that is given up may come after one that is not whole": (
        1,
        "begin; change 1; end 1 2; begin; change 2; run; wait 60; whole 0; run; wait 60; whole 0; apply 1 2 3 4",
    ),
    "a table is consistent up to the last whole transaction that it has applied": (
        1,
        "as_of; whole 0; as_of; apply 1; as_of 3; begin; change 2; apply 1; as_of 3; end 2 1; apply 1 2; as_of 6",
    ),
    # Another partition has applied later ones.
    "a table is not consistent beyond a transaction that lacks a change": (
        2,
        "whole 0; apply 1; begin; change 2; end 2 2; whole 1; apply 1 3; as_of 3",
    ),
    "a topic of transactions may be created anew": (
        1,
        "whole 0; run; anew; wait 60; whole 0; apply 1 2; as_of 6",
    ),
}
"""The number of partitions, and steps.

`change` has a transaction and a partition, `end` a number of changes, `whole` the partitions of its changes, `wait`
minutes (0: a millisecond). `apply` has the rows that are in the table then, and `as_of` the time up to which it is
consistent.
"""


def play(made: Connector, steps: str) -> None:
    def check(*rows: str) -> None:
        assert sorted(made.own.apply()) == [*map(int, rows)]
        assert len(made.own.broker.made[TOPIC][1]) > 1 or made.own.ids == sorted(made.own.ids)

    def as_of_is(time: str = "") -> None:
        assert as_of(made) == (int(time) if time else None)

    def wait(minutes: str) -> None:
        made.clock += int(minutes) * MINUTE or 1

    verbs: Mapping[str, Callable[..., object]] = {
        "begin": lambda *name: made._mark("BEGIN", *name) if name else made.begin(),
        "change": lambda name, partition="0": made.change(name, int(partition)),
        "other": lambda name: made.change(name, table="items"),
        "end": lambda name, changes: made.end(name, int(changes)),
        "whole": lambda *partitions: made.whole(*map(int, partitions)),
        "snapshot": lambda: (made.change(None), made.own.broker.send(TOPIC, None)),
        "anew": lambda: made.own.broker.create(TRANSACTIONS),
        "wait": wait,
        "run": made.own.apply,
        "apply": check,
        "as_of": as_of_is,
    }
    for step in steps.split("; "):
        verb, *given = step.split()
        verbs[verb](*given)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_commit_ends_between_transactions(tmp_path: Path, scenario: str) -> None:
    partitions, steps = SCENARIOS[scenario]
    play(feed(tmp_path, partitions), steps)


def test_a_transaction_without_an_end_is_given_up_long_after_others_ended(tmp_path: Path) -> None:
    """Its connector was made anew; one that stands still is waited for."""
    made = feed(tmp_path)
    first = made.begin()
    made.change(first)
    made.clock += 60 * MINUTE
    assert made.own.apply() == []
    made.whole(0)
    with capture_logs() as logs:
        assert made.own.apply() == [1, 2]
    assert [entry["transaction"] for entry in logs if entry["log_level"] == "warning"] == [first]


def test_a_transaction_that_is_larger_than_a_batch_is_one_batch(tmp_path: Path) -> None:
    made = feed(tmp_path, 2, max_messages=2)
    first = made.begin()
    for number in range(9):
        made.change(first, number % 2)
    made.end(first, 9)
    made.whole(0)
    assert made.own.step()
    assert len(made.own.ids) >= 9
    assert len(made.own.apply()) == 10


def test_a_transaction_may_begin_and_never_end(tmp_path: Path) -> None:
    """A DDL of MariaDB: there is a BEGIN, and nothing else."""
    made = feed(tmp_path)
    made.whole(0)
    made.begin()
    made.whole(0)
    assert made.own.apply() == [1, 2]
    (place,) = parse_transaction_ranges(item.name for item in made.own.objects)
    assert (place.start, place.end) == (0, 5)


def test_a_truncate_of_mariadb_is_a_transaction_by_itself(tmp_path: Path) -> None:
    """It has a BEGIN, and no END; that of PostgreSQL is a part of its transaction."""
    made = feed(tmp_path)
    for connector in ("mariadb", "postgresql"):
        value = {
            "op": "t",
            "source": {"connector": connector, "schema": "shop", "table": "orders"},
            "transaction": {"id": made.begin()},
        }
        made.own.broker.send(TOPIC, json.dumps(value).encode())
    assert [one.end for one in parse_ranges(item.name for item in made.own.take().objects)] == [1]


def test_a_table_begins_where_its_first_message_was_sent(tmp_path: Path) -> None:
    """Transactions before that are not waited for: their changes are gone, or before `start`."""
    made = feed(tmp_path, start="earliest")
    for _ in range(3):
        made.whole(0)
    made.clock += 11 * MINUTE
    made.whole(0)
    made.own.broker.delete_before(TOPIC, 3)
    assert made.own.apply() == [4]
    (place,) = parse_transaction_ranges(item.name for item in made.own.objects)
    assert (place.start, place.end) == (6, 8)


@pytest.mark.parametrize("lost", ["_joined-*", f"{TOPIC}+1+*"])
def test_an_incomplete_group_of_files_is_read_again(tmp_path: Path, lost: str) -> None:
    made = feed(tmp_path, 2)
    made.whole(0, 1)
    made.own.step(crashes=True)
    next((made.own.staged / "shop" / "orders").glob(lost)).unlink()
    made.whole(0, 1)
    assert made.own.step()
    assert sorted(made.own.ids) == [1, 2, 3, 4]


def test_a_topic_of_transactions_must_be_there_and_have_one_partition(tmp_path: Path) -> None:
    made = feed(tmp_path)
    del made.own.broker.made[TRANSACTIONS]
    made.change(None)
    assert made.own.apply() == [1], "a snapshot has none, and the topic comes with the first transaction"
    made.change("1")
    with pytest.raises(ConfigError, match=r"provide\.transaction\.metadata"):
        made.own.step()
    made.own.broker.create(TRANSACTIONS, 2)
    with pytest.raises(ConfigError, match="one partition"):
        made.own.step()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"form": "flattened"}, "envelopes of Debezium"),
        ({"tables": {ORDERS: {"format": "dms-json"}}}, "envelopes of Debezium"),
        ({"tables": {ORDERS: {"topics": ["a.shop.orders", "b.shop.orders"]}}}, "tables of one topic"),
    ],
)
def test_settings_without_transactions_are_refused(tmp_path: Path, options: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        feed(tmp_path, **options).own.open()


def test_a_column_that_is_added_in_the_middle_of_a_transaction_is_in_all_of_it(tmp_path: Path) -> None:
    """Its messages are in two files with two schemas, of which a batch takes both or none."""
    made = feed(tmp_path, 2, types="schema")
    transaction, columns = made.begin(), ["id", "a"]
    for partition, added in ((0, ()), (1, ("b",))):
        fields = [{"field": name, "type": "string", "optional": True} for name in [*columns, *added]]
        fields[0] = {"field": "id", "type": "int64", "optional": False}
        schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
        made.change(transaction, partition, schema=schema)
    made.end(transaction, 2)
    assert made.own.step()
    assert sorted(made.own.ids) == [1, 2]


def test_a_single_run_ends_between_transactions(tmp_path: Path) -> None:
    """What is sent while it runs is left, be it the rest of a transaction or its END."""
    made = feed(tmp_path, max_messages=2)
    made.whole(0)
    second = made.begin()
    made.change(second)
    source = made.own.open()
    source.landing.runs_once = True
    made.own.change = lambda _: source  # one process
    made.own.take()
    made.change(second)
    made.end(second, 2)
    made.whole(0)
    made.clock += 60 * MINUTE
    assert made.own.apply() == [1]
    made.own.change = lambda opened: opened
    assert as_of(made) == 3
    assert made.own.apply() == [1, 2, 3, 4]


def test_a_transform_that_drops_changes_makes_a_table_ten_minutes_late(tmp_path: Path) -> None:
    made = feed(tmp_path, max_messages=3)
    late = []
    for number in range(40):
        transaction = made.begin()
        made.change(transaction)
        made.end(transaction, 2)
        made.clock += MINUTE
        made.own.apply()
        late.append(number + 1 - len(made.own.ids))
    assert max(late) <= 11
    assert late[-1] == max(late)


def test_staged_messages_are_applied_after_the_broker_deleted_them(tmp_path: Path) -> None:
    made = feed(tmp_path)
    made.whole(0)
    made.own.apply()
    made.whole(0)
    made.own.step(crashes=True)
    made.own.broker.delete_before(TOPIC, 2)
    assert made.own.apply() == [1, 2]


def test_changes_that_are_older_than_the_topic_of_transactions_are_whole(tmp_path: Path) -> None:
    """Its retention may be shorter than that of the table's topic."""
    made = feed(tmp_path)
    for _ in range(20):
        made.whole(0)
    made.clock += 60 * MINUTE
    made.whole(0)
    made.own.broker.delete_before(TRANSACTIONS, 40)
    with capture_logs() as logs:
        assert len(made.own.apply()) == 21
    assert [entry["changes"] for entry in logs if entry["log_level"] == "warning"] == [20]
    assert len([one for one in made.own.objects if not parse_transaction_ranges([one.name])]) == 1


def test_changes_that_come_between_two_reads_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The END that is read tells of changes that were sent after the partitions were looked at first."""
    made = feed(tmp_path, 2)
    first = made.begin()
    made.change(first, 0)
    made.change(first, 1)
    made.end(first, 2)
    made.own.apply()
    made.change(first, 0)  # all of it is sent again, without its BEGIN
    find, looked = made.own.broker.find, []

    def look(topic: str) -> Any:
        found = find(topic)
        looked.append(topic)
        if looked == [TOPIC]:
            made.change(first, 1)
            made.end(first, 2)
        return found

    monkeypatch.setattr(made.own.broker, "find", look)
    assert made.own.step()
    assert sorted(made.own.ids) == [1, 2, 3, 4]


def test_an_old_transaction_is_not_taken_for_whole_where_the_batch_is_full(tmp_path: Path) -> None:
    """That its END is ten minutes old says something only once all partitions were looked at."""
    made = feed(tmp_path, max_messages=2)
    first = made.begin()
    for _ in range(5):
        made.change(first)
    made.end(first, 5)
    made.clock += 60 * MINUTE
    assert made.own.step()
    assert made.own.ids == [1, 2, 3, 4, 5]


def test_a_batch_is_bounded_by_bytes_and_no_transaction_by_the_source(tmp_path: Path) -> None:
    made = feed(tmp_path, 2, max_bytes=500)
    for _ in range(4):
        made.whole(0)
    made.whole(0, 1)
    batches = 0
    while made.own.step():
        batches += 1
        made.check_whole()
    assert (batches > 2, sorted(made.own.ids)) == (True, [1, 2, 3, 4, 5, 6])


def test_messages_after_a_late_change_are_not_read_repeatedly(tmp_path: Path) -> None:
    made = feed(tmp_path, max_messages=2)
    late = made.begin()
    made.change(late)
    made.end(late, 2)
    for _ in range(100):
        made.whole(0)
    read, count = made.own.broker.read, 0

    def counted(topic: str, *place: int) -> Any:
        nonlocal count
        for records in read(topic, *place):
            count += len(records) if topic == TOPIC else 0
            yield records

    made.own.broker.read = counted  # type: ignore[method-assign]
    assert made.own.apply() == []
    assert count < 20


@pytest.mark.parametrize("connector", ["mariadb", "mysql"])
def test_a_truncate_of_a_binlog_is_of_no_transaction(connector: str) -> None:
    source = {"connector": connector, "db": "shop", "table": "orders"}
    value = {"op": "t", "source": source, "transaction": {"id": "7"}}
    assert Change.read(Record(0, 1, None, json.dumps(value).encode()), TOPIC, ORDERS) == (True, None)
    value = {**value, "op": "c"}
    assert Change.read(Record(0, 1, None, json.dumps(value).encode()), TOPIC, ORDERS) == (True, "7")


def test_an_end_counts_changes_of_the_table_alone() -> None:
    """With the database before its name or without; of a name that ends like it nothing."""
    told = TransactionLog(ORDERS, TransactionOffset(0))
    counts = {"my_shop.orders": 5, "SHOP.orders": 1, "db.shop.orders": 2, "shop.orders_old": 7}
    told.read([Boundary(0, 1, "7", 1), Boundary(1, 2, "7", 2, counts)], 2, 100)
    assert told.transactions["7"].changes == 3


def test_transactions_of_sql_server_go_on_side_by_side() -> None:
    """A BEGIN ends none of them; one without an END for ten minutes holds up nothing."""
    one, other = "00000025:00000d98:00a2", "00000025:00000d98:00a3"
    told = TransactionLog(ORDERS, TransactionOffset(0))
    told.read([Boundary(0, 1, one, 1), Boundary(1, 2, other, 2)], 2, 100)
    assert told.offset(lambda _: False) == (0, None)
    told.read([Boundary(2, 3, other, 3, {"shop.orders": 1})], 3, 100)
    assert told.offset(lambda name: name == other) == (0, None)
    told.read([Boundary(3, PATIENCE + 2, "late", 4, {})], 4, 100)
    assert told.offset(lambda name: name == other) == (4, 4)


def test_a_file_that_another_process_writes_while_it_is_read_ends_the_batch(tmp_path: Path) -> None:
    """A part of those that landed together would be a part of a transaction."""
    made = feed(tmp_path, 2)
    made.whole(0, 1)
    source = made.own.open()
    selection = made.own.take(source)
    os.utime(next((made.own.staged / "shop" / "orders").glob(f"{TOPIC}+1+*")), (1, 1))
    with pytest.raises(SourceError, match="removed or written while they were read"):
        source.read(made.own.dimension(source), selection, 1)
    assert sorted(made.own.apply()) == [1, 2]


def test_files_that_landed_for_another_topic_are_not_taken(tmp_path: Path) -> None:
    """Its offsets are the same where the topic was made anew before the first commit."""
    made = feed(tmp_path)
    made.whole(0)
    made.own.step(crashes=True)
    made.own.broker.create(TOPIC)
    made.change(None)
    assert made.own.apply() == [2]


def test_the_record_of_a_group_is_removed_with_its_files(tmp_path: Path) -> None:
    made = feed(tmp_path)
    for _ in range(3):
        made.whole(0)
        made.own.apply()
    assert [file.name for file in made.own.staged.rglob("_joined-*")] == []


def test_several_threads_may_record_their_progress(tmp_path: Path) -> None:
    place = message_files.MessageStaging(tmp_path)
    place.folder(ORDERS)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: place.write_transaction_progress(ORDERS, {"n": number}), range(400)))
    assert place.read_transaction_progress(ORDERS) is not None


# Up to when all transactions are in all tables.


Tables = Sequence[tuple[TableName, Collection[SourceObject]]]


def as_of(made: Connector, tables: Tables | None = None) -> int | None:
    own = made.own
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kafka, "connect", lambda *_: own.broker)
        options = {"servers": "h:9092", "topics": "shop.{schema}.{table}", "formats": {}, **own.options}
        backlog = kafka.build_backlog(options, Runtime(own.spark, own.folder, state=own.folder / "state"))
    found = backlog.consistent_as_of([(ORDERS, own.objects)] if tables is None else tables)
    return None if found is None else found // 1000


def test_a_table_without_changes_is_as_consistent_as_the_others(tmp_path: Path) -> None:
    made = feed(tmp_path)
    made.whole(0)
    made.own.apply()
    for _ in range(3):
        made.end(made.begin(), 0)
    assert as_of(made) == 3, "nobody looked since"
    made.own.take()
    assert as_of(made) == 9
    quiet = TableName("shop", "quiet")
    assert as_of(made, [(ORDERS, made.own.objects), (quiet, [])]) == 9, "it has no topic"
    made.own.broker.create("shop.shop.quiet")
    made.own.broker.send("shop.shop.quiet", b"{}")
    assert as_of(made, [(ORDERS, made.own.objects), (quiet, [])]) is None, "it has no batch"


def test_two_tables_of_one_source_table_are_at_their_own_places(tmp_path: Path) -> None:
    made = feed(tmp_path)
    made.whole(0)
    made.own.apply()
    behind = list(made.own.objects)
    made.whole(0)
    made.own.apply()
    assert as_of(made, [(ORDERS, behind), (ORDERS, made.own.objects)]) == 3
    assert as_of(made, [(ORDERS, made.own.objects), (ORDERS, behind)]) == 3


def test_a_rolled_back_table_is_consistent_up_to_its_commit(tmp_path: Path) -> None:
    made = feed(tmp_path)
    made.whole(0)
    made.own.apply()
    first = list(made.own.objects)
    made.whole(0)
    made.own.apply()
    made.own.take()
    assert as_of(made) == 6
    made.own.objects, made.own.ids = first, [1]
    assert as_of(made) == 3
    assert made.own.apply() == [1, 2]
    assert as_of(made) == 6


# Whatever comes.


def send(made: Connector, random: Random, partitions: int, late: list[str]) -> None:
    """Send a transaction. Its changes in the last partition may come late, behind its END, with all that follow."""
    transaction, changes = made.begin(), random.choice([0, 1, 1, 2, 5])
    for _ in range(changes):
        partition = random.randrange(partitions)
        is_last = partition == partitions - 1 > 0
        if is_last and (late or random.random() < 0.3):
            late.append(transaction)
        else:
            made.change(transaction, partition)
        if random.random() < 0.3:
            made.own.step(crashes=random.random() < 0.3)
            made.check_whole()
    if random.random() < 0.2:  # the connector starts again, and sends both messages again
        made.end(transaction, changes)
        made._mark("BEGIN", transaction)
    made.end(transaction, changes)


def check_play(folder: Path, random: Random) -> None:
    """Check that each commit ends between transactions, and that nothing is left out in the end."""
    made, partitions = feed(folder, max_messages=random.choice([1, 3, 100])), random.randint(1, 3)
    made.own.broker.create(TOPIC, partitions)
    late: list[str] = []
    for number in range(12):
        send(made, random, partitions, late)
        if random.random() < 0.5:
            made.own.step()
            made.check_whole()
        if random.random() < 0.2:
            made.own.lose_staging()
        while late and (random.random() < 0.5 or number == 11):
            made.change(late.pop(0), partitions - 1)
    made.own.apply()
    assert sorted(made.own.ids) == sorted(made.sent), "something was not applied"


@pytest.mark.parametrize("seed", range(25))
def test_commits_end_between_transactions_whatever_comes(tmp_path: Path, seed: int) -> None:
    check_play(tmp_path, Random(seed))


def check_two(folder: Path, random: Random) -> None:
    """Check the same of two tables of one topic: each may find what the other one has landed, or half of it."""
    made, other = feed(folder, max_messages=2), feed(folder, max_messages=7)
    other.own.broker, other.own.sibling, made.own.sibling = made.own.broker, made.own, other.own
    other.own.name = TableName("shop", "orders_history")
    other.sent = made.sent
    made.own.broker.create(TOPIC, 2)
    for _ in range(30):
        late: list[str] = []
        send(made, random, 2, late)
        for transaction in late:
            made.change(transaction, 1)
        for one in random.choice([[made], [other], [made, other]]):
            one.own.step(crashes=random.random() < 0.2)
            one.check_whole()
    for one in (made, other):
        one.own.apply()
        assert sorted(one.own.ids) == sorted(made.sent)


@pytest.mark.parametrize("seed", range(8))
def test_two_tables_of_one_topic_end_between_transactions(tmp_path: Path, seed: int) -> None:
    check_two(tmp_path, Random(seed))


def _believes_an_end(one: Transaction, seen: int, behind: float, now: int) -> bool:
    return one.ends is not None


def _cuts_its_own_partition(parts: Sequence[PartitionRead], *rules: Any) -> Cut:
    each = [parts_module.cut([part], *rules) for part in parts]
    left = {name for one in each for name in one.incomplete}
    return Cut([one.landed_runs[0] for one in each], left, each[0].changes if each else {}, 0)


BROKEN: Final = {
    "believes an END, whatever is seen": (transaction_topic.Transaction, "is_whole", _believes_an_end),
    "cuts one partition alone": (transfer, "cut", _cuts_its_own_partition),
    "takes what landed for a table at another place": (message_files, "_group_name", lambda *_: "_joined-.json"),
    "waits for no END": (transfer.TransactionTransfer, "_ends", lambda *_: True),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_landing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(*BROKEN[name])

    def check() -> None:
        for seed in range(25):
            for law in (check_play, check_two):
                folder = tmp_path / f"{law.__name__}{seed}"
                folder.mkdir()
                law(folder, Random(seed))

    with pytest.raises((AssertionError, KeyError)):
        check()


def test_a_boundary_is_read_with_a_schema_beside_it() -> None:
    value = {"schema": {}, "payload": {"status": "BEGIN", "id": "0-1-2", "ts_ms": 5}}
    assert Boundary.read(Record(1, 2, None, json.dumps(value).encode())) == Boundary(1, 2, "0-1-2", 5)
    for other in (b"", b"no JSON", b"[]", b'{"ts_ms": 5}', b'{"status": "END"}', None):
        assert Boundary.read(Record(1, 2, None, other)) is None
