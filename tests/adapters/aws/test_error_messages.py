"""Errors of DynamoDB and SQS: which of them are retryable, and what the others say."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from lakeward.adapters.aws import service_clients
from lakeward.adapters.aws.dynamodb.error_messages import explain_dynamodb_errors
from lakeward.adapters.aws.s3.access import find_access
from lakeward.adapters.leases.dynamodb import build as build_lease
from lakeward.adapters.ledgers.dynamodb import build as build_ledger
from lakeward.adapters.notifiers import build_sns
from lakeward.adapters.queues.sqs.client import create_sqs_client
from lakeward.adapters.queues.sqs.error_messages import explain_sqs_errors
from lakeward.core.errors import ConfigError, SetupError, StoreUnreachable
from lakeward.plugins import Runtime
from lakeward.plugins.testing.laws.notifiers import NOTICE

EXPLAIN = {"DynamoDB": explain_dynamodb_errors, "SQS": explain_sqs_errors}
TOPIC = "arn:aws:sns:eu-central-1:123456789012:data-team"


def refused(code: str, status: int = 400) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "PutItem")


def name_of(error: Any) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else getattr(error, "fmt", error)


@pytest.mark.parametrize(
    ("service", "error"),
    [
        *((name, EndpointConnectionError(endpoint_url="https://a.service")) for name in EXPLAIN),
        *((name, ReadTimeoutError(endpoint_url="https://a.service")) for name in EXPLAIN),
        *(("DynamoDB", refused(f"{code}Exception")) for code in ("Throttling", "ProvisionedThroughputExceeded")),
        *(("DynamoDB", refused(*error)) for error in (("InternalServerError", 500), ("Odd", 503))),
        *(("SQS", refused(f"{service}OverLimit", 403)) for service in ("", "AWS.SimpleQueueService.")),
        *(
            ("SQS", refused(*error))
            for error in (("RequestThrottled", 403), ("ServiceUnavailable", 503), ("Odd", 500))
        ),
    ],
    ids=name_of,
)
def test_transient_errors_are_retryable(service: str, error: Exception) -> None:
    with pytest.raises(StoreUnreachable, match=f"{service} does not answer"), EXPLAIN[service]("the place"):
        raise error


@pytest.mark.parametrize(
    ("service", "error", "what", "todo"),
    [
        ("DynamoDB", refused("AccessDeniedException"), "access is denied", "permissions"),
        ("DynamoDB", refused("UnrecognizedClientException"), "credentials are not valid", "clock of this machine"),
        ("DynamoDB", refused("ValidationException"), "no table of leases", "partition key"),
        ("DynamoDB", refused("Odd"), "cannot be used", "docs/reference/lease.md"),
        ("SQS", refused("AWS.SimpleQueueService.NonExistentQueue"), "does not exist", "`url` or `region`"),
        ("SQS", refused("QueueDoesNotExist"), "does not exist", "docs/reference/queues.md"),
        ("SQS", refused("AccessDenied", 403), "access is denied", "permissions"),
        ("SQS", refused("InvalidClientTokenId", 403), "credentials are not valid", "clock of this machine"),
        ("SQS", refused("Odd"), "cannot be used", "docs/reference/queues.md"),
        *((name, NoCredentialsError(), "there are no credentials", "AWS_PROFILE") for name in EXPLAIN),
    ],
    ids=lambda one: name_of(one) if isinstance(one, Exception) else None,
)
def test_permanent_errors_say_what_to_do(service: str, error: Exception, what: str, todo: str) -> None:
    with pytest.raises(ConfigError, match=what) as raised, EXPLAIN[service]("the place"):
        raise error
    assert todo in str(raised.value.todo)
    assert not raised.value.retryable
    assert "secret word" not in str(raised.value)


@pytest.mark.parametrize(
    ("use", "extra"),
    [
        (lambda runtime: build_lease({"table": "leases"}, runtime), "dynamodb"),
        (lambda runtime: build_ledger({"table": "leases"}, runtime), "dynamodb"),
        (lambda _: create_sqs_client(None, None, 0), "sqs"),
        (lambda runtime: build_sns({"topic": TOPIC}, runtime).send(NOTICE), ""),
        (lambda _: find_access(), "s3"),
    ],
    ids=["lease", "ledger", "queue", "notifier", "bucket"],
)
def test_a_missing_boto3_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch, use: Any, extra: str) -> None:
    monkeypatch.setattr(service_clients, "find_spec", lambda _name: None)
    with pytest.raises(SetupError, match="boto3 is not installed") as raised:
        use(Runtime(lambda: None))
    assert f"lakeward[{extra}" in str(raised.value.todo)
