"""When versions end of which no row says so: by a full load that lacks them, a truncate, or a delete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memory_jobs import DELETE, INSERT, NAME, READ, UPDATE, MemoryShop, columns, event, item

from lakeward.adapters.memory import MemorySource
from lakeward.core.dimension import ORDERED, Lateness, Sequences, Unbounded, Within
from lakeward.core.errors import ConfigError
from lakeward.core.events import LOAD_SEQUENCE, Operation
from lakeward.core.history.options import ByColumn, ByRun, History, Validity, ValidityColumns
from lakeward.core.history.reloads import find_end_instants
from lakeward.core.ledger.selection import Limits
from lakeward.core.operations.reload import complete, plan_reload, record_decision
from lakeward.core.operations.truncate import truncate_at
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.schema import Type

BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600_000_000
BY_COLUMN = History(validity=ByColumn("at"))
BY_NUMBER = History(validity=ByColumn("n"), validity_columns=ValidityColumns(type=Type("bigint")))
BY_DAY = History(validity=ByColumn("at"), validity_columns=ValidityColumns(type=Type("date")))
SCHEMA = columns(id="int", at="timestamp", n="int")

Periods = list[tuple[float, float | None]]


def row_of(hour: int, operation: Operation, sequence: int, key: int, order: int, row: int, time: int | None) -> Any:
    """Return a change whose columns say an hour."""
    change = event(operation, sequence, key, at=order, row=row, time=time)
    return replace(change, cells={"id": key, "at": BEGIN + timedelta(hours=hour), "n": hour})


class Shop(MemoryShop):
    """One table, whose objects say what was done at which hour, by column `at` as well; runs have a clock."""

    def __init__(self, history: History, lateness: Lateness = ORDERED, sequences: Any = Sequences.TIMES) -> None:
        source = MemorySource(Limits(files=1), lateness=lateness, sequences=sequences)
        super().__init__(item(SCHEMA, history=history, lateness=lateness, sequences=sequences), source, clock=0)
        self.orders = 0

    def put(self, operation: Operation, key: int, hour: int, *, time: int | None = None, place: int = 0) -> None:
        """Deliver one change, at an hour of its column; of a commit time as well where it has one."""
        self.orders += 1
        moment = None if time is None else time * HOUR
        change = row_of(hour, operation, place if moment is None else moment, key, self.orders, 1, moment)
        self.source.put(NAME, self.orders, [change], modified=self.orders)

    def load(self, rows: Mapping[int, int], ran: int, time: int | None = None) -> None:
        """Take a full load with these keys and hours of their column at an hour; it may have a time of its own."""
        self.clock = ran * HOUR
        is_again = self.table.progress.batch > 0
        if is_again:
            record_decision(self.job(), plan_reload(self.job(), by="me", reason=None, at=self.clock).request)
        moment = None if time is None else time * HOUR
        events = [
            row_of(hour, READ, LOAD_SEQUENCE, key, 1, number, moment)
            for number, (key, hour) in enumerate(rows.items(), 1)
        ]
        self.source.put(NAME, 1, events, modified=self.clock)
        if is_again:
            complete(self.job(), by="me", at=self.clock)
        apply_changes(self.job())

    def run_at(self, hour: int) -> None:
        self.clock = hour * HOUR
        self.run()

    def truncate(self, moment: str | int, hour: int) -> Any:
        self.clock = hour * HOUR
        words = moment if isinstance(moment, str) else (BEGIN + timedelta(hours=moment)).isoformat()
        return truncate_at(self.job(), words, by="me", reason=None, at=self.clock)

    @property
    def rows(self) -> Mapping[int, Periods]:
        """The versions of each key, by hours, or in the unit of their history."""
        assert self.dimension.history is not None
        unit = HOUR if self.dimension.history.validity_columns.type.name == "timestamp" else 1
        return {
            key[0]: [(v.valid_from / unit, None if v.valid_to is None else v.valid_to / unit) for v in row.versions]
            for key, row in self.target.tables[NAME].rows.items()
        }


# A full load.


@pytest.mark.parametrize(
    ("history", "time", "end"),
    [
        (BY_COLUMN, None, 20),  # the run: nothing else is known
        (BY_COLUMN, 15, 15),
        (BY_COLUMN, 3, 20),
        (History(), 1, 20),  # whose time is not that of the load
        (History(), 15, 15),
    ],
)
def test_a_row_missing_from_a_load_ends_at_the_time_of_the_load_or_of_the_run(
    history: History, time: int | None, end: int
) -> None:
    shop = Shop(history)
    shop.load({1: 1, 2: 5}, 6, time if history is BY_COLUMN else 5)
    shop.load({1: 1}, 20, time)
    assert shop.rows[2] == [(5, end)]
    assert shop.rows[1][-1][1] is None


def test_a_row_missing_from_a_load_ends_at_the_newest_number_of_the_load() -> None:
    shop = Shop(BY_NUMBER)
    shop.load({1: 1, 2: 5}, 6)
    shop.load({1: 7}, 20, 15)
    assert shop.rows == {1: [(1, 7), (7, None)], 2: [(5, 7)]}
    shop.load({3: 7}, 30, 25)
    assert shop.rows == {1: [(1, 7)], 2: [(5, 7)], 3: [(7, None)]}


def test_of_several_states_of_a_day_the_last_counts_where_times_date_versions() -> None:
    """A load that is written anew on the day on which it was taken takes the place of the first, at any hour."""
    shop = Shop(History(validity_columns=ValidityColumns(type=Type("date"))))
    shop.load({1: 1, 2: 1}, 6, 6)
    shop.load({1: 1}, 60, 7)
    assert shop.rows == {1: [(0, None)]}
    days = Shop(BY_DAY)
    days.load({1: 1, 2: 1}, 6)
    days.load({1: 1}, 60)
    assert days.rows == {1: [(0, None)], 2: [(0, 2)]}


@pytest.mark.parametrize(
    ("validity", "newest", "reached", "end"),
    [
        (ByColumn("at"), 5, 4, 5),
        (ByColumn("at"), 5, 5, 7),
        (ByColumn("at"), 5, 7, 9),
        (ByColumn("at"), 5, 9, None),
        (ByColumn("at"), None, 5, 7),
        (History().validity, 5, 5, 5),
        (History().validity, 5, 6, 9),
        (ByRun(), 9, 9, 9),
        (ByRun(), None, 5, 9),
    ],
)
def test_a_key_ends_at_the_first_instant_after_the_one_that_it_has_reached(
    validity: Validity, newest: int | None, reached: int, end: int | None
) -> None:
    assert find_end_instants(History(validity=validity), newest, 7, 9).after(reached) == end


def test_times_from_a_column_do_not_say_when_a_load_was_made() -> None:
    """Rows that were written at once have one time in the next load, too; what that lacks was there until then."""
    shop = Shop(History())
    shop.source.own_times = True
    shop.load({1: 5, 2: 5}, 6, 5)
    shop.load({1: 5}, 20, 5)
    assert shop.rows == {1: [(5, None)], 2: [(5, 20)]}
    assert find_end_instants(History(), 5, 5, 9, own_times=True).after(5) == 9


# Truncates and deletes.


@pytest.mark.parametrize("lateness", [ORDERED, Unbounded()], ids=repr)
@pytest.mark.parametrize(("moment", "end"), [("now", 20), (5, 5)])
@pytest.mark.parametrize("known", [False, True])
def test_a_truncate_ends_versions_at_the_moment_that_the_operator_names(
    lateness: Lateness, moment: str | int, end: int, known: bool
) -> None:
    shop = Shop(replace(BY_COLUMN, is_bitemporal=known), lateness)
    shop.put(INSERT, 1, 1, time=1)
    shop.put(INSERT, 2, 2, time=2)
    shop.run_at(3)
    report = shop.truncate(moment, 20)
    assert shop.rows == {1: [(1, end)], 2: [(2, end)]}
    assert (report.progress.current, report.progress.low_watermark) == (0, None)


def test_a_truncate_in_the_future_is_refused() -> None:
    """Remembered for good, it would take away whatever changes until then; clocks may differ by an hour."""
    shop = Shop(History(), Unbounded())
    shop.put(INSERT, 1, 1, time=1)
    shop.run_at(3)
    with pytest.raises(ConfigError, match="is yet to come"):
        shop.truncate(30, 20)
    assert shop.rows == {1: [(1, None)]}
    assert shop.truncate(21, 20).counts.applied == 1


def test_a_truncate_of_a_source_without_times_ends_versions_at_the_run() -> None:
    shop = Shop(BY_COLUMN, sequences=Sequences.UNIQUE)
    shop.put(INSERT, 1, 1, place=10)
    shop.run_at(3)
    shop.put(UPDATE, 1, 5, place=30)
    shop.truncate("00000002", 20)
    assert shop.rows == {1: [(1, 20)]}


def test_a_truncate_ends_versions_at_the_number_that_their_key_has_reached() -> None:
    shop = Shop(BY_NUMBER)
    shop.put(INSERT, 1, 1, time=1)
    shop.put(UPDATE, 1, 4, time=4)
    shop.run_at(5)
    shop.truncate("now", 20)
    assert shop.rows == {1: [(1, 4)]}


@pytest.mark.parametrize(("moment", "end"), [(5, 5), ("00000003", 8)])
@pytest.mark.parametrize("is_applied", [False, True])
def test_versions_behind_the_moment_of_a_truncate_stay(moment: str | int, end: int, is_applied: bool) -> None:
    shop = Shop(History(), Unbounded())
    shop.put(INSERT, 1, 1, time=1)
    shop.put(INSERT, 2, 2, time=2)
    shop.run_at(3)
    shop.put(UPDATE, 1, 8, time=8)
    if is_applied or moment == 5:
        shop.run_at(9)
    shop.truncate(moment, 20)
    shop.run_at(22)
    assert shop.rows == {1: [(1, end), (8, None)], 2: [(2, end)]}


def test_changes_after_a_truncate_now_count_from_then_on() -> None:
    """Who says `now` says that nothing was written since: what was counts from then."""
    shop = Shop(History(), Unbounded())
    shop.put(INSERT, 1, 1, time=1)
    shop.run_at(3)
    shop.truncate("now", 20)
    shop.put(INSERT, 1, 6, time=6)
    shop.put(INSERT, 2, 6, time=6)
    shop.run_at(22)
    assert shop.rows == {1: [(1, 20), (20, None)], 2: [(6, None)]}


def test_a_truncate_of_an_operator_makes_no_event_late() -> None:
    shop = Shop(History(), Within(3 * HOUR))
    shop.put(INSERT, 1, 2, time=2)
    shop.put(INSERT, 2, 4, time=4)
    shop.run_at(5)
    shop.truncate("now", 20)
    shop.put(INSERT, 3, 1, time=1)
    shop.run_at(22)
    assert shop.rows == {1: [(2, 20)], 2: [(4, 20)], 3: [(1, 20)]}


def test_a_second_truncate_is_not_a_copy_of_the_first() -> None:
    """What an operator says is of no object: no object of that order was delivered before."""
    shop = Shop(History(), Unbounded())
    shop.put(INSERT, 1, 1, time=1)
    shop.run_at(3)
    assert shop.truncate(10, 20).counts.applied == 1
    assert shop.truncate(5, 30).counts.applied == 1
    assert shop.truncate(5, 40).counts.duplicates == 1
    assert shop.rows == {1: [(1, 5)]}


@pytest.mark.parametrize(("time", "end"), [(None, 20), (7, 7)])
def test_a_delete_ends_a_version_at_its_commit_time_or_at_the_run(time: int | None, end: int) -> None:
    shop = Shop(BY_COLUMN)
    shop.put(INSERT, 1, 5, time=time and 6)
    shop.put(INSERT, 2, 5, time=time and 6)
    shop.run_at(10)
    shop.put(DELETE, 1, 5, time=time)
    shop.run_at(20)
    assert shop.rows == {1: [(5, end)], 2: [(5, None)]}


def test_an_older_change_does_not_move_the_end_that_a_run_gave_a_version() -> None:
    shop = Shop(BY_COLUMN, Unbounded())
    shop.put(INSERT, 1, 1, place=10)
    shop.run_at(10)
    shop.put(DELETE, 1, 1, place=30)
    shop.run_at(20)
    shop.put(UPDATE, 1, 4, place=20)
    shop.run_at(30)
    assert shop.rows == {1: [(1, 4), (4, 20)]}
