"""Tables that are read from a database once and go on with a topic: the end is the database, whatever happens.

The database and the broker are in this process. A connector sends what the database has changed: late, and in the
order of each key.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from fake_broker import FakeBroker
from fake_database import ITEM, START, FakeDatabase
from sparkless import no_spark

from lakeward.adapters.sources import jdbc, kafka
from lakeward.adapters.sources.jdbc.columns import columns_of, drop_columns, refuse_other_forms
from lakeward.adapters.sources.jdbc.database.queries import Query
from lakeward.adapters.sources.jdbc.options import JdbcSourceOptions
from lakeward.adapters.sources.jdbc.snapshot_then_feed import SnapshotThenFeed
from lakeward.adapters.sources.kafka.backlog import KafkaBacklog
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.core.dimension import Dimension, Snapshots
from lakeward.core.errors import AlarmRaised, ConfigError, SourceError
from lakeward.core.ledger.full_loads import Load
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.plugins import Runtime

TOPIC = "shop.shop.item"


@dataclass
class LivingDatabase(FakeDatabase):
    """A database of a table with two columns that changes while it is read."""

    columns: dict[str, str] = field(default_factory=lambda: {"id": "int", "name": "string"})
    meanwhile: Callable[[], None] = lambda: None

    def write(self, query: Query, url: str) -> str | None:
        self.meanwhile()
        position = super().write(query, url)
        self.meanwhile()
        return position


@dataclass
class Shop:
    """A table, its topic, what the connector has yet to send, and the table that is made of them."""

    folder: Path
    random: Random = field(default_factory=lambda: Random(1))
    change: Callable[[SnapshotThenFeed], SnapshotThenFeed] = lambda source: source
    database: LivingDatabase = field(default_factory=LivingDatabase)
    broker: FakeBroker = field(default_factory=FakeBroker)
    unsent: list[tuple[int, bytes]] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)
    seen: dict[str, SourceObject] = field(default_factory=dict)
    lsn: int = 0
    batches: int = 0

    def put(self, key: int, name: str | None) -> None:
        """Change a row, or delete it where it gets no name; the connector has yet to say so."""
        self.lsn += 1
        is_there = any(row["id"] == key for row in self.database.rows)
        if name is None and not is_there:
            return
        self.database.delete(key)
        row = {"id": key, "name": name}
        if name is not None:
            self.database.rows.append(row)
        source = {"schema": "shop", "table": "item", "ts_us": START + self.lsn, "lsn": self.lsn}
        source["sequence"] = json.dumps([str(self.lsn), str(self.lsn)])
        operation = "d" if name is None else "u" if is_there else "c"
        images = {"before": row, "after": None} if name is None else {"before": None, "after": row}
        self.unsent.append((key, json.dumps({"op": operation, **images, "source": source}).encode()))

    def send(self, most: int = 1000) -> None:
        for key, value in self.unsent[:most]:
            partitions = len(self.broker.made[TOPIC][1])
            self.broker.send(TOPIC, value, key=json.dumps({"id": key}).encode(), partition=key % partitions)
        del self.unsent[:most]

    def open(self) -> Any:
        then = {"then": "kafka", "kafka": {"servers": "h:9092", "topics": "shop.{schema}.{table}"}}
        options = {"url": "jdbc:postgresql://db/shop", "path": "staged", "formats": {ITEM: {}}, **then}
        made = jdbc.build(options, Runtime(no_spark, self.folder, state=self.folder / "state", now=lambda: START))
        assert isinstance(made, SnapshotThenFeed)
        made.snapshot.reader, made.feed.landing.broker = self.database, self.broker
        return self.change(made)

    @property
    def object_history(self) -> ObjectHistory:
        return ObjectHistory(applied=dict(self.seen), has_no_batch=not self.batches, now=START)

    @property
    def names(self) -> dict[int, str]:
        return {row["id"]: row["name"] for row in self.database.rows}

    def take(self) -> ObjectSelection:
        source = self.open()
        selection: ObjectSelection = source.select_objects(dimension_of(source), self.object_history)
        return selection

    def step(self, dies: str = "") -> bool:
        """Take, read and commit a batch, unless the process dies `before` that, or `behind` it."""
        source = self.open()
        dimension = dimension_of(source)
        selection = source.select_objects(dimension, self.object_history)
        if not selection.objects:
            return False
        batch = source.read(dimension, selection, 1)
        if dies == "before":
            return True
        assert isinstance(batch.frame, LocalFrame)
        for row in batch.frame.rows.to_pylist():
            if row["_lakeward_operation"] == "delete":
                self.rows.pop(row["id"], None)
            else:
                self.rows[row["id"]] = row["name"]
        objects = [found.object for found in batch.facts.objects]
        assert {item.name for item in objects} == {item.name for item in selection.objects}
        self.seen |= {item.name: item for item in objects}
        self.batches += 1
        if dies != "behind":
            source.archive(dimension, [*objects, *selection.leftovers])
        return True

    def run(self) -> None:
        for _ in range(100):
            if not self.step():
                return
        raise AssertionError("there is no end of it")


def dimension_of(source: Any) -> Dimension:
    schema = Schema((Column("id", parse_type("int")), Column("name", parse_type("string"))))
    return Dimension(name=ITEM, schema=schema, key=("id",), lateness=source.lateness, sequences=source.sequences)


def live(shop: Shop) -> None:
    """Let a shop live, until all was sent and applied."""
    random = shop.random
    shop.broker.create(TOPIC, random.randint(1, 3))

    def change() -> None:
        shop.put(random.randrange(20), random.choice([None, "a", "b", "c"]))
        shop.send(random.choice([0, 1, 100]))

    shop.database.meanwhile = change
    for _ in range(40):
        match random.choice(["put", "put", "put", "send", "abort", "step", "die", "lost", "partition"]):
            case "put":
                shop.put(random.randrange(20), random.choice([None, "a", "b", "c"]))
            case "send":
                shop.send(random.randint(1, 4))
            case "abort":
                shop.broker.abort(TOPIC, 0, random.randint(1, 3))
            case "step":
                shop.step()
            case "die":
                shop.step(random.choice(["before", "behind"]))
            case "lost":
                shutil.rmtree(shop.folder / random.choice(["staged", "state"]), ignore_errors=True)
            case "partition" if not shop.unsent and shop.batches and len(shop.broker.made[TOPIC][1]) < 4:
                shop.run()  # a key that moves with a partition is another matter
                shop.broker.add_partition(TOPIC)
    shop.run()
    shop.send()
    shop.run()


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "connect", lambda *_: None)


@pytest.mark.parametrize("seed", range(25))
def test_the_table_becomes_the_database(seed: int, tmp_path: Path) -> None:
    shop = Shop(tmp_path, Random(seed))
    live(shop)
    assert shop.rows == shop.names
    assert not [*tmp_path.rglob("*.parquet")], "what is applied is removed"


class StartsBehindTheSnapshot(SnapshotThenFeed):
    """Finds where the feed begins once the rows were read."""

    def _select_snapshot(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        topic = self.feed.landing.broker.find(TOPIC)
        assert topic is not None
        selection = self.snapshot.select_snapshot(dimension, object_history, topic.id, list)
        starts = [one.name for one in self.feed.starts(self.feed.landing.broker.find(TOPIC) or topic, START)]
        return replace(selection, objects=(*selection.objects, *self.feed.to_objects(dimension, starts)))


class StartsWithTheFirstLook(SnapshotThenFeed):
    """Begins the feed where the topic ends when it is first looked at."""

    def _select_snapshot(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        topic = self.feed.landing.broker.find(TOPIC)
        assert topic is not None
        return self.snapshot.select_snapshot(dimension, object_history, topic.id, list)

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        landing = self.feed.landing
        landing.follows_snapshot = False
        landing.options = landing.options.model_copy(update={"start": "latest"})
        return SnapshotThenFeed.select_objects(self, dimension, object_history)


@pytest.mark.parametrize("broken", [StartsBehindTheSnapshot, StartsWithTheFirstLook])
def test_a_feed_that_begins_too_late_loses_rows(broken: type[SnapshotThenFeed], tmp_path: Path) -> None:
    def loses(seed: int) -> bool:
        shop = Shop(tmp_path / str(seed), Random(seed), lambda made: broken(made.snapshot, made.feed))
        live(shop)
        return shop.rows != shop.names

    assert any(map(loses, range(25)))


def begun(folder: Path) -> Shop:
    shop = Shop(folder)
    shop.broker.create(TOPIC, 2)
    shop.put(1, "sent before")
    shop.send()
    shop.put(2, "unsent")
    return shop


def test_a_batch_of_the_snapshot_says_where_the_feed_begins(tmp_path: Path) -> None:
    shop = begun(tmp_path)
    selection = shop.take()
    id_ = shop.broker.made[TOPIC][0]
    assert selection.load_epoch == 1
    assert [item.name for item in selection.objects[1:]] == [f"{TOPIC}+1+0000000000-0000000000+{id_}.json"]
    shop.run()
    assert shop.rows == {1: "sent before", 2: "unsent"}
    shop.send()
    shop.broker.log.clear()
    assert shop.step()
    assert shop.broker.log == [f"read {TOPIC} 0 0-0"], "what was sent before is in the snapshot"


def test_a_snapshot_that_was_staged_keeps_its_own_place(tmp_path: Path) -> None:
    shop = begun(tmp_path)
    shop.step("before")
    shop.put(1, "meanwhile")
    shop.send()
    shop.run()
    assert shop.rows == shop.names == {1: "meanwhile", 2: "unsent"}


def test_what_was_staged_for_another_topic_or_none_is_read_anew(tmp_path: Path) -> None:
    shop = begun(tmp_path)
    shop.step("before")
    shop.broker.create(TOPIC)
    shop.put(1, "meanwhile")
    assert shop.step()
    assert shop.rows == {1: "meanwhile", 2: "unsent"}
    assert len(shop.database.queries) == 2


def test_a_feed_begins_with_what_was_sent_a_while_before_the_snapshot(tmp_path: Path) -> None:
    """A connector may see a commit before a snapshot does."""
    shop = begun(tmp_path)
    shop.put(3, "committed, and not seen yet")
    value = shop.unsent[-1][1]
    shop.broker.send(TOPIC, value, key=b'{"id":3}', partition=1, timestamp=START // 1000 - 599_000)
    shop.database.delete(3)
    shop.run()
    assert shop.rows[3] == "committed, and not seen yet"


def test_a_topic_that_was_empty_before_the_snapshot_is_known_by_its_id(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.broker.create(TOPIC, 2)
    shop.put(1, "a")
    shop.step()
    assert [name.partition("~")[2][:8] for name in shop.seen] == ["snapshot"], "there is no range of offsets"
    landing = SimpleNamespace(broker=shop.broker, topic_of=lambda _: TOPIC)
    backlog = KafkaBacklog(landing, start="latest", follows_snapshot=True)  # type: ignore[arg-type]
    assert (backlog.count_waiting(ITEM, ()), backlog.count_waiting(ITEM, list(shop.seen))) == (None, 0)
    shop.put(2, "b")
    shop.send()
    assert backlog.count_waiting(ITEM, list(shop.seen)) == 2
    for change in (lambda: shop.broker.create(TOPIC, 2), shop.broker.made.clear):
        change()
        with pytest.raises(AlarmRaised) as raised:
            shop.take()
        assert raised.value.code == "KAFKA-002"


def test_a_table_whose_rows_were_read_otherwise_does_not_go_on(tmp_path: Path) -> None:
    shop = begun(tmp_path)
    shop.seen, shop.batches = {"20261101100000000~snapshot/1.parquet": SourceObject("x", 1, 1, 1)}, 1
    with pytest.raises(ConfigError, match="nothing says where its feed begins"):
        shop.take()


def test_a_snapshot_whose_feed_is_gone_is_read_anew(tmp_path: Path) -> None:
    shop = begun(tmp_path)
    shop.step("before")
    shop.put(1, "meanwhile")
    shop.send()
    shop.broker.delete_before(TOPIC, 2, partition=1)
    shop.run()
    assert (shop.rows, len(shop.database.queries)) == ({1: "meanwhile", 2: "unsent"}, 2)


def test_a_table_is_taken_back_over_its_messages_and_not_over_its_snapshot(tmp_path: Path) -> None:
    shop = begun(tmp_path)
    shop.run()
    snapshot = [*shop.seen.values()]
    shop.put(1, "later")
    shop.send()
    shop.run()
    feed = [item for item in shop.seen.values() if item not in snapshot]
    assert (len(snapshot), len(feed)) == (2, 2)
    source = shop.open()
    dimension = dimension_of(source)
    assert source.find_missing(dimension, feed) == ()
    shop.broker.delete_before(TOPIC, 10)
    with pytest.raises(SourceError, match="are gone from the broker"):
        source.find_missing(dimension, feed)
    with pytest.raises(ConfigError, match="cannot be rolled back to before the snapshot"):
        source.find_missing(dimension, [*feed, snapshot[0]])
    with pytest.raises(ConfigError, match="cannot be rolled back to before the snapshot"):
        source.select_objects(dimension, ObjectHistory())


def test_a_topic_that_is_not_there_stops_a_table_before_it_is_read(tmp_path: Path) -> None:
    shop = begun(tmp_path)
    shop.broker.made.clear()
    with pytest.raises(ConfigError, match=r"its topic shop\.shop\.item is not there, and must be before"):
        shop.take()
    assert shop.database.queries == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda broker: broker.create(TOPIC, 2), "KAFKA-002"),
        (lambda broker: broker.delete_before(TOPIC, 1, partition=0), "KAFKA-001"),
    ],
    ids=["the topic is created anew", "messages are deleted"],
)
def test_a_later_loss_stops_the_table(tmp_path: Path, change: Callable[[FakeBroker], None], code: str) -> None:
    shop = begun(tmp_path)
    shop.run()
    shop.send()
    change(shop.broker)
    with pytest.raises(AlarmRaised) as raised:
        shop.take()
    assert raised.value.code == code


def test_nothing_loads_such_a_table_anew_while_it_is_there(tmp_path: Path) -> None:
    shop = begun(tmp_path)
    shop.run()
    source = shop.open()
    with pytest.raises(ConfigError, match="nothing begins it anew while it is there"):
        source.select_objects(dimension_of(source), replace(shop.object_history, load=Load(epoch=2)))
    with pytest.raises(ConfigError, match="its full loads are snapshots"):
        source.select_objects(replace(dimension_of(source), snapshots=Snapshots()), shop.object_history)


def described(**types: tuple[str, str | None]) -> SourceTable:
    """Return a table by the types of its columns: those of the database, and ours."""
    columns = [
        SourceColumn(name=name, written=written, type=None if own is None else parse_type(own))
        for name, (written, own) in {"id": ("int4", "int"), **types}.items()
    ]
    return SourceTable(name=ITEM, columns=tuple(columns), key=("id",))


@pytest.mark.parametrize(
    ("written", "own", "declared"),
    [
        *((word, "string", None) for word in ("time", "time(6)", "time without time zone", "timetz", "interval")),
        *((word, "string", None) for word in ("INTERVAL DAY(2) TO SECOND(6)", "bit varying(3)", "money", "_text")),
        ("integer[]", "string", None),
        ("numeric", None, "string"),
        ("timestamp", "timestamp_ntz", "string"),
        ("int4", "int", "string"),
    ],
)
def test_a_column_with_another_form_in_messages_is_refused(written: str, own: str, declared: str | None) -> None:
    table = described(odd=(written, own), name=("text", "string"))
    columns = [Column("id", parse_type("int"))]
    columns += [Column("odd", parse_type(declared))] if declared else []
    dimension = Dimension(name=ITEM, schema=Schema(tuple(columns)), key=("id",))
    with pytest.raises(ConfigError, match="would have two forms") as raised:
        refuse_other_forms(dimension, table, columns_of(dimension, table))
    assert raised.value.found is not None
    assert raised.value.found.endswith(f"sent otherwise: odd ({written})")
    kept = drop_columns(dimension, table, ["odd"])
    refuse_other_forms(dimension, kept, columns_of(dimension, kept))
    assert kept.names == ("id", "name")


def test_json_of_mysql_has_two_forms() -> None:
    table, dimension = described(doc=("json", "string")), Dimension(name=ITEM, schema=Schema(()), key=("id",))
    refuse_other_forms(dimension, table, columns_of(dimension, table))
    with pytest.raises(ConfigError, match="would have two forms"):
        refuse_other_forms(dimension, table, columns_of(dimension, table), is_mysql=True)


@pytest.mark.parametrize("written", ["text", "varchar(20)", "uuid", "jsonb", "mood", "timeline", "bitmap", "enum"])
def test_texts_have_one_form(written: str) -> None:
    table = described(name=(written, "string"), at=("timestamp", "timestamp_ntz"))
    dimension = Dimension(name=ITEM, schema=Schema(()), key=("id",))
    columns = columns_of(dimension, table)
    assert [column.type.name for column in columns] == ["int", "string", "timestamp_ntz"]
    refuse_other_forms(dimension, table, columns)  # raises nothing


@pytest.mark.parametrize(("name", "words"), [("id", "a column of the key"), ("nmae", "no such column")])
def test_what_cannot_be_left_out_is_said(name: str, words: str) -> None:
    dimension = Dimension(name=ITEM, schema=Schema(()), key=("id",))
    with pytest.raises(ConfigError, match=f"{name} cannot be left out") as raised:
        drop_columns(dimension, described(), [name])
    assert words in str(raised.value.found)


def test_columns_that_are_left_out_are_not_read(tmp_path: Path) -> None:
    shop = begun(tmp_path)
    source = shop.open()
    source.snapshot.of_tables = {ITEM: source.snapshot.options.model_copy(update={"without": ["name"]})}
    source.select_objects(dimension_of(source), shop.object_history)
    assert [column.name for column in shop.database.queries[0].columns] == ["id"]
    assert shop.database.queries[0].table.names == ("id",)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"then": "kafka"}, "go together"),
        ({"kafka": {}}, "go together"),
        ({"then": "kafka", "kafka": {}, "cursor": "at"}, "`cursor` does not go with `then`"),
        ({"then": "kafka", "kafka": {"start": "latest"}}, "the snapshot says where"),
        ({"without": ["a"]}, "is of one table"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        JdbcSourceOptions(url="jdbc:postgresql://db/shop", **settings)
