"""Truncates in a topic of several partitions without log positions are right, or stop the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_jobs import NAME, columns, item, memory_job, table_of

from lakeward.adapters.memory import MemorySource
from lakeward.core.checks.event_order import LOG_PLACE
from lakeward.core.dimension import ORDERED
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.events import NO_SEQUENCE, ChangeEvent, Operation, Position, Sequences
from lakeward.core.operations.truncate import truncate_at
from lakeward.core.pipeline.apply import apply_changes

PARTITION: Final = 1000
"""How many orders a partition has."""

TRUNCATE: Final = -1
"""Stands for a truncate in a drawn object, whose numbers are keys else."""


class Drawn(NamedTuple):
    """An object of a partition, which has what was drawn for it; `is_applied` says that a batch ends behind it."""

    partition: int
    items: Sequence[int]
    is_applied: bool = True


class Topic:
    """A table that is fed by objects of partitions, and the rows it must have if arrival orders all changes."""

    def __init__(self, *, has_places: bool = False) -> None:
        dimension = item(columns(id="int", v="int"), lateness=ORDERED, sequences=Sequences.PLACES)
        self.has_places = has_places
        self.source = MemorySource(partition_end=lambda order: (order // PARTITION + 1) * PARTITION)
        self.job = memory_job(dimension, self.source)
        self.expected: dict[int, int] = {}
        self.delivered = self.changes = 0

    def deliver(self, partition: int, *items: int) -> None:
        """Deliver an object behind all of its partition; a key is of one partition alone."""
        self.delivered += 1
        order, events = partition * PARTITION + self.delivered, []
        for row, number in enumerate(items, 1):
            self.changes += 1
            key = number * 3 + partition
            place = Position(1, self.changes if self.has_places else NO_SEQUENCE, order, row)
            if number == TRUNCATE:
                self.expected.clear()
                events.append(ChangeEvent(operation=Operation.TRUNCATE, position=place, key=()))
            else:
                self.expected[key] = self.changes
                cells = {"id": key, "v": self.changes}
                events.append(ChangeEvent(operation=Operation.INSERT, position=place, key=(key,), cells=cells))
        self.source.put(NAME, order, events)

    @property
    def rows(self) -> dict[Any, Any]:
        table = table_of(self.job)
        return {key[0]: row.cells["v"] for key, row in table.rows.items()}

    def apply(self, drawn: Sequence[Drawn]) -> bool:
        """Deliver and apply objects, and compare the rows; return whether the table stopped."""
        for one in drawn:
            self.deliver(one.partition, *one.items)
            if one.is_applied:
                try:
                    apply_changes(self.job)
                except SourceError as error:
                    if "which rows a truncate removes" in str(error):
                        return True
                    raise
                assert self.rows == self.expected
        return False


def feeds(partitions: int) -> st.SearchStrategy[list[Drawn]]:
    """Return objects of so many partitions, in any order."""
    items = st.lists(st.integers(TRUNCATE, 2), min_size=1, max_size=3)
    return st.lists(st.builds(Drawn, st.integers(0, partitions - 1), items, st.booleans()), max_size=8)


@given(feeds(3))
def test_truncates_without_a_place_are_right_or_stop_the_table(drawn: list[Drawn]) -> None:
    stopped = Topic().apply(drawn)
    has_truncate = any(TRUNCATE in one.items for one in drawn)
    assert has_truncate or not stopped


@given(feeds(1))
def test_truncates_in_one_partition_are_right(drawn: list[Drawn]) -> None:
    assert not Topic().apply(drawn)


@given(feeds(3))
def test_truncates_with_places_are_right(drawn: list[Drawn]) -> None:
    assert not Topic(has_places=True).apply([one._replace(is_applied=True) for one in drawn])


@pytest.mark.parametrize(
    "drawn",
    [
        [Drawn(1, [0]), Drawn(0, [TRUNCATE])],
        [Drawn(0, [0]), Drawn(1, [TRUNCATE])],
        [Drawn(0, [0], is_applied=False), Drawn(1, [TRUNCATE])],
        [Drawn(1, [TRUNCATE]), Drawn(0, [0])],
        [Drawn(0, [0, TRUNCATE, 1]), Drawn(1, [2])],
    ],
)
def test_a_table_stops_where_two_partitions_are_known(drawn: list[Drawn]) -> None:
    topic = Topic()
    assert topic.apply(drawn)
    for _ in range(2):  # it stays so
        with pytest.raises(SourceError, match="which rows a truncate removes"):
            apply_changes(topic.job)


def test_a_truncate_now_is_refused_for_several_partitions() -> None:
    topic = Topic()
    topic.apply([Drawn(0, [0]), Drawn(1, [0])])
    with pytest.raises(ConfigError, match="not before or behind all rows"):
        truncate_at(topic.job, "now", by="ada", reason=None, at=0)
    topic = Topic(has_places=True)
    topic.apply([Drawn(0, [0]), Drawn(1, [0])])
    truncate_at(topic.job, "now", by="ada", reason=None, at=0)
    assert topic.rows == {}


@pytest.mark.parametrize("moment", ["now", "00000003"])
@pytest.mark.parametrize(("column", "rows"), [(LOG_PLACE, {5: 300}), ("at", {2: 200, 5: 300})])
def test_a_row_that_is_delivered_again_behind_a_truncate_does_not_come_back(
    moment: str, column: str, rows: dict[int, int]
) -> None:
    """A log position shows that a change was committed before; a column that orders rows does not."""
    topic = Topic()
    topic.source.order_column, topic.source.partition_end = column, lambda _: None
    put(topic, 1, {1: 100, 2: 200})
    apply_changes(topic.job)
    if moment == "now":
        truncate_at(topic.job, moment, by="ada", reason=None, at=0)
    put(topic, 3, {2: 200})
    if moment != "now":
        truncate_at(topic.job, moment, by="ada", reason=None, at=0)
    apply_changes(topic.job)
    put(topic, 4, {5: 300})
    apply_changes(topic.job)
    assert topic.rows == rows


def put(topic: Topic, order: int, places: dict[int, int]) -> None:
    """Deliver an object with rows by their keys, each with its place as its value."""
    events = [
        ChangeEvent(
            position=Position(1, place, order, row),
            operation=Operation.INSERT,
            key=(key,),
            cells={"id": key, "v": place},
            time=place,
        )
        for row, (key, place) in enumerate(places.items(), 1)
    ]
    topic.source.put(NAME, order, events)
