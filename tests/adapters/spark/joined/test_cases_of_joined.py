"""A summary of the orders of TPC-H, whose refresh functions insert and delete; see `docs/reference/cases.md`."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from joined_frames import Table, make_plan
from joined_shops import SourceChange, SourceRow
from outside import case
from pyspark.sql import SparkSession

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, Source
from lakeward.core.schema import Column, Schema, parse_type

pytestmark = pytest.mark.spark

Cells = Mapping[str, Any]
TYPES = {"orderkey": "int", "custkey": "int", "status": "string", "price": "decimal(12,2)", "ordered": "date"}
ORDERS = Dimension(
    name=TableName("case", "orders"),
    schema=Schema(tuple(Column(column, parse_type(type_)) for column, type_ in TYPES.items())),
    key=("orderkey",),
)
SUMMARY = JoinDeclaration(
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


def test_a_summary_of_orders_follows_inserts_and_deletes(spark: SparkSession) -> None:
    folder = case("tpch-refresh-functions")
    totals = json.loads((folder / "expected" / "after_streams.json").read_text("utf-8"))
    table = Table(spark, validate_joined(SUMMARY, {ORDERS.name: ORDERS}))
    rows: dict[Key, Cells] = {}
    for stream, right in enumerate(totals):
        new = orders(folder / "input" / (f"orders.tbl.u{stream}" if stream else "orders.tbl.gz"))
        deletes = (folder / "input" / f"delete.{stream}").read_text("utf-8").split() if stream else []
        before, deleted = rows, {(int(line.rstrip("|")),) for line in deletes}
        rows = {key: cells for key, cells in {**rows, **new}.items() if key not in deleted}
        changes = {key: SourceChange([before[key]] if key in before else []) for key in {*new, *deleted}}
        sources = {"orders": {key: [SourceRow(cells)] for key, cells in rows.items()}}
        table.join(make_plan(table.joining, stream + 1), sources, {"orders": changes})
        shown = {key: cells for (key, _), (_, cells, _) in table.shown().items()}
        assert {key: [*cells.values()] for key, cells in shown.items()} == summary(rows.values())
        totals_now = [(int(str(cells["orders"])), Decimal(str(cells["total"]))) for cells in shown.values()]
        assert sum(count for count, _ in totals_now) == right["orders"]
        assert str(sum(total for _, total in totals_now)) == right["sum_totalprice"]
