"""`docs/reference/lease.md`: its table holds leases, and its permissions are those that are used."""

from __future__ import annotations

import json
import shlex
from typing import Any

from pages import fences, text
from tenancies import DynamoDb

from lakeward.adapters.leases.dynamodb.lease import MAX_CLOCK_ERROR, DynamoDbLease

PAGE = "docs/reference/lease.md"


def parse_pairs(words: str) -> list[dict[str, str]]:
    """Read `AttributeName=lease,KeyType=HASH` as `aws` does."""
    return [dict(pair.split("=") for pair in words.split(","))]


def create_page_table(dynamodb: DynamoDb) -> str:
    (command,) = [block.content for block in fences(PAGE, "console")]
    aws, service, operation, *options = shlex.split(command.removeprefix("$ ").replace("\\\n", " "))
    assert (aws, service, operation) == ("aws", "dynamodb", "create-table")
    parameters = dict(zip(options[::2], options[1::2], strict=True))
    dynamodb.client.create_table(
        TableName=parameters["--table-name"],
        BillingMode=parameters["--billing-mode"],
        AttributeDefinitions=parse_pairs(parameters["--attribute-definitions"]),
        KeySchema=parse_pairs(parameters["--key-schema"]),
    )
    return parameters["--table-name"]


def test_the_table_that_is_made_holds_leases_and_the_permissions_are_those_that_are_used(
    dynamodb: DynamoDb,
) -> None:
    table = create_page_table(dynamodb)
    dynamodb.asked.clear()
    lease: Any = DynamoDbLease(dynamodb.client, table, 60_000_000, dynamodb.clock)
    lease.give_back(lease.renew(lease.take("shop", "a")))
    (policy,) = [json.loads(block.content) for block in fences(PAGE, "json")]
    (statement,) = policy["Statement"]
    assert sorted(statement["Action"]) == sorted({f"dynamodb:{name}" for name in dynamodb.asked})
    assert statement["Resource"].endswith(f":table/{table}")


def test_the_seconds_that_clocks_may_differ_by_are_those_of_the_code() -> None:
    assert MAX_CLOCK_ERROR == 5_000_000
    page = " ".join(text(PAGE).split())
    assert "differ from that of DynamoDB by up to five seconds. A lease is taken over only ten seconds" in page
