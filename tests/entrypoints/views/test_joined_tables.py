"""What `plan` says of a joined table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from joined_shops import shapes, tables_of

from lakeward.core.dimension import TableName
from lakeward.core.joined.check import validate_joined
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

JOINING = validate_joined(JoinDeclaration(name=TableName("dw", "facts"), sources=shapes()["facts"]), tables_of())


def plan_of(since: dict[str, int], *whole: str) -> JoinPlan:
    """Return a plan that takes of each source what came behind a batch, up to its fifth."""
    progress = JoinProgress(batch=2, digest="d", passed={name: SourceCommit(5, "c") for name in since})
    return JoinPlan(joining=JOINING, progress=progress, since=since, reasons=whole)


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
        (PreparedJoin(), [ORDERS.table], "keys touched by the next batch of shop.orders"),
        (
            PreparedJoin(over_time=True),
            [ORDERS.table],
            "all rows rebuilt: it is a history of histories, touched by the next batch of shop.orders",
        ),
        (PreparedJoin(plan=plan_of({"orders": 3})), [], "keys touched by orders 4–5"),
        (
            PreparedJoin(plan=plan_of({"orders": 3})),
            [ORDERS.table, CUSTOMER.table],
            "keys touched by orders 4–5, and by the next batch of shop.orders, shop.customer",
        ),
        (PreparedJoin(plan=plan_of({}, "declared anew")), [ORDERS.table], "all rows rebuilt: declared anew"),
        (PreparedJoin(missing_sources=(ORDERS.table,)), [ORDERS.table], "waits for the first batch of shop.orders"),
    ],
)
def test_a_plan_names_the_batches_that_it_covers_and_those_that_come_first(
    found: PreparedJoin, ahead: list[TableName], words: str
) -> None:
    assert batch_text(found, ahead) == words
