"""Joined tables that others wrote down, or whose sources they did; see `docs/reference/cases.md`."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from joined_laws import Lake
from outside import case

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.history.options import ByRun, ByTime, History, Shown
from lakeward.core.history.version_rows import rows as shown_rows
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.dates import row_instant
from lakeward.core.joined.declaration import Aggregate, Function, Joined, Source
from lakeward.core.joined.rows import SourceRow, SourceRows
from lakeward.core.joined.touched_keys import SourceChange
from lakeward.core.merge.fold import Row, apply
from lakeward.core.schema import Column, Schema, Type, parse_type

DAY = Type("date")
MICROS = 1_000_000

Cells = Mapping[str, Any]


def days(text: str) -> int:
    return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()


def micros(moment: datetime) -> int:
    return int(moment.timestamp()) * MICROS


def mirror(name: str, key: str, **columns: str) -> Dimension:
    schema = Schema(tuple(Column(column, parse_type(type_)) for column, type_ in {key: "int", **columns}.items()))
    return Dimension(name=TableName("case", name), schema=schema, key=(key,))


# A customer of two sources, by an AWS blog.

MASTER = mirror(
    "customer_master",
    "customer_id",
    first_name="string",
    last_name="string",
    employer_name="string",
    row_audit_ts="timestamp",
)
ADDRESS = mirror(
    "customer_address",
    "customer_id",
    email_id="string",
    city="string",
    country="string",
    row_audit_ts="timestamp",
)
CLOSED = Shown(
    type=DAY,
    closed=True,
    open_end=days("9999-12-31"),
    is_current=None,
    valid_from="rec_eff_dt",
    valid_to="rec_exp_dt",
)
CUSTOMER = Joined(
    name=TableName("dw", "dim_customer"),
    sources={
        "master": Source(
            table=MASTER.name,
            columns={name: name for name in ("customer_id", "first_name", "last_name", "employer_name")},
        ),
        "address": Source(
            table=ADDRESS.name,
            columns={name: name for name in ("email_id", "city", "country")},
            on=("customer_id",),
            to=("customer_id",),
        ),
    },
    history=History(validity=ByRun(), first_load=days("2022-07-01"), shown=CLOSED),
)
RAN = micros(datetime(2023, 3, 19, 8, tzinfo=UTC))


class Customers:
    """The two mirrors, fed by files in the order of `row_audit_ts`, and what is joined of them."""

    def __init__(self, joined: Joined) -> None:
        self.folder = case("scd2-two-sources-redshift")
        self.lake = Lake(validate_joined(joined, {MASTER.name: MASTER, ADDRESS.name: ADDRESS}))
        self.mirrors: dict[str, Mapping[Key, Row]] = {"master": {}, "address": {}}
        self.history = joined.history or History()

    def take(self, suffix: str, *names: str) -> None:
        """Apply the files of some sources, then join."""
        changes = {name: dict(self.feed(name, suffix)) for name in names}
        plan = self.lake.planned(RAN)
        tables = {name: self.table(name) for name in self.mirrors}
        self.lake.commit(plan, self.lake.joined(plan, tables, changes))

    def feed(self, name: str, suffix: str) -> Iterable[tuple[Key, SourceChange]]:
        table, events = {"master": MASTER, "address": ADDRESS}[name], []
        for number, cells in enumerate(self.lines(f"customer_{name}_with_ts{suffix}.csv"), 1):
            moment = micros(cells["row_audit_ts"])
            key, position = (cells["customer_id"],), Position(1, moment, 1, number)
            events.append(
                ChangeEvent(operation=Operation.UPDATE, position=position, key=key, cells=cells, time=moment)
            )
            yield (
                key,
                SourceChange((), row_instant(self.history, self.lake.joining.joined.sources[name], cells, moment)),
            )
        self.mirrors[name] = apply(table, self.mirrors[name], events).rows

    def lines(self, name: str) -> Iterable[Cells]:
        with (self.folder / "input" / name).open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                moment = datetime.fromisoformat(line["row_audit_ts"]).replace(tzinfo=UTC)
                yield {**line, "customer_id": int(line["customer_id"]), "row_audit_ts": moment}

    def table(self, name: str) -> SourceRows:
        source = self.lake.joining.joined.sources[name]
        return {
            key: [SourceRow(row.cells, row_instant(self.history, source, row.cells, row.position.sequence))]
            for key, row in self.mirrors[name].items()
        }

    def shown(self) -> list[list[str]]:
        found = self.lake.stored().items()
        rows = [
            row for key, versions in found for row in shown_rows(self.lake.joining.dimension, key, versions, {})
        ]
        return sorted([str(cell) for cell in row.values()] for row in rows)

    def expected(self) -> list[list[str]]:
        with (self.folder / "expected" / "dim_customer.csv").open(encoding="utf-8", newline="") as file:
            return sorted(list(csv.reader(file))[1:])


@pytest.mark.parametrize(
    "batches", [[("master", "address")], [("address",), ("master",)], [("master",), ("address",)]]
)
def test_a_customer_of_two_sources_is_what_the_blog_shows(batches: Sequence[Sequence[str]]) -> None:
    """Its sources may also come one after the other: of what one day brings the last counts."""
    customers = Customers(CUSTOMER)
    customers.take("", "master", "address")
    for names in batches:
        customers.take("_incr", *names)
        assert {key[0] for key, _ in customers.lake.wrote} <= {2, 4, 101, 102, 103}, "no other customer changed"
    assert customers.shown() == customers.expected()


def test_without_days_of_runs_a_version_begins_at_the_later_of_its_two_rows() -> None:
    by_time = History(validity=ByTime(), shown=replace(CLOSED, closed=False))
    sources = {name: replace(one, validity="row_audit_ts") for name, one in CUSTOMER.sources.items()}
    customers = Customers(replace(CUSTOMER, sources=sources, history=by_time))
    for suffix in ("", "_incr"):
        customers.take(suffix, "master", "address")
    begins = {(row[0], row[-2]) for row in customers.shown()}
    assert begins >= {("1", "2019-05-03"), ("2", "2020-05-03"), ("4", "2020-05-04"), ("103", "2020-05-05")}


# What customers ordered, by the refresh functions of TPC-H.

ORDERS = mirror("orders", "orderkey", custkey="int", status="string", price="decimal(12,2)", ordered="date")
SUMMARY = Joined(
    name=TableName("dw", "customer_summary"),
    sources={
        "orders": Source(
            table=ORDERS.name,
            on=("custkey",),
            columns={"customer": "custkey"},
            aggregates={
                "orders": Aggregate(Function.COUNT),
                "total": Aggregate(Function.SUM, "price"),
                "least": Aggregate(Function.MIN, "price"),
                "most": Aggregate(Function.MAX, "price"),
                "status": Aggregate(Function.LATEST, "status", "ordered"),
            },
        )
    },
)


def orders(path: Path) -> dict[Key, Cells]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        lines = [line.split("|") for line in file]
    found = [
        (int(k), {"custkey": int(c), "status": s, "price": Decimal(p), "ordered": date.fromisoformat(d)})
        for k, c, s, p, d, *_ in lines
    ]
    return {(key,): {"orderkey": key, **cells} for key, cells in found}


def summary(rows: Iterable[Cells]) -> dict[Key, list[object]]:
    """Return what customers ordered, with no code of the core."""
    of: dict[int, list[Cells]] = defaultdict(list)
    for cells in sorted(rows, key=lambda cells: (cells["ordered"], cells["orderkey"])):
        of[cells["custkey"]].append(cells)
    return {(customer,): summed(customer, found) for customer, found in of.items()}


def summed(customer: int, found: Sequence[Cells]) -> list[object]:
    prices = [cells["price"] for cells in found]
    return [customer, len(found), sum(prices), min(prices), max(prices), found[-1]["status"]]


def test_a_summary_of_orders_follows_inserts_and_deletes() -> None:
    folder = case("tpch-refresh-functions")
    told = json.loads((folder / "expected" / "after_streams.json").read_text("utf-8"))
    lake = Lake(validate_joined(SUMMARY, {ORDERS.name: ORDERS}))
    rows: dict[Key, Cells] = {}
    for stream, right in enumerate(told):
        came = orders(folder / "input" / (f"orders.tbl.u{stream}" if stream else "orders.tbl.gz"))
        deletes = (folder / "input" / f"delete.{stream}").read_text("utf-8").split() if stream else []
        before, gone = rows, {(int(line.rstrip("|")),) for line in deletes}
        rows = {key: cells for key, cells in {**rows, **came}.items() if key not in gone}
        changes = {key: SourceChange([before[key]] if key in before else []) for key in {*came, *gone}}
        plan = lake.planned()
        lake.commit(
            plan, lake.joined(plan, {"orders": {k: [SourceRow(c)] for k, c in rows.items()}}, {"orders": changes})
        )
        assert {key: [*cells.values()] for key, cells in lake.current().items()} == summary(rows.values())
        totals = [(cells["orders"], cells["total"]) for cells in lake.current().values()]
        assert sum(count for count, _ in totals) == right["orders"]
        assert str(sum(total for _, total in totals)) == right["sum_totalprice"]
