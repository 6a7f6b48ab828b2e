"""`docs/reference/lease.md`: its table holds leases, and its permissions are those that are used."""

from __future__ import annotations

import json
from typing import Any

from pages import create_table, fences, text
from tenancies import DynamoDb

from lakeward.adapters.leases.dynamodb.lease import MAX_CLOCK_ERROR, DynamoDbLease

PAGE = "docs/reference/lease.md"


def test_the_table_that_is_made_holds_leases_and_the_permissions_are_those_that_are_used(
    dynamodb: DynamoDb,
) -> None:
    request = create_table(PAGE)
    dynamodb.client.create_table(**request)
    dynamodb.asked.clear()
    lease: Any = DynamoDbLease(dynamodb.client, request["TableName"], 60_000_000, dynamodb.clock)
    lease.give_back(lease.renew(lease.take("shop", "a")))
    (policy,) = [json.loads(block.content) for block in fences(PAGE, "json")]
    (statement,) = policy["Statement"]
    assert sorted(statement["Action"]) == sorted({f"dynamodb:{name}" for name in dynamodb.asked})
    assert statement["Resource"].endswith(f":table/{request['TableName']}")


def test_the_seconds_that_clocks_may_differ_by_are_those_of_the_code() -> None:
    assert MAX_CLOCK_ERROR == 5_000_000
    page = " ".join(text(PAGE).split())
    assert "differ from that of DynamoDB by up to five seconds. A lease is taken over only ten seconds" in page
