"""Which date a change has in a joined history of mirrors: that of its source rows, or that of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from joined_laws import Lake, shapes, tables_of

from lakeward.core.dimension import TableName
from lakeward.core.history.options import History
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import JoinDeclaration, JoinType, Source
from lakeward.core.joined.rows import SourceRow
from lakeward.core.joined.touched_keys import SourceChange

NONE: Mapping[str, object] = {"region": None, "country": None, "city": None, "name": None}
NAMES = ("customer_name", "address_city")


class Joint:
    """A joined history of mirrors, with the rows and times that these have; numbers stand for names."""

    def __init__(self, shape: str = "dimension", **changed: Source) -> None:
        sources = {**shapes()[shape], **changed}
        joined = JoinDeclaration(name=TableName("dw", "dim"), sources=sources, history=History())
        self.lake = Lake(validate_joined(joined, tables_of()))
        self.tables: dict[str, dict[tuple[int], list[SourceRow]]] = {name: {} for name in sources}

    def put(self, name: str, time: int | None, key: int = 1, /, **cells: object) -> None:
        """Set a row that has this time, or none."""
        own = "code" if name == "region" else "id"
        self.tables[name][(key,)] = [SourceRow({**NONE, own: key, **cells}, time)]

    def join(self, ran: int, *silent: str, is_redeclared: bool = False, **touched: int | None) -> None:
        """Join: sources list no changes, or they `touched` the row with the key 1 at a time."""
        plan = self.lake.planned(ran, whole=bool(silent) or is_redeclared)
        plan = replace(plan, incomplete_sources=frozenset(silent), is_redeclared=is_redeclared)
        changes = {name: {(1,): SourceChange((), time)} for name, time in touched.items()}
        self.lake.commit(plan, self.lake.joined(plan, self.tables, changes))

    def redeclare(self, **changed: Source) -> None:
        joined = self.lake.joining.joined
        self.lake.joining = validate_joined(
            replace(joined, sources={**joined.sources, **changed}), tables_of()
        )

    def versions(self, *names: str) -> list[tuple[object, ...]]:
        """Return the versions of the key 1, with some of their columns."""
        found = self.lake.stored()[(1,)]
        return [(one.valid_from, one.valid_to, *[one.cells[name] for name in names]) for one in found]


def ann_in_bonn(customer: int | None = 1, address: int | None = 2) -> Joint:
    """Return a customer and an address, joined for the first time at 10."""
    joint = Joint()
    joint.put("customer", customer, name=100)
    joint.put("address", address, city=200)
    joint.join(10)
    return joint


def test_a_row_that_left_no_date_ends_with_the_run_and_not_at_the_date_of_another_row() -> None:
    """The customer was changed and joined before, in nothing that the joined table shows."""
    joint = ann_in_bonn()
    joint.put("customer", 12, name=100)
    joint.join(15, customer=12)
    joint.tables["address"].clear()
    joint.join(20, "address")
    assert joint.versions(*NAMES) == [(2, 20, 100, 200), (20, None, 100, None)]


@pytest.mark.parametrize("silent", [(), ("address",)])
def test_a_row_that_a_full_load_changed_counts_from_the_run(silent: tuple[str, ...]) -> None:
    joint = ann_in_bonn(address=None)
    joint.put("address", None, city=201)
    joint.join(20, *silent, **({} if silent else {"address": None}))
    assert joint.versions(*NAMES) == [(1, 20, 100, 200), (20, None, 100, 201)]


def test_a_change_without_a_time_is_not_dated_by_another_change_of_the_same_row() -> None:
    joint = ann_in_bonn(address=None)
    joint.put("customer", 19, name=101)
    joint.put("address", None, city=202)
    joint.join(30, customer=19, address=None)
    assert joint.versions(*NAMES) == [(1, 30, 100, 200), (30, None, 101, 202)]


def test_a_change_without_a_time_that_changes_no_value_leaves_another_change_its_date() -> None:
    joint = ann_in_bonn(address=None)
    joint.put("customer", 12, name=101)
    joint.join(20, customer=12, address=None)
    assert joint.versions(*NAMES) == [(1, 12, 100, 200), (12, None, 101, 200)]


def test_a_change_keeps_its_date_where_another_source_lists_no_changes() -> None:
    """A late one as well: of several states at one instant the last counts."""
    joint = ann_in_bonn()
    for time, name in ((12, 101), (11, 102)):
        joint.put("customer", time, name=name)
        joint.join(20, "address", customer=time)
    assert joint.versions(*NAMES) == [(2, 12, 100, 200), (12, None, 102, 200)]


def test_a_row_that_exists_dates_itself_where_its_source_lists_no_changes() -> None:
    joint = ann_in_bonn()
    for ran, city in ((20, 201), (30, 202)):
        joint.put("address", 12, city=city)
        joint.join(ran, "address")
    assert joint.versions(*NAMES) == [(2, 12, 100, 200), (12, None, 100, 202)]


@pytest.mark.parametrize(
    ("time", "versions"),
    [
        (2, [(2, None, 100, 200)]),
        (None, [(1, 5, 100, 200), (5, 20, 100, 201), (20, None, 100, 200)]),
    ],
)
def test_a_row_that_a_rollback_brought_back_puts_the_open_version_right_if_it_has_a_time(
    time: int | None, versions: list[tuple[object, ...]]
) -> None:
    joint = ann_in_bonn(address=time)
    joint.put("address", 5, city=201)
    joint.join(10, address=5)
    joint.put("address", time, city=200)
    joint.join(20, "address")
    assert joint.versions(*NAMES) == versions


def test_a_removed_row_of_a_group_is_not_dated_by_the_rows_that_remain() -> None:
    joint = Joint("summary")
    joint.put("customer", 1, name=100)
    for key, time in ((1, 3), (2, 4)):
        joint.put("orders", time, key, customer=1, amount=5, at=0)
    joint.join(10)
    del joint.tables["orders"][(1,)]
    joint.join(20, "orders")
    joint.put("orders", 22, 3, customer=1, amount=5, at=0)
    joint.join(30, "orders")
    assert joint.versions("orders_count") == [(4, 20, 2), (20, 22, 1), (22, None, 2)]


def test_a_row_without_a_time_dates_nothing_that_is_found_by_it() -> None:
    """The customer was loaded anew with another region, and of the region itself nothing is new."""
    joint = Joint()
    for code in (1, 2):
        joint.put("region", code, code, title=code)
    for ran, silent in ((10, ()), (20, ("customer",))):
        joint.put("customer", None, name=100, region=ran // 10)
        joint.join(ran, *silent)
    assert joint.versions("region_title") == [(1, 20, 1), (20, None, 2)]


def test_a_row_without_a_time_dates_nothing_that_is_found_by_way_of_another_row() -> None:
    """The order is that of another customer now, who has the same name in another country."""
    joint = Joint("deep")
    for key in (1, 2):
        joint.put("customer", key, key, name=100, region=key)
        joint.put("address", key, key, country=key, city=200 + key)
    joint.put("orders", None, customer=1, amount=5)
    joint.join(10)
    joint.put("orders", None, customer=2, amount=5)
    joint.join(20, orders=None)
    assert joint.versions("customer_name", "city") == [(1, 20, 100, 201), (20, None, 100, 202)]


def test_a_row_that_comes_again_without_a_time_was_away_in_between() -> None:
    joint = ann_in_bonn(customer=None)
    customer = joint.tables["customer"].pop((1,))
    joint.join(20, "customer")
    joint.tables["customer"][(1,)] = customer
    joint.join(30, "customer")
    assert joint.versions(*NAMES) == [(2, 20, 100, 200), (30, None, 100, 200)]


def test_a_row_ends_with_the_run_where_a_row_that_it_needs_left_no_date() -> None:
    joint = Joint(address=replace(shapes()["dimension"]["address"], way=JoinType.INNER))
    joint.put("customer", 1, name=100)
    joint.put("address", 2, city=200)
    joint.join(10)
    joint.put("customer", 5, name=100)
    joint.tables["address"].clear()
    joint.join(20, "address", customer=5)
    assert joint.versions(*NAMES) == [(2, 20, 100, 200)]


@pytest.mark.parametrize("touched", [None, 12])
def test_another_declaration_counts_from_the_run_with_all_that_changed_in_the_same_row(touched: int | None) -> None:
    joint = ann_in_bonn()
    joint.redeclare(address=replace(shapes()["dimension"]["address"], columns={"address_city": "country"}))
    joint.put("address", 2, city=200, country=300)
    name = 100 if touched is None else 101
    joint.put("customer", touched or 1, name=name)
    joint.join(20, is_redeclared=True, **({} if touched is None else {"customer": touched}))
    assert joint.versions(*NAMES) == [(2, 20, 100, 200), (20, None, name, 300)]


def test_a_row_that_another_declaration_does_not_change_is_not_written() -> None:
    joint = ann_in_bonn()
    joint.redeclare(address=replace(shapes()["dimension"]["address"], way=JoinType.INNER))
    joint.join(20, is_redeclared=True)
    assert (joint.versions(*NAMES), joint.lake.wrote) == ([(2, None, 100, 200)], set())


def test_time_does_not_run_back_where_the_run_dates_a_change() -> None:
    joint = ann_in_bonn(address=50)
    joint.tables["address"].clear()
    joint.join(20, "address")
    assert joint.versions(*NAMES) == [(50, None, 100, None)]
