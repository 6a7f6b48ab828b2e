"""From when joined rows are valid, and the unknown row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from joined_laws import Lake, shapes, tables_of

from lakeward.core.dimension import TableName
from lakeward.core.events import LOAD_SEQUENCE, Position, Sequences
from lakeward.core.history.options import ByRun, History, ValidityColumns
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.dates import BEYOND_OPEN_END, change_instant, row_instant, source_time
from lakeward.core.joined.declaration import JoinDeclaration, Source
from lakeward.core.joined.join import JoinResult
from lakeward.core.joined.plan import JoinPlan
from lakeward.core.joined.rows import SourceRow
from lakeward.core.joined.touched_keys import ChangeDates, SourceChange, find_touched_keys
from lakeward.core.schema import Type

HISTORY = History()
BY_DAY = ValidityColumns(type=Type("date"))
NOON = int(datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()) * 1_000_000
DAY = date(2026, 11, 22).toordinal() - date(1970, 1, 1).toordinal()


class Dimension:
    """A customer and its address, joined whenever one of them changes."""

    def __init__(self, history: History | None = HISTORY, unknown: Mapping[str, str] | None = None) -> None:
        sources = {name: one for name, one in shapes()["dimension"].items() if name != "region"}
        joined = JoinDeclaration(name=TableName("dw", "dim"), sources=sources, history=history, unknown=unknown)
        self.lake = Lake(validate_joined(joined, tables_of()))
        self.tables: dict[str, dict[tuple[int], list[SourceRow]]] = {name: {} for name in sources}

    def change(self, source: str, time: int, key: int, /, **cells: object) -> None:
        """Set a row of a source, or without cells delete it."""
        row = [SourceRow({"id": key, "region": None, "country": None, **cells}, time)] if cells else []
        self.tables[source][(key,)] = row
        plan = self.lake.planned(ran=NOON)
        changes = {source: {(key,): SourceChange((), time)}}
        self.lake.commit(plan, self.lake.joined(plan, self.tables, changes))

    def versions(self, key: int = 1) -> list[tuple[int, int | None, object, object]]:
        found = self.lake.stored().get((key,), ())
        return [(v.valid_from, v.valid_to, v.cells["customer_name"], v.cells["address_city"]) for v in found]


def test_a_late_change_counts_from_what_a_joined_row_has_reached() -> None:
    joined = Dimension()
    joined.change("customer", 3, 1, name="Ann")
    joined.change("customer", 9, 1, name="Bea")
    joined.change("address", 5, 1, city="Rome")
    assert joined.versions() == [(3, 9, "Ann", None), (9, None, "Bea", "Rome")]


@pytest.mark.parametrize("instants", [(9, 5), (5, 9)])
def test_several_changes_are_dated_by_the_last_of_them_in_any_order(instants: tuple[int, int]) -> None:
    joining = validate_joined(JoinDeclaration(name=TableName("dw", "t"), sources=shapes()["summary"]), tables_of())
    tables = {"customer": {(1,): [SourceRow({"id": 1, "region": None})]}, "orders": {}, "region": {}}
    changes = {(key,): SourceChange([{"customer": 1}], instant) for key, instant in enumerate(instants)}
    assert find_touched_keys(joining, {"orders": changes}, tables) == {(1,): ChangeDates(9)}


@pytest.mark.parametrize(
    ("history", "before", "after"),
    [
        (HISTORY, [(3, None, 4, None)], [(3, 5, 4, None), (5, None, 7, None)]),
        (None, [(0, None, 4, None)], [(0, None, 7, None)]),
    ],
)
def test_a_row_with_the_key_of_the_unknown_row_is_shown_in_its_place_while_it_exists(
    history: History | None, before: object, after: object
) -> None:
    joined = Dimension(history, unknown={"customer_name": "7"})
    joined.change("customer", 3, -1, name=4)
    assert joined.versions(-1) == before
    joined.change("customer", 5, -1)
    assert joined.versions(-1) == after


def test_over_time_the_unknown_row_begins_in_1970_whatever_was_before() -> None:
    sources = {"customer": shapes()["dimension"]["customer"]}
    joined = JoinDeclaration(name=TableName("dw", "dim"), sources=sources, history=HISTORY, unknown={})
    lake = Lake(validate_joined(joined, tables_of(HISTORY)))
    rows = {
        (key,): [SourceRow({"id": key, "name": 4, "region": None}, None, -9, end)]
        for key, end in ((1, None), (-1, -5))
    }
    lake.commit(plan := lake.planned(), lake.joined(plan, {"customer": rows}, {}))
    found = {key: [(one.valid_from, one.valid_to) for one in of] for key, of in lake.stored().items()}
    assert found == {(1,): [(-9, None)], (-1,): [(-9, -5), (0, None)]}


NEVER = 2_932_896
"""9999-12-31, as a day."""


def over_time(shown: ValidityColumns, *customers: SourceRow) -> tuple[Lake, JoinPlan, JoinResult]:
    """Return what joins versions of the customer 1, and one of another, in a table that is empty."""
    sources = {"customer": shapes()["dimension"]["customer"]}
    joined = JoinDeclaration(name=TableName("dw", "dim"), sources=sources, history=History(validity_columns=shown))
    lake = Lake(validate_joined(joined, tables_of(History(validity_columns=BY_DAY))))
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
def test_a_key_with_an_instant_at_the_open_end_is_skipped_with_a_reason(
    end: int, versions: list[SourceRow], begins: str
) -> None:
    lake, plan, written = over_time(replace(BY_DAY, open_end=end, is_current=None), *versions)
    assert written.skipped == {(1,): f"{BEYOND_OPEN_END} (valid_from = {begins})"}
    lake.commit(plan, written)
    assert [*lake.rows] == [((2,), 7)]


def test_an_instant_before_the_open_end_is_shown() -> None:
    never = [customer(1, 5, NEVER), customer(2, NEVER, None)]
    assert [*over_time(BY_DAY, *never)[2].rows] == [((1,), 5), ((1,), NEVER), ((2,), 7)]
    assert not over_time(BY_DAY, *never)[2].skipped
    before = [customer(1, 5, NEVER - 1), customer(2, NEVER - 1, None)]
    assert not over_time(replace(BY_DAY, open_end=NEVER), *before)[2].skipped
    alike = [customer(1, 5, NEVER), customer(1, NEVER, None)]
    assert not over_time(replace(BY_DAY, open_end=NEVER), *alike)[2].skipped, "nothing begins there"


SEEN = Source(table=TableName("shop", "customer"), validity="seen")
PLAIN = Source(table=TableName("shop", "customer"))


SEEN_AT_NOON = {"seen": datetime(2026, 11, 22, 12, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("source", "shown", "cells", "time", "instant"),
    [
        (PLAIN, ValidityColumns(), SEEN_AT_NOON, 7, 7),
        (SEEN, ValidityColumns(), SEEN_AT_NOON, 7, NOON),
        (SEEN, BY_DAY, SEEN_AT_NOON, 7, DAY),
        (PLAIN, BY_DAY, SEEN_AT_NOON, 7, 0),
        (SEEN, ValidityColumns(), None, 7, 7),  # it was deleted
        (PLAIN, ValidityColumns(), {}, None, None),
        (SEEN, ValidityColumns(), {"seen": None}, 7, None),
    ],
)
def test_a_row_counts_from_its_validity_column_or_its_source_time(
    source: Source,
    shown: ValidityColumns,
    cells: Mapping[str, object] | None,
    time: int | None,
    instant: int | None,
) -> None:
    assert row_instant(History(validity_columns=shown, first_load=-5), source, cells, time) == instant


@pytest.mark.parametrize(
    ("sequence", "sequences", "time"),
    [
        (7, Sequences.TIMES, 7),
        (0, Sequences.TIMES, None),
        (LOAD_SEQUENCE, Sequences.TIMES, None),
        (7, Sequences.PLACES, None),
    ],
)
def test_a_row_has_a_source_time_unless_a_full_load_brought_it(
    sequence: int, sequences: Sequences, time: int | None
) -> None:
    assert source_time(Position(1, sequence, 1, 1), sequences) == time


@pytest.mark.parametrize(
    ("shown", "seen", "instant"),
    [
        (BY_DAY, date(9999, 12, 30), 2932895),
        (BY_DAY, date(9999, 12, 31), 2932896),
        (replace(BY_DAY, open_end=2932896), date(9999, 12, 30), 2932895),
        (replace(BY_DAY, open_end=2932896), date(9999, 12, 31), None),
        (ValidityColumns(type=Type("int")), 2**31 - 1, 2**31 - 1),
        (ValidityColumns(type=Type("int")), 2**31, None),
    ],
)
def test_an_instant_at_which_no_version_may_begin_dates_nothing(
    shown: ValidityColumns, seen: object, instant: int | None
) -> None:
    assert row_instant(History(validity_columns=shown), SEEN, {"seen": seen}, 7) == instant


@pytest.mark.parametrize(
    ("history", "instant", "is_first", "at"),
    [
        (HISTORY, 7, False, 7),
        (HISTORY, 7, True, 7),
        (HISTORY, None, False, NOON),
        (History(first_load=-5), 7, True, -5),
        (History(first_load=-5), 7, False, 7),
        (History(validity=ByRun(), validity_columns=BY_DAY), 7, False, DAY),
        (History(validity=ByRun(), validity_columns=BY_DAY, first_load=-5), None, True, -5),
        (History(validity=ByRun(), validity_columns=BY_DAY, first_load=-5), 7, False, DAY),
    ],
)
def test_a_joined_row_counts_from_when_its_rows_do_or_from_the_run(
    history: History, instant: int | None, is_first: bool, at: int
) -> None:
    assert change_instant(instant, history, NOON, is_first=is_first) == at
