"""What `plan` says of a joined table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from joined_shops import define_shape

from lakeward.core.dimension import TableName
from lakeward.core.joined.declaration import JoinDeclaration, JoinType, Source
from lakeward.core.joined.plan import JoinPlan, JoinProgress, SourceCommit
from lakeward.core.joined.refresh import PreparedJoin
from lakeward.entrypoints.views.joined_tables import batch_text, lookups

ORDERS = Source(table=TableName("shop", "orders"), columns={"id": "id"})
CUSTOMER = Source(
    table=TableName("shop", "customer"),
    columns={"customer_key": "version_key", "name": "name"},
    on=("id",),
    to=("customer",),
    at="ordered",
    otherwise={"customer_key": "-1"},
)


def plan_of(since: dict[str, int], *whole: str) -> JoinPlan:
    """Return a plan that takes of each source what came behind a batch, up to its fifth."""
    progress = JoinProgress(batch=2, digest="d", passed={name: SourceCommit(5, "c") for name in since})
    return JoinPlan(joining=define_shape("facts"), progress=progress, since=since, reasons=whole)


SINCE_THREE = PreparedJoin(plan=plan_of({"orders": 3}))
BOTH = [ORDERS.table, CUSTOMER.table]
BY_ORDERS = "by the next batch of shop.orders"
OVER_TIME = "it is a history of histories"
AS_IT_WAS = "customer as it was at orders.ordered; a row without a match"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, [f"{AS_IT_WAS} has customer_key -1, name NULL"]),
        ({"way": JoinType.INNER, "otherwise": {}}, [f"{AS_IT_WAS} waits for one"]),
        ({"columns": {}, "otherwise": {}}, [f"{AS_IT_WAS} stays"]),
        ({"at": None}, ["customer as it is now; a row without a match has customer_key -1, name NULL"]),
        ({"at": None, "otherwise": {}}, []),
    ],
)
def test_a_plan_describes_lookups_and_rows_without_a_match(changes: dict[str, Any], words: list[str]) -> None:
    sources = {"orders": ORDERS, "customer": replace(CUSTOMER, **changes)}
    assert lookups(JoinDeclaration(name=TableName("dw", "facts"), sources=sources)) == words


@pytest.mark.parametrize(
    ("found", "ahead", "words"),
    [
        (PreparedJoin(), [], "nothing new in its sources"),
        (PreparedJoin(), [ORDERS.table], f"keys touched {BY_ORDERS}"),
        (PreparedJoin(over_time=True), [ORDERS.table], f"all rows rebuilt: {OVER_TIME}, touched {BY_ORDERS}"),
        (SINCE_THREE, [], "keys touched by orders 4–5"),
        (SINCE_THREE, BOTH, f"keys touched by orders 4–5, and {BY_ORDERS}, shop.customer"),
        (PreparedJoin(plan=plan_of({}, "declared anew")), [ORDERS.table], "all rows rebuilt: declared anew"),
        (PreparedJoin(missing_sources=(ORDERS.table,)), [ORDERS.table], "waits for the first batch of shop.orders"),
    ],
)
def test_a_plan_names_the_batches_that_it_covers_and_those_that_come_first(
    found: PreparedJoin, ahead: list[TableName], words: str
) -> None:
    assert batch_text(found, ahead) == words
