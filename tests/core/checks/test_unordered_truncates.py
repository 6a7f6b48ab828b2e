"""Truncates in a topic of several partitions without log positions are right, or stop the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_jobs import INSERT, NAME, TableFeed, columns, event, item, values

from lakeward.adapters.memory import MemorySource
from lakeward.core.checks.event_order import LOG_PLACE
from lakeward.core.dimension import ORDERED
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.events import NO_SEQUENCE, ChangeEvent, Operation, Sequences
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


class Topic(TableFeed):
    """A table that is fed by objects of partitions, and the rows it must have if arrival orders all changes."""

    def __init__(self, *, has_places: bool = False) -> None:
        source = MemorySource(partition_end=lambda order: (order // PARTITION + 1) * PARTITION)
        dimension = item(columns(id="int", v="int"), lateness=ORDERED, sequences=Sequences.PLACES)
        super().__init__(dimension, source)
        self.has_places = has_places
        self.expected: dict[int, int] = {}
        self.delivered = self.changes = 0

    def put(self, partition: int, *items: int) -> None:
        """Deliver an object behind all of its partition; a key is of one partition alone."""
        self.delivered += 1
        order, events = partition * PARTITION + self.delivered, []
        for row, number in enumerate(items, 1):
            self.changes += 1
            key, place = number * 3 + partition, self.changes if self.has_places else NO_SEQUENCE
            if number == TRUNCATE:
                self.expected.clear()
                events.append(event(Operation.TRUNCATE, place, at=order, row=row))
            else:
                self.expected[key] = self.changes
                events.append(event(INSERT, place, key, at=order, row=row, v=self.changes))
        self.source.put(NAME, order, events)

    @property
    def rows(self) -> dict[Any, Any]:
        return values(self.job, "v")

    def apply(self, drawn: Sequence[Drawn]) -> bool:
        """Deliver and apply objects, and compare the rows; return whether the table stopped."""
        for one in drawn:
            self.put(one.partition, *one.items)
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
    topic.deliver(1, *rows_at(1, {1: 100, 2: 200}))
    if moment == "now":
        truncate_at(topic.job, moment, by="ada", reason=None, at=0)
    topic.source.put(NAME, 3, rows_at(3, {2: 200}))
    if moment != "now":
        truncate_at(topic.job, moment, by="ada", reason=None, at=0)
    apply_changes(topic.job)
    topic.deliver(4, *rows_at(4, {5: 300}))
    assert topic.rows == rows


def rows_at(order: int, places: dict[int, int]) -> list[ChangeEvent]:
    """Return rows by their keys, each with its place as its value."""
    return [
        event(INSERT, place, key, at=order, row=row, time=place, v=place)
        for row, (key, place) in enumerate(places.items(), 1)
    ]
