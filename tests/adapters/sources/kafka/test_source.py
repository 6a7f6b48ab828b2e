"""The source `kafka` on a broker in memory: what is taken, what is staged, and what stops a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from itertools import chain, count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import pytest
from fake_broker import FakeBroker
from kafka_feeds import TOPIC, BrokerFeed, check_history, dimension_of, feed, message

from lakeward.adapters.sources.kafka.broker import Record, Records
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange, parse_ranges
from lakeward.adapters.sources.kafka.staging.message_files import MessageStaging
from lakeward.adapters.sources.kafka.staging.transfer import Transfer
from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised, ConfigError, LakewardError, SourceError, StoreUnreachable
from lakeward.core.ledger.full_loads import Load
from lakeward.core.ledger.selection import ObjectHistory

pytestmark = pytest.mark.usefixtures("no_broker")


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*.json") if file.name[0] != "_")


SCENARIOS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "a file that is applied is removed": ("send; apply 1; files 0; send; apply 1 2", {}),
    "a file that is applied may stay": ("send; apply 1; files 1; send; apply 1 2", {"landing": "kept"}),
    "a file that a crash left is used as it is": ("send; crash; send; unread; applied 1; apply 1 2", {}),
    "messages in a file are not lost": ("send 0 3; apply 1 2 3; send 0 2; crash; delete 5; apply 1 2 3 4 5", {}),
    "a bound cuts within a stretch of lost offsets": (
        "abort 50; send; abort 50; send; apply 1 2",
        {"max_messages": 1},
    ),
    "tombstones are skipped": ("send; tombstone; apply 1; rejects", {}),
    "a message that cannot be read is no damage where it comes alone": (
        "send; apply 1; bad; apply 1; rejects bad",
        {},
    ),
    "messages of other tables in the topic are skipped": ("send; other; apply 1; rejects", {}),
    # The position is of the first look, whenever the first message comes.
    "a table may begin with what comes from now on": (
        "send; nothing; send; send 1; apply 2 3",
        {"start": "latest"},
    ),
    "the first commit says where each partition began": (
        "send; send 1; nothing; send; apply 3; lose; send 1; apply 3 4",
        {"start": "latest"},
    ),
    "another start counts until the first commit": ("send; nothing; start earliest; apply 1", {"start": "latest"}),
    "a topic without its beginning needs a start": (
        "send 0 4; delete 2; refused the beginning of its topic is gone; start earliest; apply 3 4",
        {},
    ),
    # What is lost beyond what somebody let pass is another loss.
    "offsets that are gone stop the table until somebody lets them pass": (
        "send 0 2; apply 1 2; send 0 4; delete 4; lost shop.shop.orders, partition 0, offsets 2 to 3; let_pass; "
        "delete 5; lost offsets 4 to 4; let_pass; apply 1 2 6",
        {},
    ),
    "the beginning of a new partition may be lost": (
        "send; apply 1; partition; send 2 2; apply 1 2 3; partition; send 3; delete 1 3; "
        "lost partition 3, offsets 0 to 0",
        {},
    ),
}
"""Steps and options of a topic with two partitions.

`send` has a partition and a number of messages, `apply` the rows of the table then, `lost` words of the alarm.
"""


def play(own: BrokerFeed, steps: str) -> None:
    def send(partition: str = "0", times: str = "1") -> None:
        for _ in range(int(times)):
            own.send(int(partition))

    def refused(*words: str) -> None:
        with pytest.raises(ConfigError, match=" ".join(words)):
            own.take()

    def is_lost(*words: str) -> None:
        own.broker.log.clear()
        alarm = lost(own)
        assert (alarm.code, " ".join(words) in str(alarm)) == ("KAFKA-001", True)

    def let_pass() -> None:
        alarm = lost(own)
        own.acked = {alarm.code: own.acked.get(alarm.code, frozenset()) | {*alarm.about}}

    def step_without_reading() -> None:
        own.broker.log.clear()
        assert own.step()
        assert own.broker.log == []

    def equal(found: object, expected: object) -> None:
        assert found == expected

    verbs: Mapping[str, Callable[..., object]] = {
        "send": send,
        "other": lambda: own.broker.send(TOPIC, message(99, table="lines")),
        "tombstone": lambda: own.broker.send(TOPIC, None, key=b'{"id":1}'),
        "bad": lambda: own.broker.send(TOPIC, b"bad"),
        "abort": lambda messages: own.broker.abort(TOPIC, messages=int(messages)),
        "delete": lambda low, partition="0": own.broker.delete_before(TOPIC, int(low), int(partition)),
        "partition": lambda: own.broker.add_partition(TOPIC),
        "refused": refused,
        "lost": is_lost,
        "let_pass": let_pass,
        "start": lambda start: setattr(own, "options", {"start": start}),
        "crash": lambda: own.step(crashes=True),
        "lose": own.lose_staging,
        "unread": step_without_reading,
        "nothing": lambda: equal(own.step(), False),
        "apply": lambda *rows: equal(own.apply(), [*map(int, rows)]),
        "applied": lambda *rows: equal(own.ids, [*map(int, rows)]),
        "files": lambda count: equal(len(names(own.staged)), int(count)),
        "rejects": lambda *values: equal([json.loads(line)["value"] for line in own.rejects], [*values]),
    }
    for step in steps.split("; "):
        verb, *given = step.split()
        verbs[verb](*given)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_message_is_applied_once(tmp_path: Path, scenario: str) -> None:
    """Each step checks its result, and that no message was applied before."""
    steps, options = SCENARIOS[scenario]
    own = feed(tmp_path, partitions=2, **options)
    play(own, steps)
    assert own.ids, "a scenario applies messages"


@pytest.mark.parametrize("partitions", [0, 3], ids=["no topic", "an empty topic"])
def test_nothing_is_selected_without_messages(tmp_path: Path, partitions: int) -> None:
    assert not feed(tmp_path, partitions).take().objects


def test_objects_are_ranges_of_offsets(tmp_path: Path) -> None:
    own = feed(tmp_path, partitions=2)
    for number in range(5):
        own.send(number % 2)
    id_ = own.broker.made[TOPIC][0]
    assert [item.name for item in own.take().objects] == [
        f"{TOPIC}+0+0000000000-0000000002+{id_}.json",
        f"{TOPIC}+1+0000000000-0000000001+{id_}.json",
    ]
    assert own.apply() == [1, 3, 5, 2, 4]


def test_a_file_that_is_not_whole_is_made_anew(tmp_path: Path) -> None:
    own = feed(tmp_path)
    own.send()
    folder = own.staged / "shop" / "orders"
    folder.mkdir(parents=True)
    (folder / ".0.part").write_text("half")
    assert own.apply() == [1]


@pytest.mark.parametrize("options", [{}, {"transactions": "shop.transaction"}], ids=["split", "whole"])
@pytest.mark.parametrize(
    "error", [StoreUnreachable("no answer"), OSError("no space left"), KeyboardInterrupt()], ids=repr
)
def test_a_landing_that_fails_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, options: Mapping[str, Any]
) -> None:
    own = feed(tmp_path, partitions=2, **options)
    own.broker.create("shop.transaction")
    for number in (0, 1, 1):
        own.send(number)
    of_other_process = own.staged / "shop" / "orders" / ".1-1-1.part"
    of_other_process.parent.mkdir(parents=True)
    of_other_process.write_text("half")

    def breaks(broker: FakeBroker, topic: str, partition: int, start: int, end: int) -> Iterator[Records]:
        for record in chain.from_iterable(read(broker, topic, partition, start, end)):
            if (partition, record.offset) == (1, 1):
                assert len(list(own.staged.rglob("*.*"))) > 1
                raise error
            yield Records.of([record])

    read = FakeBroker.read
    with monkeypatch.context() as patched:
        patched.setattr(FakeBroker, "read", breaks)
        with pytest.raises((LakewardError, KeyboardInterrupt)):
            own.take()
    assert list(own.staged.rglob(".*")) == [of_other_process]
    assert own.apply() == [1, 2, 3]


def test_a_file_is_the_same_to_the_time_when_it_is_made_anew(tmp_path: Path) -> None:
    own = feed(tmp_path)
    own.send()
    first = own.take().objects
    own.lose_staging()
    assert own.take().objects == first


def test_what_a_crash_left_behind_its_commit_is_removed_with_the_next(tmp_path: Path) -> None:
    own = feed(tmp_path)
    own.send()
    source = own.open()
    selection = own.take(source)
    own.objects += selection.objects  # committed; the process ends before the files go
    again = own.take()
    assert (again.objects, again.leftovers) == ((), selection.objects)


def test_a_process_that_runs_once_ends_though_messages_go_on(tmp_path: Path) -> None:
    own = feed(tmp_path, max_messages=2)
    source = own.open()
    source.landing.runs_once = True
    own.change = lambda _: source  # one process
    for _ in range(3):
        own.send()
    batches = 0
    while own.step():
        batches += 1
        own.send()
        own.broker.add_partition(TOPIC)
    assert (batches, own.ids) == (2, [1, 2, 3])
    own.change = lambda opened: opened
    assert own.apply() == [1, 2, 3, 4, 5]


def test_a_table_begins_no_later_than_a_transaction_that_goes_on(tmp_path: Path) -> None:
    own = feed(tmp_path)
    own.send()
    own.broker.open_transaction(TOPIC)
    own.broker.made[TOPIC][1][0].committed[2] = Record(2, 1_700_000_900_000, None, message(9))
    topic = own.broker.find(TOPIC)
    assert topic is not None
    assert [one.end for one in own.open().starts(topic, 1_700_000_500_000)] == [1]


def test_a_file_that_another_process_has_removed_had_messages(tmp_path: Path) -> None:
    own = feed(tmp_path)
    own.send()
    (item,) = own.take().objects
    (gone,) = parse_ranges([item.name])
    own.lose_staging()
    assert not own.open().landing.staging.is_empty(TableName("shop", "orders"), gone)


def test_bounds_of_a_batch_are_kept(tmp_path: Path) -> None:
    for number, bounds in enumerate(({"max_messages": 3}, {"max_bytes": 400}, {"max_seconds": 1})):
        (tmp_path / str(number)).mkdir()
        own = feed(tmp_path / str(number), partitions=2, **bounds)
        for one in range(10):
            own.send(one % 2)
        sizes = []
        while own.step():
            sizes.append(len(own.ids) - sum(sizes))
        assert sorted(own.ids) == list(range(1, 11))
        assert max(sizes) <= 10 if "max_seconds" in bounds else max(sizes) < 5


def test_a_batch_ends_after_its_time(tmp_path: Path) -> None:
    """The clock, which advances by a second whenever it is read, is read for some messages alone."""
    own, seconds = feed(tmp_path), count()
    for _ in range(200):
        own.send()
    topic = own.broker.find(TOPIC)
    assert topic is not None
    wanted = [OffsetRange(TOPIC, topic.id, 0, 0, 200)]
    transfer = Transfer(200, 10**9, 3, clock=lambda: float(next(seconds)))
    (landed,) = transfer.run(own.broker, MessageStaging(tmp_path / "staged"), TableName("shop", "orders"), wanted)
    assert 0 < landed.end < 100


def test_a_message_is_read_to_the_letter(tmp_path: Path) -> None:
    own = feed(tmp_path)
    text = message(1).replace(b'"x"', '"é \\u0000 \u2028 1.50"'.encode())
    headers = (("h", b"\xff"), ("h", None))
    own.broker.send(TOPIC, text, key=b'{"id":1}', headers=headers)
    selection = own.take()
    line = json.loads((own.staged / "shop" / "orders" / selection.objects[0].name).read_text("utf-8"))
    assert line == {
        "topic": TOPIC,
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_000,
        "key": '{"id":1}',
        "value": text.decode(),
        "headers": [["h", "no UTF-8, in hexadecimal: ff"], ["h", None]],
    }


def test_a_message_that_is_no_text_goes_into_quarantine_with_its_bytes(tmp_path: Path) -> None:
    own = feed(tmp_path)
    own.broker.send(TOPIC, b'{"a\xff":1}', key=b"\xfe")
    own.send()
    assert own.apply() == [1]
    (line,) = map(json.loads, own.rejects)
    assert (line["topic"], line["partition"], line["offset"]) == (TOPIC, 0, 0)
    assert bytes.fromhex(line["value"].rpartition(" ")[2]) == b'{"a\xff":1}'
    assert bytes.fromhex(line["key"].rpartition(" ")[2]) == b"\xfe"


def test_files_that_a_plan_beside_a_run_left_go_with_what_was_applied(tmp_path: Path) -> None:
    own = feed(tmp_path, partitions=2)
    own.send()
    own.take()  # by a plan, which ends
    (own.staged / "shop" / "orders" / names(own.staged)[0]).rename(tmp_path / names(own.staged)[0])
    own.send()
    own.send(1)
    source = own.open()
    own.take(source)
    for left in tmp_path.glob("*.json"):
        left.rename(own.staged / "shop" / "orders" / left.name)
    assert len(names(own.staged)) == 3
    assert own.apply() == [1, 2, 3]
    assert names(own.staged) == []


def test_a_table_whose_columns_no_message_tells_yet_reads_on(tmp_path: Path) -> None:
    """One batch has messages of other tables alone, which tell no columns: the next ones are read with it."""
    own = feed(tmp_path, partitions=0, topics="shop.events", types="schema", max_messages=2)
    own.spark = lambda: SimpleNamespace(range=lambda _: SimpleNamespace(toDF=str))  # for a frame without rows
    own.broker.create("shop.events")
    for number in range(5):
        own.broker.send("shop.events", with_schema(message(number, table="lines")))
    assert not own.step()
    own.broker.send("shop.events", with_schema(message(9)))
    own.broker.send("shop.events", None, key=b"{}")
    assert own.apply() == [9]


def test_it_reads_on_behind_what_an_operator_let_pass_as_lost(tmp_path: Path) -> None:
    own = feed(tmp_path, partitions=0, topics="shop.events", types="schema", max_messages=1, start="latest")
    own.spark = lambda: SimpleNamespace(range=lambda _: SimpleNamespace(toDF=str))
    own.broker.create("shop.events")
    assert not own.step()
    for number in range(6):
        own.broker.send("shop.events", with_schema(message(number, table="lines")))
    own.broker.send("shop.events", with_schema(message(9)))
    own.broker.delete_before("shop.events", 4)
    alarm = lost(own)
    own.acked = {alarm.code: frozenset(alarm.about)}
    assert own.apply() == [9]


def with_schema(value: bytes) -> bytes:
    columns = [{"field": "id", "type": "int64"}, {"field": "a", "type": "string", "optional": True}]
    image = {"type": "struct", "optional": True, "fields": columns}
    images = [{"field": "before", **image}, {"field": "after", **image}]
    return json.dumps({"schema": {"type": "struct", "fields": images}, "payload": json.loads(value)}).encode()


# Where a table begins.


def test_a_table_may_begin_at_a_time(tmp_path: Path) -> None:
    own = feed(tmp_path, partitions=2, start="2023-11-14T22:13:21Z")
    for number, seconds in enumerate((0, 1, 2)):
        own.broker.send(TOPIC, message(number), timestamp=1_700_000_000_000 + 1000 * seconds)
    own.broker.send(TOPIC, message(9), partition=1)
    assert own.apply() == [1, 2]


# Loss.


def lost(own: BrokerFeed) -> AlarmRaised:
    with pytest.raises(AlarmRaised) as raised:
        own.take()
    assert not own.broker.log, "messages were read before the loss was found"
    return raised.value


def with_ten(folder: Path, partitions: int = 1) -> BrokerFeed:
    """Return a feed of which six messages are applied, and four more wait."""
    own = feed(folder, partitions)
    for _ in range(6):
        own.send()
    own.apply()
    for _ in range(4):
        own.send()
    own.broker.log.clear()
    return own


@pytest.mark.parametrize("change", ["anew", "gone", "renamed", "fewer", "cut off"])
def test_another_topic_stops_the_table_for_good(tmp_path: Path, change: str) -> None:
    own = with_ten(tmp_path, partitions=2)
    own.send(1)
    own.apply()
    own.broker.log.clear()
    match change:
        case "anew":
            own.broker.create(TOPIC, 2)
            for _ in range(20):
                own.send()
        case "gone":
            del own.broker.made[TOPIC]
        case "renamed":
            own.options = {"topics": "other.{schema}.{table}"}
            own.broker.create("other.shop.orders", 2)
        case "fewer":
            del own.broker.made[TOPIC][1][1]
        case _:
            own.broker.cut_off(TOPIC, 5)
    alarm = lost(own)
    assert (alarm.code, alarm.about) == ("KAFKA-002", ())


def test_a_topic_that_is_made_anew_while_it_is_read_is_not_taken_for_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = with_ten(tmp_path)

    def anew(broker: FakeBroker, topic: str, *place: int) -> Iterator[Record]:
        broker.create(topic)
        for number in range(20):
            broker.send(topic, message(100 + number))
        return read(broker, topic, *place)

    read = FakeBroker.read
    with monkeypatch.context() as patched:
        patched.setattr(FakeBroker, "read", anew)
        with pytest.raises(SourceError, match="was created anew while"):
            own.take()
    with pytest.raises(AlarmRaised, match="another one"):
        own.take()


@pytest.mark.parametrize("error", [StoreUnreachable("no answer"), SourceError("messages were deleted")], ids=str)
@pytest.mark.parametrize("options", [{}, {"transactions": "shop.transaction"}], ids=["split", "whole"])
def test_a_topic_that_is_deleted_while_it_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: LakewardError, options: Mapping[str, Any]
) -> None:
    own = with_ten(tmp_path)
    own.options = {**own.options, **options}

    def deleted(broker: FakeBroker, topic: str, *_: int) -> Iterator[Record]:
        del broker.made[topic]
        raise error

    def silent(*_: object) -> Iterator[Record]:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(FakeBroker, "read", silent)
        with pytest.raises(type(error), match=str(error)):
            own.take()
        patched.setattr(FakeBroker, "read", deleted)
        with pytest.raises(SourceError, match=f"its topic {TOPIC} was deleted while"):
            own.take()


# Many tables, and the group.


def test_a_table_may_have_a_topic_of_its_own_name(tmp_path: Path) -> None:
    own = feed(tmp_path, partitions=0)
    own.options = {"tables": {dimension_of(own.open()).name: {"topics": "odd"}}}
    own.broker.create("odd")
    own.send(topic="odd")
    assert own.apply() == [1]


@pytest.mark.parametrize("seed", range(5))
def test_two_tables_of_one_topic_share_files_whatever_their_pace(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    own = feed(tmp_path, partitions=2, max_messages=3)
    other = feed(tmp_path, partitions=0, max_messages=5)
    own.broker, own.sibling, other.sibling = other.broker, other, own
    own.broker.create(TOPIC, 2)
    other.name = TableName("shop", "orders_history")
    for _ in range(40):
        match random.choice(["send", "send", "own", "other", "crash"]):
            case "send":
                own.send(random.randrange(2))
            case "own":
                own.step()
            case "other":
                other.step()
            case _:
                random.choice([own, other]).step(crashes=True)
    assert sorted(own.apply()) == sorted(other.apply()) == list(range(1, own.sent + 1))
    own.send()
    own.send(1)
    own.apply()
    other.apply()
    assert names(own.staged) == []


def test_the_group_is_told_after_the_commit_and_never_asked(tmp_path: Path) -> None:
    own = feed(tmp_path, partitions=2, group="lakeward.{schema}.{table}")
    own.send(0)
    own.send(1)
    own.step(crashes=True)
    assert own.broker.group_offsets == {}
    own.apply()
    assert own.broker.group_offsets == {"lakeward.shop.orders": {0: 1, 1: 1}}
    own.broker.group_offsets["lakeward.shop.orders"] = {0: 99, 1: 0}  # whatever others do to the group
    own.send(0)
    assert own.apply() == [1, 2, 3]


def test_a_group_that_cannot_be_told_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = feed(tmp_path, group="g")
    own.send()

    def refuse(*_: object) -> None:
        raise StoreUnreachable("away")

    monkeypatch.setattr(FakeBroker, "commit_offsets", refuse)
    assert own.apply() == [1]


# Settings.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"servers": "localhost"}, "servers"),
        ({"topics": "shop.{table}"}, "once each, or neither"),
        ({"topics": "sh op"}, "name of a topic"),
        ({"start": "2026-11-21T10:00:00"}, "must have a zone"),
        ({"start": "first"}, '"earliest", "latest" or a time'),
        ({"format": "csv"}, "format"),
        ({"format": "dms-json", "places": "arrival"}, "`places` is for"),
        ({"path": "s3://bucket/x"}, "cannot be staged in s3"),
        ({"security": {"protocol": "SASL_SSL"}}, "takes `sasl_mechanism`, `username` and `password`"),
        ({"security": {"username": "u"}}, "are for a protocol with SASL"),
        ({"security": {"sasl_mechanism": "AWS_MSK_IAM", "region": "x"}}, "are for a protocol with SASL"),
        ({"security": {"protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"}}, "takes `region`"),
        ({"security": {"protocol": "SASL_SSL", "region": "x", "sasl_mechanism": "PLAIN"}}, "takes `region`"),
        (
            {"security": {"protocol": "SASL_PLAINTEXT", "region": "x", "sasl_mechanism": "AWS_MSK_IAM"}},
            "takes the protocol SASL_SSL",
        ),
        ({"security": {"password": "secret!"}}, "a secret does not stand here"),
        ({"security": {"ca_file": "ca.pem"}}, "are for a protocol with SSL"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, options: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=r"settings are not right|cannot be staged") as raised:
        feed(tmp_path, **options).open()
    assert words in str(raised.value)
    assert "secret!" not in str(raised.value)


def test_a_reload_has_nothing_to_wait_for(tmp_path: Path) -> None:
    own = feed(tmp_path)
    with pytest.raises(ConfigError, match="its topic has changes, and no full load"):
        own.open().select_objects(dimension_of(own.open()), ObjectHistory(load=Load(epoch=2)))


# What is taken back.


def test_a_table_is_taken_back_over_messages_that_the_broker_has_and_no_file(tmp_path: Path) -> None:
    own = feed(tmp_path, partitions=2)
    for number in range(4):
        own.send(number % 2)
    assert own.apply() == [1, 3, 2, 4]
    objects, source = own.objects, own.open()
    assert names(own.staged) == []
    assert source.find_missing(own.dimension(source), objects) == ()
    own.objects, own.ids = objects[1:], []
    assert own.apply() == [1, 3]
    own.broker.delete_before(TOPIC, 1, partition=1)
    assert source.find_missing(own.dimension(source), objects[:1]) == ()
    with pytest.raises(SourceError, match="are gone from the broker") as gone:
        source.find_missing(own.dimension(source), objects)
    assert gone.value.found == f"{TOPIC}, partition 1, offsets 0 to 1; there are 1 to 1"
    own.broker.cut_off(TOPIC, 1, partition=0)
    with pytest.raises(SourceError, match="are gone from the broker"):
        source.find_missing(own.dimension(source), objects[:1])


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        # A delete may be gone from the middle of the topic: the row would stay.
        (lambda broker: broker.compacted.add(TOPIC), ConfigError, "over messages of a compacted topic"),
        (lambda broker: broker.create(TOPIC), AlarmRaised, "its topic is another one now"),
    ],
)
def test_a_table_is_not_rolled_back_over_messages_that_may_be_others(
    tmp_path: Path, change: Callable[[FakeBroker], None], kind: type[LakewardError], words: str
) -> None:
    own = feed(tmp_path)
    own.send()
    own.apply()
    change(own.broker)
    source = own.open()
    with pytest.raises(kind, match=words):
        source.find_missing(own.dimension(source), own.objects)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_table_that_begins_at_the_end_of_its_topic_keeps_the_commit_that_says_where(
    tmp_path: Path, start: str
) -> None:
    own = feed(tmp_path, start=start)
    for _ in range(4):
        own.send()
    own.broker.delete_before(TOPIC, 3)
    own.take()
    own.send()
    own.apply()
    source = own.open()
    begins, *_ = own.objects
    assert begins.size == 0
    refused = pytest.raises(ConfigError, match="before its first messages") if start == "latest" else nullcontext()
    with refused:
        source.find_missing(own.dimension(source), own.objects)
    assert source.find_missing(own.dimension(source), own.objects[1:]) == ()


# Any history of a topic.


@pytest.mark.parametrize("seed", range(20))
def test_every_committed_message_is_applied_once_in_its_order(tmp_path: Path, seed: int) -> None:
    check_history(feed(tmp_path, partitions=0), Random(seed))


@pytest.mark.parametrize("places", ["source", "arrival"])
def test_places_of_informix_are_none_and_arrival_goes_without_them(tmp_path: Path, places: str) -> None:
    own = feed(tmp_path, places=places)
    source = {"connector": "informix", "schema": "shop", "table": "orders", "ts_ms": 1_700_000_000_000}
    for number in (1, 2):
        place = {"commit_lsn": f"5583457484{number}", "change_lsn": f"5583457485{number}"}
        told = {"op": "c", "before": None, "after": {"id": number, "a": "x"}, "source": {**source, **place}}
        own.broker.send(TOPIC, json.dumps(told).encode())
    opened = own.open()
    batch = opened.read(own.dimension(opened), own.take(opened), 1)
    details = [row["_lakeward_detail"] for row in batch.frame.rows.to_pylist()]
    words = '"commit_lsn: 55834574841" says nothing of the order (its source; `places = "arrival"` goes without'
    assert [str(detail).startswith(words) for detail in details] == [places == "source", False]
    assert [detail is None for detail in details] == [places == "arrival"] * 2
