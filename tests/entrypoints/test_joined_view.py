"""What `plan` says of a joined table that looks its sources up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.core.dimension import TableName
from lakeward.core.joined.declared import Joined, Source, Way
from lakeward.entrypoints.joined_view import lookups

ORDERS = Source(table=TableName("shop", "orders"), columns={"id": "id"})
CUSTOMER = Source(
    table=TableName("shop", "customer"),
    columns={"customer_key": "version_key", "name": "name"},
    on=("id",),
    to=("customer",),
    at="ordered",
    otherwise={"customer_key": "-1"},
)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            CUSTOMER,
            ["customer as it was at orders.ordered; a row that finds none has customer_key -1, name NULL"],
        ),
        (
            replace(CUSTOMER, way=Way.INNER, otherwise={}),
            ["customer as it was at orders.ordered; a row that finds none waits for it"],
        ),
        (
            replace(CUSTOMER, columns={}, otherwise={}),
            ["customer as it was at orders.ordered; a row that finds none stays"],
        ),
        (
            replace(CUSTOMER, at=None),
            ["customer as it is now; a row that finds none has customer_key -1, name NULL"],
        ),
        (replace(CUSTOMER, at=None, otherwise={}), []),
    ],
)
def test_a_plan_says_what_is_looked_up_and_what_becomes_of_a_row_that_finds_none(
    source: Source, words: list[str]
) -> None:
    joined = Joined(name=TableName("dw", "facts"), sources={"orders": ORDERS, "customer": source})
    assert lookups(joined) == words
