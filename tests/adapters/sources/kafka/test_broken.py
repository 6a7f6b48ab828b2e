"""The laws of a source of messages fail where it is broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from fake_broker import FakeBroker
from kafka_feeds import TOPIC, BrokerFeed, check_history

from lakeward.adapters.sources.kafka.broker import Offsets, Records, Topic
from lakeward.adapters.sources.kafka.landing import Landing
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange, parse_ranges
from lakeward.adapters.sources.kafka.source import KafkaSource
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import AlarmRaised
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection

pytestmark = pytest.mark.usefixtures("no_broker")


# The laws.


def messages_are_applied_once(own: BrokerFeed) -> None:
    """Each that is committed at the broker, in the order of its partition, whatever happens."""
    for seed in range(10):
        folder = own.folder / str(seed)
        folder.mkdir()
        check_history(BrokerFeed(folder, own.options, own.change, lands_ahead=seed % 2 == 1), Random(seed))


def lost_messages_stop_the_table(own: BrokerFeed) -> None:
    """An offset that was not applied and is gone is never passed over."""
    own.broker.create(TOPIC)
    own.send()
    own.apply()
    for _ in range(3):
        own.send()
    own.broker.delete_before(TOPIC, 3)
    with pytest.raises(AlarmRaised):
        own.step()


def the_group_is_told_after_the_commit(own: BrokerFeed) -> None:
    """What a crash left without a commit, it is not told."""
    own.broker.create(TOPIC)
    own.send()
    own.step(crashes=True)
    assert not own.broker.group_offsets
    own.step()
    assert own.broker.group_offsets


LAWS: Final = (messages_are_applied_once, lost_messages_stop_the_table, the_group_is_told_after_the_commit)


# Sources that are broken.


class SkipsAnOffset(Landing):
    def _ranges_at_broker(
        self, table: TableName, topic: Topic, positions: Mapping[int, int]
    ) -> Sequence[OffsetRange]:
        found = {number: offset + (offset > 0) for number, offset in positions.items()}
        return super()._ranges_at_broker(table, topic, found)


class ForgetsAPartition(Landing):
    def _ranges_at_broker(
        self, table: TableName, topic: Topic, positions: Mapping[int, int]
    ) -> Sequence[OffsetRange]:
        found = {number: offset for number, offset in positions.items() if number == 0}
        return super()._ranges_at_broker(table, topic, found)


class JumpsOverLostOffsets(Landing):
    def _positions(
        self, dimension: Dimension, object_history: ObjectHistory, topic: Topic, applied: Collection[OffsetRange]
    ) -> tuple[list[OffsetRange], Mapping[int, int]]:
        waiting, positions = super()._positions(dimension, object_history, topic, applied)
        return waiting, {number: max(offset, topic.partitions[number].low) for number, offset in positions.items()}


class TellsFirst(KafkaSource):
    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Any:
        self._commit_group_offsets(dimension.source, parse_ranges(item.name for item in selection.objects))
        return super().read(dimension, selection, epoch)


class BeginsAnew(KafkaSource):
    """Reads from the beginning what has no file any more."""

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        return super().select_objects(dimension, replace(object_history, applied={}, has_no_batch=True))


class Uncommitted(FakeBroker):
    """Shows what transactions wrote that were aborted."""

    def find(self, topic: str) -> Topic | None:
        found = super().find(topic)
        if found is None:
            return None
        ends = {number: one.end for number, one in self.made[topic][1].items()}
        return replace(found, partitions={n: Offsets(low, ends[n]) for n, (low, _) in found.partitions.items()})

    def read(self, topic: str, partition: int, start: int, end: int) -> Generator[Records]:
        own = self.made[topic][1][partition]
        first = next(iter(own.committed.values()), None)
        for offset in range(start, end):
            if offset in own.committed:
                yield Records.of([own.committed[offset]])
            elif offset in own.aborted and first is not None:
                yield Records.of([first._replace(offset=offset)])


def of_class(kind: type[KafkaSource]) -> Callable[[KafkaSource], KafkaSource]:
    return lambda source: kind(**{one.name: getattr(source, one.name) for one in fields(source)})


def landing_of_class(kind: type[Landing]) -> Callable[[KafkaSource], KafkaSource]:
    def change(source: KafkaSource) -> KafkaSource:
        source.landing = kind(**{one.name: getattr(source.landing, one.name) for one in fields(source.landing)})
        return source

    return change


def uncommitted(source: KafkaSource) -> KafkaSource:
    broker = source.landing.broker
    assert isinstance(broker, FakeBroker)
    source.landing.broker = Uncommitted(broker.made, broker.group_offsets, broker.log)
    return source


BROKEN: Final = {
    "skips an offset": landing_of_class(SkipsAnOffset),
    "forgets a partition": landing_of_class(ForgetsAPartition),
    "jumps over lost offsets": landing_of_class(JumpsOverLostOffsets),
    "tells the group first": of_class(TellsFirst),
    "begins anew": of_class(BeginsAnew),
    "reads uncommitted": uncommitted,
}


def of_law(folder: Path, change: Callable[[KafkaSource], KafkaSource]) -> BrokerFeed:
    return BrokerFeed(folder, {"group": "g"}, change)


def failing(folder: Path, change: Callable[[KafkaSource], KafkaSource]) -> Sequence[str]:
    found = []
    for law in LAWS:
        (folder / law.__name__).mkdir(parents=True)
        try:
            law(of_law(folder / law.__name__, change))
        except (AssertionError, AlarmRaised, pytest.fail.Exception):
            found.append(law.__name__)
    return found


def test_the_source_holds_the_laws(tmp_path: Path) -> None:
    assert not failing(tmp_path, lambda source: source)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_source_is_found(tmp_path: Path, name: str) -> None:
    assert failing(tmp_path, BROKEN[name])
