"""Rows that do not say from when they count, where a column says so: they wait, whatever stands of their key."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import permutations
from typing import Any

import memory_jobs
import pytest
from memory_jobs import DELETE, INSERT, NAME, READ, UPDATE, TableFeed, columns, item

from lakeward.core.dimension import Unbounded
from lakeward.core.errors import RepairError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, Cell, ChangeEvent, Operation, Position
from lakeward.core.history.instants import day_of, instant_of, undated_detail
from lakeward.core.history.options import ByColumn, ByTime, History, ValidityColumns
from lakeward.core.merge.counts import Counts
from lakeward.core.operations.explain import explain
from lakeward.core.pipeline.job import Settlement
from lakeward.core.pipeline.release import release, repair_row
from lakeward.core.ports import RepairedRow
from lakeward.core.schema import Type

BY_NUMBER = History(validity=ByColumn("seen"), validity_columns=ValidityColumns(type=Type("bigint")))
DIMENSION = item(columns(id="int", a="int", seen="bigint"), lateness=Unbounded(), history=BY_NUMBER)
NULL = "the column seen, from which versions are dated, is NULL"
NEW = "the column seen, from which versions are dated, was not sent with a new row"
LAST_DAY = date.max.toordinal() - date(1970, 1, 1).toordinal()
MOVED = "the column seen, from which versions are dated, was not sent with a change of the key"


def event(place: int, seen: Cell, operation: Operation = UPDATE, key: int = 1, **more: Any) -> ChangeEvent:
    return memory_jobs.event(operation, place, key, transaction=place, a=place, seen=seen, **more)


class Lake(TableFeed):
    def __init__(self, *items: ChangeEvent, history: History = BY_NUMBER) -> None:
        super().__init__(replace(DIMENSION, history=history))
        self.delivered = 0
        if items:
            self.put(*items)

    def put(self, *items: ChangeEvent) -> Counts:
        """Deliver an object behind all others."""
        self.delivered = max([self.delivered + 1, *(item.position.object for item in items)])
        return self.deliver(self.delivered, *items)


@pytest.mark.parametrize("operation", [INSERT, UPDATE])
def test_a_row_whose_column_is_null_waits_and_holds_its_key(operation: Operation) -> None:
    lake = Lake(event(1, 10), event(2, 20, key=2))
    counts = lake.put(event(3, None, operation), event(4, 40, key=2), event(5, 50))
    assert (counts.applied, counts.quarantined, counts.waiting) == (1, 1, 1)
    assert (lake.periods(1), lake.periods(2)) == ([(10, None, 1)], [(20, 40, 2), (40, None, 4)])
    (entry,) = lake.entries()
    assert (entry.reason, entry.detail, entry.key, entry.waiting_events) == ("undated", NULL, '["1"]', 1)


def test_an_insert_without_the_column_waits() -> None:
    lake = Lake(event(1, UNSET, INSERT))
    assert [entry.detail for entry in lake.entries()] == [NEW]


@pytest.mark.parametrize("operation", [UPDATE, DELETE])
def test_an_event_at_the_open_end_waits(operation: Operation) -> None:
    """A current version would end before it begins, and one that ends there would look as if it were current."""
    history = replace(BY_NUMBER, validity_columns=ValidityColumns(type=Type("bigint"), open_end=100))
    lake = Lake(event(1, 10), event(2, 99, key=2), history=history)
    lake.put(event(3, 100, operation), event(4, 101, key=2))
    assert (lake.periods(1), lake.periods(2)) == ([(10, None, 1)], [(99, None, 2)])
    words = "the column seen, from which versions are dated, is not before 100, at which current versions end"
    assert [(entry.reason, entry.detail) for entry in lake.entries()] == [("undated", words)] * 2
    assert Lake(event(1, 10), event(3, 100, operation)).entries() == []


def test_a_time_at_the_open_end_is_named_in_the_reason() -> None:
    day = 86_400_000_000
    history = History(validity=ByTime(), validity_columns=ValidityColumns(type=Type("date"), open_end=2))
    lake = Lake(event(1, None, time=day), event(2, None, time=2 * day, key=2), history=history)
    assert (lake.periods(1), lake.periods(2)) == ([(1, None, 1)], [])
    assert [entry.detail for entry in lake.entries()] == [
        "it is not before 1970-01-03, at which current versions end"
    ]


def test_the_same_rows_are_refused_in_any_order() -> None:
    events = [event(1, 10), event(2, None), event(3, 30, key=2), event(4, None, key=3)]
    for order in permutations(events):
        lake = Lake()
        for one in order:
            lake.put(one)
        assert (lake.periods(1), lake.periods(2), lake.periods(3)) == ([(10, None, 1)], [(30, None, 3)], [])
        assert sorted(entry.sequence for entry in lake.entries()) == [2, 4]


@pytest.mark.parametrize(("seen", "detail"), [(UNSET, MOVED), (None, NULL)])
def test_a_key_change_without_the_column_holds_both_keys(seen: Cell, detail: str) -> None:
    lake = Lake(event(1, 10), event(2, 20, key=2))
    counts = lake.put(event(3, seen, key=2, old=1))
    assert counts.quarantined == 1
    assert (lake.periods(1), lake.periods(2)) == ([(10, None, 1)], [(20, None, 2)])
    assert [(entry.key, entry.other_key, entry.detail) for entry in lake.entries()] == [('["2"]', '["1"]', detail)]


def test_a_delete_needs_no_date() -> None:
    lake = Lake(event(1, 10), event(2, 20))
    lake.put(event(3, None, DELETE), event(4, None, DELETE, key=9))
    assert (lake.periods(), lake.entries()) == ([(10, 20, 1)], [])


def test_rows_of_the_first_full_load_need_no_date_where_first_load_is_set() -> None:
    read = replace(event(1, None, READ), position=Position(1, LOAD_SEQUENCE, 1, 1))
    assert Lake(read, history=replace(BY_NUMBER, first_load=5)).periods() == [(5, None, 1)]
    assert [entry.reason for entry in Lake(read).entries()] == ["undated"]


def test_a_repaired_row_needs_a_date() -> None:
    lake = Lake(event(1, 10), event(2, None), event(3, 30))
    for seen in (None, "20"):
        (entry,) = lake.entries()
        repaired = RepairedRow(operation=UPDATE, cells={"id": "1", "a": "2", "seen": seen})
        repair_row(lake.job, [replace(entry, repaired=repaired)])
        if seen is None:
            with pytest.raises(RepairError, match="does not say from when it counts") as refused:
                release(lake.job, Settlement(repaired=lake.entries()))
            assert refused.value.found == NULL
        else:
            release(lake.job, Settlement(repaired=lake.entries()))
    assert (lake.periods(), lake.entries()) == ([(10, 20, 1), (20, 30, 2), (30, None, 3)], [])


def test_a_row_in_quarantine_counts_as_a_row_of_its_full_load() -> None:
    lake = Lake(event(1, 10), event(2, 20, key=2))
    load = [
        replace(event(3, seen, READ, key=key), position=Position(2, LOAD_SEQUENCE, 3, key))
        for key, seen in ((1, None), (3, 30))
    ]
    lake.source.loaded[NAME] = 2
    lake.put(*load)
    assert (lake.periods(1), lake.periods(2), lake.periods(3)) == ([(10, None, 1)], [(20, 30, 2)], [(30, None, 3)])


def test_a_key_with_only_an_undated_row_is_explained() -> None:
    lake = Lake(event(1, 10), event(2, UNSET))
    known = lake.table.known((1,))
    alone = replace(known, base=None, remembered=known.remembered[1:])
    assert [step.changes["a"] for step in explain(lake.table.dimension, alone).steps] == [(UNSET, 2)]


def test_a_row_of_a_load_that_is_not_complete_waits_in_quarantine_from_the_start() -> None:
    lake = Lake(event(1, 10))
    read = replace(event(3, None, READ), position=Position(2, LOAD_SEQUENCE, 3, 1))
    assert lake.put(read).quarantined == 1
    lake.source.loaded[NAME] = 2
    lake.put(replace(event(4, 40, READ, key=4), position=Position(2, LOAD_SEQUENCE, 4, 1)))
    assert (lake.periods(1), lake.periods(4)) == ([(10, None, 1)], [(40, None, 4)])
    assert [entry.reason for entry in lake.entries()] == ["undated"]


@pytest.mark.parametrize(
    ("type_", "least", "most"),
    [
        (Type("int"), -(2**31), 2**31 - 1),
        (Type("bigint"), -(2**63), 2**63 - 1),
        (Type("decimal", 3), -999, 999),
        (Type("decimal", 30), -(2**63 - 1), 2**63 - 1),  # decimals may have more digits than a number of 64 bits
        (Type("date"), -719_162, LAST_DAY),
        (Type("timestamp"), -(2**63), 2**63 - 1),
    ],
)
def test_an_instant_outside_of_the_validity_columns_is_refused(type_: Type, least: int, most: int) -> None:
    """A file may have a wider type than the table, where that does not follow."""
    history = replace(BY_NUMBER, validity_columns=ValidityColumns(type=type_))
    words = f"the column seen, from which versions are dated, lies outside of what {type_.with_article} shows"
    details = [undated_detail(event(1, 0, instant=at), history) for at in (least - 1, least, most, most + 1)]
    assert details == [words, None, None, words]
    assert undated_detail(event(1, most + 1), history) == words, "no instant can be made of it"
    assert undated_detail(event(1, 0, Operation.TRUNCATE, instant=most + 1), history) is None


@pytest.mark.parametrize(
    ("open_end", "detail"),
    [
        (LAST_DAY, "it is not before 9999-12-31, at which current versions end"),
        (None, "it lies outside of what a date shows"),
    ],
)
def test_a_time_whose_local_day_lies_behind_the_last_waits(open_end: int | None, detail: str) -> None:
    history = History(zone="Europe/Berlin", validity_columns=ValidityColumns(type=Type("date"), open_end=open_end))
    late = (LAST_DAY + 1) * 86_400_000_000 - 30 * 60_000_000
    lake = Lake(event(1, None, time=0), event(2, None, time=late, key=2), history=history)
    assert (lake.periods(1), lake.periods(2)) == ([(0, None, 1)], [])
    assert [(entry.reason, entry.detail) for entry in lake.entries()] == [("undated", detail)]
    moment = datetime(9999, 12, 31, 23, 30, tzinfo=UTC)
    by_column = replace(history, validity=ByColumn("seen"))
    assert instant_of(event(1, moment), by_column, 0) == LAST_DAY + 1


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati"])
def test_any_time_has_a_local_day(zone: str) -> None:
    """Around the years that Python has, it is that of 400 years later or earlier, when the calendar is the same."""
    cycle, day = 146_097, 86_400_000_000
    for hours in range(-30, 31):
        late = (LAST_DAY + 1) * day + hours * day // 24
        assert day_of(late, zone) == day_of(late - cycle * day, zone) + cycle
        early = -719_162 * day + hours * day // 24
        assert day_of(early, zone) == day_of(early + cycle * day, zone) - cycle
    assert day_of(2**63 - 1, zone) > day_of(-(2**63), zone)
