"""What no source dates counts from the run, and overwrites nothing of a joined history of mirrors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from joined_laws import Lake, shapes, tables_of

from lakeward.core.dimension import TableName
from lakeward.core.history.options import History
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declared import Joined, JoinType, Source
from lakeward.core.joined.plan import SourceCommit, SourceState, plan_join
from lakeward.core.joined.rows import SourceRow
from lakeward.core.joined.touched import SourceChange, SourceChanges

Image = Mapping[str, object]
NONE: Image = {"region": None, "country": None, "city": None, "name": None}


class Joint:
    """A joined history of mirrors: each batch is told what they hold, and what of it they tell."""

    def __init__(self, shape: str = "dimension", **changed: Source) -> None:
        sources = {**shapes()[shape], **changed}
        joined = Joined(name=TableName("dw", "dim"), sources=sources, history=History())
        self.lake = Lake(validate_joined(joined, tables_of()))
        self.tables: dict[str, dict[tuple[int], list[SourceRow]]] = {name: {} for name in sources}

    def put(self, name: str, time: int | None, key: int = 1, /, **cells: object) -> None:
        """Put a row in place that has this time, or none."""
        own = "code" if name == "region" else "id"
        self.tables[name][(key,)] = [SourceRow({**NONE, own: key, **cells}, time)]

    def join(self, ran: int, *untold: str, is_back: bool = False, **touched: int | None) -> None:
        """Join what is there; sources are `untold`, or they `touched` the row with the key 1 at a time."""
        plan = self.lake.planned(ran)
        if untold:
            plan = replace(plan, whole=("they do not tell",), untold=frozenset(() if is_back else untold))
        changes = {name: {(1,): SourceChange((), time)} for name, time in touched.items()}
        self.lake.commit(plan, self.lake.joined(plan, self.tables, changes))

    def join_as(self, ran: int, changes: SourceChanges, **states: SourceState) -> None:
        """Join what is there, with sources in these states; they tell of changes as far as they are asked."""
        assert self.lake.plan is not None
        progress = self.lake.plan.progress
        now = {name: SourceState(now=one) for name, one in progress.passed.items()} | states
        plan = plan_join(self.lake.joining, progress, now, ran)
        assert plan is not None
        told = {name: found for name, found in changes.items() if name in plan.since}
        self.lake.commit(plan, self.lake.joined(plan, self.tables, told))

    def told(self, *names: str) -> list[tuple[object, ...]]:
        """Return the versions of the key 1, with some of their columns."""
        found = self.lake.standing()[(1,)]
        return [(one.valid_from, one.valid_to, *[one.cells[name] for name in names]) for one in found]


def ann_in_bonn(customer: int | None = 1, address: int | None = 2) -> Joint:
    """Return a customer and an address, numbers for names, joined for the first time at 10."""
    joint = Joint()
    joint.put("customer", customer, name=100)
    joint.put("address", address, city=200)
    joint.join(10)
    return joint


NAMES = ("customer_name", "address_city")


def test_a_source_that_is_emptied_ends_what_it_gave_with_the_run() -> None:
    joint = ann_in_bonn()
    joint.tables["address"].clear()
    joint.join(20, "address")
    assert joint.told(*NAMES) == [(2, 20, 100, 200), (20, None, 100, None)]


def test_what_dates_another_row_is_not_taken_for_the_date_of_one_that_went() -> None:
    """The customer was changed and seen before, in nothing that the joined table shows."""
    joint = ann_in_bonn()
    joint.put("customer", 12, name=100)
    joint.join(15, customer=12)
    joint.tables["address"].clear()
    joint.join(20, "address")
    assert joint.told(*NAMES) == [(2, 20, 100, 200), (20, None, 100, None)]


def test_a_row_that_a_load_brought_anew_counts_from_the_run_whether_it_is_told_or_not() -> None:
    for untold in ([], ["address"]):
        joint = ann_in_bonn(address=None)
        joint.put("address", None, city=201)
        joint.join(20, *untold, **({} if untold else {"address": None}))
        assert joint.told(*NAMES) == [(1, 20, 100, 200), (20, None, 100, 201)]


def test_a_change_that_has_no_time_is_not_hidden_by_an_older_one_that_has() -> None:
    joint = ann_in_bonn(address=None)
    joint.put("address", None, city=201)
    joint.join(20, address=None)
    joint.put("customer", 19, name=101)
    joint.put("address", None, city=202)
    joint.join(30, customer=19, address=None)
    assert joint.told(*NAMES) == [(1, 20, 100, 200), (20, 30, 100, 201), (30, None, 101, 202)]


def test_a_change_without_a_time_that_changes_nothing_leaves_another_its_date() -> None:
    joint = ann_in_bonn(address=None)
    joint.put("customer", 12, name=101)
    joint.join(20, customer=12, address=None)
    assert joint.told(*NAMES) == [(1, 12, 100, 200), (12, None, 101, 200)]


def test_what_a_source_dates_stays_dated_by_it_where_another_does_not_tell() -> None:
    """Also late: of several states at one instant the last counts, as where both tell."""
    joint = ann_in_bonn()
    joint.put("customer", 12, name=101)
    joint.join(20, "address", customer=12)
    assert joint.told(*NAMES) == [(2, 12, 100, 200), (12, None, 101, 200)]
    joint.put("customer", 11, name=102)
    joint.join(30, "address", customer=11)
    assert joint.told(*NAMES) == [(2, 12, 100, 200), (12, None, 102, 200)]


def test_a_row_that_is_there_dates_itself_though_its_source_does_not_tell() -> None:
    joint = ann_in_bonn()
    joint.put("address", 12, city=201)
    joint.join(20, "address")
    joint.put("address", 12, city=202)
    joint.join(30, "address")
    assert joint.told(*NAMES) == [(2, 12, 100, 200), (12, None, 100, 202)]


def test_of_several_rows_one_that_went_is_not_dated_by_those_that_are_left() -> None:
    joint = Joint("summary")
    joint.put("customer", 1, name=100)
    for key, time in ((1, 3), (2, 4)):
        joint.put("orders", time, key, customer=1, amount=5, at=0)
    joint.join(10)
    del joint.tables["orders"][(1,)]
    joint.join(20, "orders")
    assert joint.told("orders_count") == [(4, 20, 2), (20, None, 1)]
    joint.put("orders", 22, 3, customer=1, amount=5, at=0)
    joint.join(30, "orders")
    assert joint.told("orders_count") == [(4, 20, 2), (20, 22, 1), (22, None, 2)]


def test_a_row_that_another_is_found_by_counts_for_what_it_finds() -> None:
    """The customer was loaded anew with another region, and of the region itself nothing is new."""
    joint = Joint()
    for code in (1, 2):
        joint.put("region", code, code, title=code)
    joint.put("customer", None, name=100, region=1)
    joint.join(10)
    joint.put("customer", None, name=100, region=2)
    joint.join(20, "customer")
    assert joint.told("region_title") == [(1, 20, 1), (20, None, 2)]


def test_what_is_found_by_way_of_another_row_counts_for_the_first_as_well() -> None:
    """The order is that of another customer now, who has the same name in another country."""
    joint = Joint("deep")
    for key in (1, 2):
        joint.put("customer", key, key, name=100, region=key)
        joint.put("address", key, key, country=key, city=200 + key)
    joint.put("orders", None, customer=1, amount=5)
    joint.join(10)
    joint.put("orders", None, customer=2, amount=5)
    joint.join(20, orders=None)
    assert joint.told("customer_name", "city") == [(1, 20, 100, 201), (20, None, 100, 202)]


def test_a_row_that_comes_again_without_a_time_was_away_in_between() -> None:
    joint = ann_in_bonn(customer=None)
    there = joint.tables["customer"].pop((1,))
    joint.join(20, "customer")
    joint.tables["customer"][(1,)] = there
    joint.join(30, "customer")
    assert joint.told(*NAMES) == [(2, 20, 100, 200), (30, None, 100, 200)]


def test_a_row_that_is_there_no_more_for_want_of_another_ends_with_the_run() -> None:
    joint = Joint(address=replace(shapes()["dimension"]["address"], way=JoinType.INNER))
    joint.put("customer", 1, name=100)
    joint.put("address", 2, city=200)
    joint.join(10)
    joint.put("customer", 5, name=100)
    joint.tables["address"].clear()
    joint.join(20, "address", customer=5)
    assert joint.told(*NAMES) == [(2, 20, 100, 200)]


def test_what_is_taken_back_is_as_if_it_had_not_been() -> None:
    joint = ann_in_bonn()
    there = joint.tables["address"].pop((1,))
    joint.join(20, "address")
    joint.tables["address"][(1,)] = there
    joint.join(30, "address", is_back=True)
    assert joint.told(*NAMES) == [(2, None, 100, 200)]


MADE_ANEW = SourceState(now=SourceCommit(1, "anew"), goes_on=False)
TAKEN_BACK = SourceState(now=SourceCommit(2, "other"), goes_on=False, kept=SourceCommit(1, "1"))


@pytest.mark.parametrize("city", [201, None])
def test_a_source_that_was_made_anew_does_not_tell_when_its_rows_changed_or_went(city: int | None) -> None:
    joint = ann_in_bonn()
    joint.tables["address"].clear()
    if city is not None:
        joint.put("address", None, city=city)
    joint.join_as(20, {}, address=MADE_ANEW)
    assert joint.told(*NAMES) == [(2, 20, 100, 200), (20, None, 100, city)]


def test_a_delete_behind_a_source_that_was_taken_back_ends_what_it_gave_at_its_own_time() -> None:
    joint = ann_in_bonn()
    joint.tables["address"].clear()
    joint.join_as(20, {"address": {(1,): SourceChange((), 9)}}, address=TAKEN_BACK)
    assert joint.told(*NAMES) == [(2, 9, 100, 200), (9, None, 100, None)]


def test_a_row_that_left_a_group_behind_a_source_that_was_taken_back_left_it_at_its_own_time() -> None:
    joint = Joint("summary")
    joint.put("customer", 1, name=100)
    for key in (1, 2):
        joint.put("orders", 2, key, customer=1, amount=5, at=0)
    joint.join(10)
    was = joint.tables["orders"][(2,)][0].cells
    joint.put("orders", 9, 2, customer=3, amount=5, at=0)
    joint.join_as(20, {"orders": {(2,): SourceChange((was,), 9)}}, orders=TAKEN_BACK)
    assert joint.told("orders_count") == [(2, 9, 2), (9, None, 1)]


def test_what_a_source_took_back_is_put_right_beside_what_changed_since_then() -> None:
    joint = ann_in_bonn()
    joint.put("address", 5, city=201)
    joint.join(10, address=5)
    joint.put("address", 2, city=200)
    joint.join_as(20, {"address": {(7,): SourceChange((), 9)}}, address=TAKEN_BACK)
    assert joint.told(*NAMES) == [(2, None, 100, 200)]


@pytest.mark.parametrize("touched", [None, 12])
def test_what_is_declared_in_another_way_counts_from_the_run(touched: int | None) -> None:
    """No source dates that; of a row that changed as well, nobody can tell what of it was which."""
    joint = ann_in_bonn()
    sources = joint.lake.joining.joined.sources
    other = replace(sources["address"], columns={"address_city": "country"})
    joint.lake.joining = validate_joined(
        replace(joint.lake.joining.joined, sources={**sources, "address": other}), tables_of()
    )
    joint.put("address", 2, city=200, country=300)
    if touched is not None:
        joint.put("customer", touched, name=101)
    now = SourceState(now=SourceCommit(1 if touched is None else 2, "1" if touched is None else "2"))
    joint.join_as(20, {} if touched is None else {"customer": {(1,): SourceChange((), touched)}}, customer=now)
    name = 100 if touched is None else 101
    assert joint.told(*NAMES) == [(2, 20, 100, 200), (20, None, name, 300)]


def test_a_row_that_another_declaration_shows_as_it_was_stays() -> None:
    joint = ann_in_bonn()
    joined = joint.lake.joining.joined
    sources = {**joined.sources, "address": replace(joined.sources["address"], way=JoinType.INNER)}
    joint.lake.joining = validate_joined(replace(joined, sources=sources), tables_of())
    joint.join_as(20, {})
    assert (joint.told(*NAMES), joint.lake.wrote) == ([(2, None, 100, 200)], set())


def test_time_does_not_run_back_where_a_run_dates_a_change() -> None:
    joint = ann_in_bonn(address=50)
    joint.tables["address"].clear()
    joint.join(20, "address")
    assert joint.told(*NAMES) == [(50, None, 100, None)]
