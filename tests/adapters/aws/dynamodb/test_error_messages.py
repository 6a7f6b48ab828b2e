"""Error messages of DynamoDB, and the options of leases and ledgers in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError
from buckets import Buckets
from tenancies import DynamoDb

from lakeward.adapters.aws.dynamodb.error_messages import explain_dynamodb_errors
from lakeward.adapters.aws.dynamodb.table_purpose import LEDGER
from lakeward.adapters.leases.dynamodb import build as build_lease
from lakeward.adapters.leases.dynamodb.lease import DynamoDbLease
from lakeward.adapters.ledgers.dynamodb import build as build_ledger
from lakeward.adapters.ledgers.dynamodb.ledger import DynamoDbLedger
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.plugins import Runtime


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda given: DynamoDbLease(given.client, "nowhere", 1, given.clock).take("shop", "a"), ["lease.md"]),
        (lambda given: DynamoDbLedger(given.client, "nowhere", "shop").account("a.b"), ["ledger.md", "[ledger]"]),
    ],
    ids=["lease", "ledger"],
)
def test_the_error_for_a_missing_table_names_its_region(dynamodb: DynamoDb, use: Any, words: Sequence[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        use(dynamodb)
    assert raised.value.what == "the DynamoDB table nowhere in eu-central-1 does not exist"
    assert [word for word in words if word not in str(raised.value.todo)] == []


def test_a_table_with_another_key_is_no_table_of_leases(dynamodb: DynamoDb) -> None:
    dynamodb.client.create_table(
        TableName=f"{dynamodb.table}-of-others",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    lease = DynamoDbLease(dynamodb.client, f"{dynamodb.table}-of-others", 1, dynamodb.clock)
    with pytest.raises(ConfigError, match="is no table of leases"):
        lease.take("shop", "a")


def test_a_table_with_another_key_is_no_table_of_a_ledger(dynamodb: DynamoDb) -> None:
    with pytest.raises(ConfigError, match="is no table of a ledger") as raised:
        DynamoDbLedger(dynamodb.client, dynamodb.table, "shop").account("shop.orders")
    assert "sort key `item`, both strings, with the local index `by_state`" in str(raised.value.todo)


def test_a_table_without_the_index_is_no_table_of_a_ledger() -> None:
    """moto answers with another message than DynamoDB."""
    details = {"Code": "ValidationException", "Message": "The table does not have the specified index: by_state"}
    with (
        pytest.raises(ConfigError, match="is no table of a ledger") as raised,
        explain_dynamodb_errors("the table", LEDGER),
    ):
        raise ClientError({"Error": details}, "Query")
    assert "by_state" in str(raised.value.todo)


def test_a_missing_region_is_an_error(s3: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigError, match="DynamoDB cannot be reached") as raised:
        build_lease({"table": "leases"}, Runtime(lambda: None))
    assert "region" in str(raised.value.found)


def test_the_options_of_a_lease_are_read(dynamodb: DynamoDb) -> None:
    lease = build_lease({"table": "leases", "ttl": "5m"}, Runtime(lambda: None, now=dynamodb.clock))
    assert (lease.table, lease.duration, lease.now()) == ("leases", 300_000_000, dynamodb.clock())
    assert build_lease({"table": "leases"}, Runtime(lambda: None)).duration == 60_000_000


@pytest.mark.parametrize(
    ("build", "options", "expected"),
    [
        (build_lease, {}, "lacks the key 'table'"),
        (build_lease, {"table": "leases", "tll": "5m"}, "has no key 'tll'"),
        *(
            (build_lease, {"table": "leases", "ttl": ttl}, "a duration from")
            for ttl in ("9s", "2h", "5", "1d", "-5s")
        ),
        (build_ledger, {"state": "state"}, "[ledger] lacks the key 'table'"),
        (build_ledger, {"state": "state", "table": "a", "ttl": "5m"}, "[ledger] has no key 'ttl'"),
    ],
)
def test_invalid_options_are_refused(build: Any, options: dict[str, str], expected: str) -> None:
    with pytest.raises(LakewardError, match="the settings are not right") as raised:
        build(options, Runtime(lambda: None))
    assert expected in str(raised.value.found)
    assert "[lease" in str(raised.value.found) or build is build_ledger


def test_the_options_of_a_ledger_are_read(dynamodb: DynamoDb) -> None:
    runtime = Runtime(lambda: None, pipeline="shop")
    ledger = build_ledger({"table": "ledgers", "state": "state"}, runtime)
    assert (ledger.table, ledger.pipeline) == ("ledgers", "shop")
