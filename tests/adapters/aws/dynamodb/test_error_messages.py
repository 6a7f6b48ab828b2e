"""Error messages of DynamoDB, and the options of leases and ledgers in it."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from buckets import Buckets
from tenancies import DynamoDb

from lakeward.adapters.aws import service_clients
from lakeward.adapters.aws.dynamodb.error_messages import explain_dynamodb_errors
from lakeward.adapters.aws.dynamodb.table_purpose import LEDGER
from lakeward.adapters.leases.dynamodb import build as build_lease
from lakeward.adapters.leases.dynamodb.lease import DynamoDbLease
from lakeward.adapters.ledgers.dynamodb import build as build_ledger
from lakeward.adapters.ledgers.dynamodb.ledger import DynamoDbLedger
from lakeward.core.errors import ConfigError, LakewardError, SetupError, StoreUnreachable
from lakeward.plugins import Runtime


def refused(code: str, status: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutItem"
    )


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="https://dynamodb"),
        ReadTimeoutError(endpoint_url="https://dynamodb"),
        refused("ThrottlingException"),
        refused("ProvisionedThroughputExceededException"),
        refused("InternalServerError", 500),
        refused("Odd", 503),
    ],
    ids=lambda error: (
        type(error).__name__ if not isinstance(error, ClientError) else error.response["Error"]["Code"]
    ),
)
def test_transient_errors_are_retryable(error: Exception) -> None:
    with pytest.raises(StoreUnreachable, match="DynamoDB does not answer"), explain_dynamodb_errors("the table"):
        raise error


@pytest.mark.parametrize(
    ("error", "what", "todo"),
    [
        (refused("AccessDeniedException"), "access is denied", "permissions"),
        (refused("UnrecognizedClientException"), "credentials are not valid", "clock of this machine"),
        (refused("ValidationException"), "no table of leases", "partition key"),
        (refused("Odd"), "cannot be used", "docs/reference/lease.md"),
        (NoCredentialsError(), "there are no credentials", "AWS_PROFILE"),
    ],
    ids=["denied", "unknown", "another key", "odd", "nobody"],
)
def test_permanent_errors_say_what_to_do(error: Exception, what: str, todo: str) -> None:
    with pytest.raises(ConfigError, match=what) as raised, explain_dynamodb_errors("the table"):
        raise error
    assert todo in str(raised.value.todo)
    assert not raised.value.retryable


def test_the_error_for_a_missing_table_names_its_region(dynamodb: DynamoDb) -> None:
    lease = DynamoDbLease(dynamodb.client, "nowhere", 1, dynamodb.clock)
    with pytest.raises(ConfigError) as raised:
        lease.take("shop", "a")
    assert raised.value.what == "the DynamoDB table nowhere in eu-central-1 does not exist"
    assert "docs/reference/lease.md" in str(raised.value.todo)


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


def test_the_error_for_a_missing_ledger_table_names_its_region(dynamodb: DynamoDb) -> None:
    with pytest.raises(ConfigError) as raised:
        DynamoDbLedger(dynamodb.client, "nowhere", "shop").account("shop.orders")
    assert raised.value.what == "the DynamoDB table nowhere in eu-central-1 does not exist"
    assert "docs/reference/ledger.md" in str(raised.value.todo)
    assert "[ledger]" in str(raised.value.todo)


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


def test_a_missing_boto3_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_clients, "find_spec", lambda _name: None)
    for build in (build_lease, build_ledger):
        with pytest.raises(SetupError, match="boto3 is not installed") as raised:
            build({"table": "leases"}, Runtime(lambda: None))
        assert "lakeward[dynamodb]" in str(raised.value.todo)


def test_a_missing_region_is_an_error(s3: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigError, match="DynamoDB cannot be reached") as raised:
        build_lease({"table": "leases"}, Runtime(lambda: None))
    assert "region" in str(raised.value.found)


# Settings.


def test_the_options_of_a_lease_are_read(dynamodb: DynamoDb) -> None:
    lease = build_lease({"table": "leases", "ttl": "5m"}, Runtime(lambda: None, now=dynamodb.clock))
    assert (lease.table, lease.duration, lease.now()) == ("leases", 300_000_000, dynamodb.clock())
    assert build_lease({"table": "leases"}, Runtime(lambda: None)).duration == 60_000_000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "lacks the key 'table'"),
        ({"table": "leases", "tll": "5m"}, "has no key 'tll'"),
        *(({"table": "leases", "ttl": ttl}, "a duration from") for ttl in ("9s", "2h", "5", "1d", "-5s")),
    ],
)
def test_invalid_options_of_a_lease_are_refused(options: dict[str, str], expected: str) -> None:
    with pytest.raises(LakewardError, match="the settings are not right") as raised:
        build_lease(options, Runtime(lambda: None))
    assert expected in str(raised.value.found)
    assert "[lease" in str(raised.value.found)


def test_the_options_of_a_ledger_are_read(dynamodb: DynamoDb) -> None:
    runtime = Runtime(lambda: None, pipeline="shop")
    ledger = build_ledger({"table": "ledgers", "state": "state"}, runtime)
    assert (ledger.table, ledger.pipeline) == ("ledgers", "shop")


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "[ledger] lacks the key 'table'"), ({"table": "ledgers", "ttl": "5m"}, "[ledger] has no key 'ttl'")],
)
def test_invalid_options_of_a_ledger_are_refused(options: dict[str, str], expected: str) -> None:
    with pytest.raises(LakewardError, match="the settings are not right") as raised:
        build_ledger({**options, "state": "state"}, Runtime(lambda: None))
    assert expected in str(raised.value.found)
