"""A summary of the orders of TPC-H, whose refresh functions insert and delete; see `docs/reference/cases.md`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from joined_frames import Table, make_plan
from joined_shops import SourceChange, SourceRow
from outside import case
from pyspark.sql import SparkSession
from types_of_columns import columns

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, Source

pytestmark = pytest.mark.spark

Cells = Mapping[str, Any]
ORDERS = Dimension(
    name=TableName("case", "orders"),
    schema=columns(orderkey="int", custkey="int", price="decimal(12,2)"),
    key=("orderkey",),
)
SUMMARY = JoinDeclaration(
    name=TableName("dw", "customer_summary"),
    sources={
        "orders": Source(
            table=ORDERS.name,
            on=("custkey",),
            columns={"customer": "custkey"},
            aggregates={"orders": Aggregate(Function.COUNT), "total": Aggregate(Function.SUM, "price")},
        )
    },
)


def orders(path: Path) -> dict[Key, Cells]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        lines = [line.split("|") for line in file]
    return {
        (int(k),): {"orderkey": int(k), "custkey": int(c), "price": Decimal(price)} for k, c, _, price, *_ in lines
    }


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
        shown: list[Any] = [cells for _, cells, _ in table.shown().values()]
        assert {cells["customer"] for cells in shown} == {cells["custkey"] for cells in rows.values()}
        assert sum(cells["orders"] for cells in shown) == right["orders"]
        assert str(sum(cells["total"] for cells in shown)) == right["sum_totalprice"]
