"""Batches that land while those before them are applied: they are the batches that land when they are due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
from kafka_feeds import TOPIC, BrokerFeed, feed

from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange
from lakeward.adapters.sources.kafka.source import KafkaSource
from lakeward.adapters.sources.kafka.staging.ahead_landing import AheadLanding
from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised, SourceError

pytestmark = pytest.mark.usefixtures("no_broker")

BATCHES: Final = [[1, 2], [3, 4], [5, 6], [7, 8], [9]]


def backlog(folder: Path, *, lands_ahead: bool = True, **options: Any) -> BrokerFeed:
    """Return a topic with nine messages; batches have two."""
    own = replace(feed(folder, max_messages=2, **options), lands_ahead=lands_ahead)
    for _ in range(9):
        own.send()
    return own


def ids_of(own: BrokerFeed, source: KafkaSource) -> list[list[int]]:
    """Apply all batches, and return the ids of each."""
    batches: list[list[int]] = []
    before = len(own.ids)
    while own.step(source):
        batches.append(own.ids[before:])
        before = len(own.ids)
    return batches


def test_batches_that_land_ahead_are_those_that_land_when_they_are_due(tmp_path: Path) -> None:
    """The first batch of a table does not, nor the one after it, which lands when it is selected."""
    (tmp_path / "due").mkdir()
    ahead, due = backlog(tmp_path), backlog(tmp_path / "due", lands_ahead=False)
    assert ids_of(ahead, ahead.open()) == ids_of(due, due.open()) == BATCHES
    landed = sorted((one.start, one.end) for one in ahead.landed_ahead)
    assert (landed, due.landed_ahead) == ([(4, 6), (6, 8), (8, 9)], [])


def test_nothing_lands_ahead_for_a_table_that_keeps_up(tmp_path: Path) -> None:
    own = replace(feed(tmp_path, max_messages=2), lands_ahead=True)
    source = own.open()
    for _ in range(5):
        own.send()
        own.send()
        own.apply(source)
    assert (own.landed_ahead, own.ids) == ([], [*range(1, 11)])


def test_what_does_not_land_ahead_lands_when_it_is_due(tmp_path: Path) -> None:
    own, asked = backlog(tmp_path), list[Sequence[OffsetRange]]()
    source = own.open()

    def fail(_: TableName, ranges: Sequence[OffsetRange], __: bool) -> NoReturn:
        asked.append(ranges)
        raise SourceError("messages did not land ahead")

    source.landing.land_in_process = fail
    assert ids_of(own, source) == BATCHES
    assert asked


def test_a_batch_that_is_selected_again_has_all_messages_after_the_last_commit(tmp_path: Path) -> None:
    """It was prepared, and another writer committed first."""
    own = backlog(tmp_path)
    source = own.open()
    for _ in range(2):
        own.step(source)
    for _ in range(3):
        source.read(own.dimension(source), own.take(source), 1)
    assert own.apply(source) == [*range(1, 10)]


def test_the_next_process_reads_what_landed_ahead_batch_by_batch(tmp_path: Path) -> None:
    own = backlog(tmp_path)
    source = own.open()
    for _ in range(2):
        own.step(source)
    own.step(source, crashes=True)
    for landing in [*source.landing.ahead.landings]:
        landing.result()
    own.broker.log.clear()
    assert ids_of(own, own.open()) == BATCHES[2:]
    assert not [call for call in own.broker.log if call.startswith("read")]


def test_messages_that_landed_ahead_are_not_lost_with_those_of_the_broker(tmp_path: Path) -> None:
    own = backlog(tmp_path)
    source = own.open()
    for _ in range(3):
        own.step(source)
    for landing in [*source.landing.ahead.landings]:
        landing.result()
    own.broker.delete_before(TOPIC, 9)
    assert ids_of(own, source) == BATCHES[3:]


def test_a_topic_that_is_made_anew_stops_the_table_with_all_that_landed_ahead(tmp_path: Path) -> None:
    own = backlog(tmp_path)
    source = own.open()
    for _ in range(2):
        own.step(source)
    own.broker.create(TOPIC)
    for _ in range(9):
        own.send()
    with pytest.raises(AlarmRaised, match="was created anew"):
        own.step(source)
    assert own.ids == [1, 2, 3, 4]


def test_one_table_at_a_time_lands_ahead(tmp_path: Path) -> None:
    own = backlog(tmp_path)
    source = own.open()
    own.step(source)
    own.step(source)
    other = TableName("shop", "items")
    source.landing.ahead.begin(other, {0: 0}, lambda _: pytest.fail("two tables land ahead"))
    assert not source.landing.ahead.take(other)
    assert ids_of(own, source) == BATCHES[2:]


def test_a_table_without_further_messages_lets_others_land_ahead() -> None:
    ahead, own, other = AheadLanding(), TableName("shop", "orders"), TableName("shop", "items")
    ahead.begin(own, {0: 0}, lambda _: ())
    assert not ahead.take(own)
    ahead.begin(other, {0: 0}, lambda positions: [OffsetRange("t", "id", 0, positions[0], positions[0] + 1)])
    assert ahead.take(other) == [OffsetRange("t", "id", 0, 0, 1)]
    assert ahead.peek(other) == [OffsetRange("t", "id", 0, 1, 2)]
    ahead.discard(other)
