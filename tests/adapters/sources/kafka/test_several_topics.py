"""A table that is read from several topics: each message once, and what is lost of one of them stops it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from fake_broker import FakeBroker
from kafka_feeds import TOPIC, BrokerFeed

from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange
from lakeward.adapters.sources.kafka.source import KafkaSource
from lakeward.adapters.sources.kafka.topics import SEPARATOR, SeveralTopics, fits_file_name
from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised, ConfigError

pytestmark = pytest.mark.usefixtures("no_broker")

ORDERS = TableName("shop", "orders")
FIRST, SECOND = "orders_v1", "orders.v2"


def of_several(source: KafkaSource) -> KafkaSource:
    source.landing.broker = SeveralTopics(source.landing.broker)
    return source


def feed(folder: Path, *topics: str, **options: Any) -> BrokerFeed:
    """Return a table of several topics: the first has two partitions, the others one."""
    own = {ORDERS: {"topics": [*topics]}}
    made = BrokerFeed(folder, {**options, "tables": own}, of_several)
    made.broker.create(FIRST, 2)
    made.broker.create(SECOND)
    return made


def test_messages_of_all_topics_are_applied_once_each(tmp_path: Path) -> None:
    own, random = feed(tmp_path, FIRST, SECOND), Random(1)
    for _ in range(4):
        for _ in range(random.randrange(4)):
            own.send(random.randrange(2), FIRST)
        for _ in range(random.randrange(4)):
            own.send(0, SECOND)
        own.step(crashes=random.random() < 0.3)
    own.broker.add_partition(FIRST)
    own.send(2, FIRST)
    assert sorted(own.apply()) == [*range(1, own.sent + 1)]


def test_names_of_files_say_the_topics_and_lines_the_one(tmp_path: Path) -> None:
    own = feed(tmp_path, FIRST, SECOND, landing="kept")
    own.send(1, FIRST)
    own.send(0, SECOND)
    own.apply()
    ids = "--".join(own.broker.made[topic][0] for topic in (FIRST, SECOND))
    names = [f"{FIRST},{SECOND}+{number}+0000000000-0000000000+{ids}.json" for number in (1, 1000)]
    assert [item.name for item in own.objects] == names
    one, other = ((own.staged / "shop" / "orders" / name).read_text("utf-8") for name in names)
    assert '"topic":"orders_v1","partition":1' in one
    assert '"topic":"orders.v2","partition":0' in other


def test_a_topic_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    own = feed(tmp_path, FIRST, "later")
    own.send(0, FIRST)
    assert own.apply() == []
    own.broker.create("later")
    assert own.apply() == [1]


def test_what_is_lost_of_one_topic_stops_the_table(tmp_path: Path) -> None:
    own = feed(tmp_path, FIRST, SECOND)
    for topic in (FIRST, SECOND):
        own.send(0, topic)
    assert own.apply() == [1, 2]
    for _ in range(2):
        own.send(0, SECOND)
    own.broker.delete_before(SECOND, 2)
    with pytest.raises(AlarmRaised, match="gone from the broker") as raised:
        own.take()
    assert f"{SECOND}, partition 0, offsets 1 to 1" in raised.value.found
    own.acked = {raised.value.code: frozenset(raised.value.about)}
    assert own.apply() == [1, 2, 4]


@pytest.mark.parametrize(
    "topics", [[SECOND, FIRST], [FIRST], [FIRST, SECOND, "more"], None], ids=["order", "fewer", "more", "made anew"]
)
def test_other_topics_than_those_that_were_read_stop_the_table(tmp_path: Path, topics: list[str] | None) -> None:
    own = feed(tmp_path, FIRST, SECOND)
    own.broker.create("more")
    own.send(0, FIRST)
    own.apply()
    if topics is None:
        own.broker.create(SECOND)
    else:
        own.options = {"tables": {ORDERS: {"topics": topics}}}
    with pytest.raises(AlarmRaised, match="its topic is another one now"):
        own.take()


def test_a_group_is_told_of_each_topic_and_a_start_is_found_in_each() -> None:
    broker = FakeBroker()
    for topic, times in ((FIRST, [10, 20]), (SECOND, [20])):
        broker.create(topic)
        for time in times:
            broker.send(topic, b"{}", timestamp=time)
    several, name = SeveralTopics(broker), f"{FIRST},{SECOND}"
    assert several.offsets_at(name, [0, 1000], 20) == {0: 1, 1000: 0}
    several.commit_offsets("g", name, {0: 2, 1000: 1})
    assert broker.log == ["tell g {0: 2}", "tell g {0: 1}"]


def test_a_topic_of_too_many_partitions_is_refused() -> None:
    broker = FakeBroker()
    broker.create(FIRST, 1001)
    broker.create(SECOND)
    several = SeveralTopics(broker)
    found = several.find(FIRST)
    assert found is not None
    assert len(found.partitions) == 1001
    with pytest.raises(ConfigError, match="more partitions"):
        several.find(f"{SECOND},{FIRST}")


MANY = [f"t{number}" for number in range(101)]


@pytest.mark.parametrize("topics", [[], [FIRST, FIRST], ["a b"], ["{schema}.{table}"], MANY])
def test_what_cannot_be_topics_is_refused(tmp_path: Path, topics: list[str]) -> None:
    with pytest.raises(ConfigError, match="topics"):
        feed(tmp_path, *topics).open()


def test_what_fits_a_name_makes_no_longer_one() -> None:
    """Of any number of topics the most whose longest file can still be named."""
    for length in (1, 9, 21, 60):
        topics = [f"{number:0{length}}" for number in range(12)]
        count = max(n for n in range(1, 12) if fits_file_name(topics[:n]))
        found = OffsetRange(
            SEPARATOR.join(topics[:count]), "--".join(["i" * 22] * count), 11_999, 10**13 - 2, 10**13
        )
        assert len(found.name) <= 255


def test_a_single_topic_is_what_it_was(tmp_path: Path) -> None:
    own = feed(tmp_path, TOPIC)
    own.broker.create(TOPIC)
    own.send()
    assert own.apply() == [1]
    assert own.objects[0].name.startswith(f"{TOPIC}+0+")
