"""From when joined rows are valid, and the row that stands for whatever has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from joined_laws import Lake, shapes, tables_of

from lakeward.core.dimension import TableName
from lakeward.core.events import LOAD_SEQUENCE, Position, Sequences
from lakeward.core.history.options import ByRun, History, Shown
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.dates import BEYOND_OPEN_END, change_instant, row_instant, source_time
from lakeward.core.joined.declaration import Joined, Source
from lakeward.core.joined.join import JoinResult
from lakeward.core.joined.plan import JoinPlan
from lakeward.core.joined.rows import SourceRow
from lakeward.core.joined.touched_keys import ChangeDates, SourceChange, find_touched_keys
from lakeward.core.schema import Type

HISTORY = History()
BY_DAY = Shown(type=Type("date"))
NOON = int(datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()) * 1_000_000
DAY = date(2026, 11, 22).toordinal() - date(1970, 1, 1).toordinal()


class Dimension:
    """A customer and its address, joined whenever one of them changes."""

    def __init__(self, history: History | None = HISTORY, unknown: Mapping[str, str] | None = None) -> None:
        sources = {name: one for name, one in shapes()["dimension"].items() if name != "region"}
        joined = Joined(name=TableName("dw", "dim"), sources=sources, history=history, unknown=unknown)
        self.lake = Lake(validate_joined(joined, tables_of()))
        self.tables: dict[str, dict[tuple[int], list[SourceRow]]] = {name: {} for name in sources}

    def take(self, source: str, time: int, key: int, /, **cells: object) -> None:
        """Put a row of a source in place, or without cells delete it."""
        row = [SourceRow({"id": key, "region": None, "country": None, **cells}, time)] if cells else []
        self.tables[source][(key,)] = row
        plan = self.lake.planned(ran=NOON)
        changes = {source: {(key,): SourceChange((), time)}}
        self.lake.commit(plan, self.lake.joined(plan, self.tables, changes))

    def versions(self, key: int = 1) -> list[tuple[int, int | None, object, object]]:
        found = self.lake.standing().get((key,), ())
        return [(v.valid_from, v.valid_to, v.cells["customer_name"], v.cells["address_city"]) for v in found]


def test_a_joined_row_begins_at_the_greatest_time_of_its_rows_whichever_came_last() -> None:
    joined = Dimension()
    joined.take("address", 5, 1, city="Rome")
    joined.take("customer", 3, 1, name="Ann")
    assert joined.versions() == [(5, None, "Ann", "Rome")]


def test_a_row_that_went_changes_the_joined_row_when_it_went() -> None:
    joined = Dimension()
    joined.take("customer", 3, 1, name="Ann")
    joined.take("address", 5, 1, city="Rome")
    joined.take("address", 8, 1)
    joined.take("customer", 9, 1)
    assert joined.versions() == [(3, 5, "Ann", None), (5, 8, "Ann", "Rome"), (8, 9, "Ann", None)]


def test_what_several_changes_touch_is_dated_by_the_last_of_them_in_any_order() -> None:
    joining = validate_joined(Joined(name=TableName("dw", "t"), sources=shapes()["summary"]), tables_of())
    tables = {"customer": {(1,): [SourceRow({"id": 1, "region": None})]}, "orders": {}, "region": {}}
    of_one = {"customer": 1}
    for instants in [(9, 5), (5, 9)]:
        changes = {(key,): SourceChange([of_one], instant) for key, instant in enumerate(instants)}
        assert find_touched_keys(joining, {"orders": changes}, tables) == {(1,): ChangeDates(9)}


def test_time_does_not_run_back_behind_what_a_joined_row_has_reached() -> None:
    joined = Dimension()
    joined.take("customer", 3, 1, name="Ann")
    joined.take("customer", 9, 1, name="Bea")
    joined.take("address", 5, 1, city="Rome")
    assert joined.versions() == [(3, 9, "Ann", None), (9, None, "Bea", "Rome")]


def test_the_unknown_row_is_there_from_the_beginning() -> None:
    joined = Dimension(unknown={"customer_name": "7"})
    joined.take("customer", 3, 1, name=4)
    assert joined.versions(-1) == [(0, None, 7, None)]
    assert Dimension(unknown=None).versions(-1) == []


def test_a_row_of_its_key_takes_the_place_of_the_unknown_row_for_as_long_as_it_is_there() -> None:
    joined = Dimension(unknown={})
    joined.take("customer", 3, -1, name=4)
    joined.take("customer", 5, -1)
    assert joined.versions(-1) == [(3, 5, 4, None), (5, None, None, None)]
    mirror = Dimension(history=None, unknown={})
    mirror.take("customer", 3, -1, name=4)
    assert mirror.versions(-1) == [(0, None, 4, None)]
    mirror.take("customer", 5, -1)
    assert mirror.versions(-1) == [(0, None, None, None)]


def test_over_time_the_unknown_row_begins_in_1970_whatever_was_before() -> None:
    sources = {"customer": shapes()["dimension"]["customer"]}
    joined = Joined(name=TableName("dw", "dim"), sources=sources, history=HISTORY, unknown={})
    lake = Lake(validate_joined(joined, tables_of(HISTORY)))
    rows = {
        (key,): [SourceRow({"id": key, "name": 4, "region": None}, None, -9, end)]
        for key, end in ((1, None), (-1, -5))
    }
    lake.commit(plan := lake.planned(), lake.joined(plan, {"customer": rows}, {}))
    found = {key: [(one.valid_from, one.valid_to) for one in of] for key, of in lake.standing().items()}
    assert found == {(1,): [(-9, None)], (-1,): [(-9, -5), (0, None)]}


NEVER = 2_932_896
"""9999-12-31, as a day."""


def over_time(shown: Shown, *customers: SourceRow) -> tuple[Lake, JoinPlan, JoinResult]:
    """Return what joins versions of the customer 1, and one of another, in a table that is empty."""
    sources = {"customer": shapes()["dimension"]["customer"]}
    joined = Joined(name=TableName("dw", "dim"), sources=sources, history=History(shown=shown))
    lake = Lake(validate_joined(joined, tables_of(History(shown=BY_DAY))))
    other = SourceRow({"id": 2, "name": 4, "region": None}, None, 7, None)
    plan = lake.planned()
    return lake, plan, lake.joined(plan, {"customer": {(1,): customers, (2,): [other]}}, {})


def customer(name: int, begins: int, ends: int | None) -> SourceRow:
    return SourceRow({"id": 1, "name": name, "region": None}, None, begins, ends)


@pytest.mark.parametrize("end", [NEVER, NEVER - 1])
@pytest.mark.parametrize(
    ("versions", "begins"),
    [
        ([customer(1, 5, NEVER), customer(2, NEVER, None)], "1970-01-06"),
        ([customer(1, 5, NEVER)], "1970-01-06"),
        ([customer(1, NEVER, None)], "9999-12-31"),
        ([customer(1, 5, 6), customer(2, 6, NEVER)], "1970-01-07"),
    ],
)
def test_a_key_of_which_a_source_says_never_is_left_with_a_reason(
    end: int, versions: list[SourceRow], begins: str
) -> None:
    lake, plan, written = over_time(replace(BY_DAY, open_end=end, is_current=None), *versions)
    assert written.skipped == {(1,): f"{BEYOND_OPEN_END} (valid_from = {begins})"}
    lake.commit(plan, written)
    assert [*lake.rows] == [((2,), 7)]


def test_what_a_source_says_of_never_is_taken_where_it_can_be_shown() -> None:
    never = [customer(1, 5, NEVER), customer(2, NEVER, None)]
    assert [*over_time(BY_DAY, *never)[2].rows] == [((1,), 5), ((1,), NEVER), ((2,), 7)]
    assert not over_time(BY_DAY, *never)[2].skipped
    before = [customer(1, 5, NEVER - 1), customer(2, NEVER - 1, None)]
    assert not over_time(replace(BY_DAY, open_end=NEVER), *before)[2].skipped
    alike = [customer(1, 5, NEVER), customer(1, NEVER, None)]
    assert not over_time(replace(BY_DAY, open_end=NEVER), *alike)[2].skipped, "nothing begins there"


SEEN = Source(table=TableName("shop", "customer"), validity="seen")
PLAIN = Source(table=TableName("shop", "customer"))


@pytest.mark.parametrize(
    ("source", "shown", "instant"),
    [(PLAIN, Shown(), 7), (SEEN, Shown(), NOON), (SEEN, BY_DAY, DAY), (PLAIN, BY_DAY, 0)],
)
def test_a_row_counts_from_its_validity_column_or_its_source_time(
    source: Source, shown: Shown, instant: int
) -> None:
    history = History(shown=shown, first_load=-5)
    assert row_instant(history, source, {"seen": datetime(2026, 11, 22, 12, tzinfo=UTC)}, 7) == instant


@pytest.mark.parametrize(
    ("sequence", "sequences", "time"),
    [
        (7, Sequences.TIMES, 7),
        (0, Sequences.TIMES, None),
        (LOAD_SEQUENCE, Sequences.TIMES, None),
        (7, Sequences.PLACES, None),
    ],
)
def test_a_row_has_its_source_time_in_its_place_unless_a_load_brought_it(
    sequence: int, sequences: Sequences, time: int | None
) -> None:
    assert source_time(Position(1, sequence, 1, 1), sequences) == time


def test_a_deleted_row_counts_from_the_time_of_its_delete() -> None:
    assert row_instant(HISTORY, SEEN, None, 7) == 7


@pytest.mark.parametrize(
    ("shown", "seen", "instant"),
    [
        (BY_DAY, date(9999, 12, 30), 2932895),
        (BY_DAY, date(9999, 12, 31), 2932896),
        (replace(BY_DAY, open_end=2932896), date(9999, 12, 30), 2932895),
        (replace(BY_DAY, open_end=2932896), date(9999, 12, 31), None),
        (Shown(type=Type("int")), 2**31 - 1, 2**31 - 1),
        (Shown(type=Type("int")), 2**31, None),
    ],
)
def test_what_lies_behind_all_versions_dates_none(shown: Shown, seen: object, instant: int | None) -> None:
    assert row_instant(History(shown=shown), SEEN, {"seen": seen}, 7) == instant


def test_a_row_without_any_time_has_none() -> None:
    assert row_instant(HISTORY, PLAIN, {}, None) is None
    assert row_instant(HISTORY, SEEN, {"seen": None}, 7) is None


@pytest.mark.parametrize(
    ("history", "instant", "is_first", "at"),
    [
        (HISTORY, 7, False, 7),
        (HISTORY, 7, True, 7),
        (HISTORY, None, False, NOON),
        (History(first_load=-5), 7, True, -5),
        (History(first_load=-5), 7, False, 7),
        (History(validity=ByRun(), shown=BY_DAY), 7, False, DAY),
        (History(validity=ByRun(), shown=BY_DAY, first_load=-5), None, True, -5),
        (History(validity=ByRun(), shown=BY_DAY, first_load=-5), 7, False, DAY),
    ],
)
def test_a_joined_row_counts_from_when_its_rows_do_or_from_the_run(
    history: History, instant: int | None, is_first: bool, at: int
) -> None:
    assert change_instant(instant, history, NOON, is_first=is_first) == at
