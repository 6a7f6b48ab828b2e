"""Error messages of SQS, and the options of its queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from queues_of_aws import Sqs

from lakeward.adapters.aws import service_clients
from lakeward.adapters.queues import sqs as plugin
from lakeward.adapters.queues.sqs import client as sqs_client
from lakeward.adapters.queues.sqs.error_messages import explain_sqs_errors
from lakeward.core.errors import ConfigError, LakewardError, SetupError, StoreUnreachable
from lakeward.plugins import Runtime

ADDED = {"tables": [], "tables_at": lambda _: ()}


def refused(code: str, status: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "ReceiveMessage"
    )


def code_of(error: Any) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else type(error).__name__


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="https://sqs"),
        ReadTimeoutError(endpoint_url="https://sqs"),
        refused("OverLimit", 403),
        refused("AWS.SimpleQueueService.OverLimit", 403),
        refused("RequestThrottled", 403),
        refused("ServiceUnavailable", 503),
        refused("Odd", 500),
    ],
    ids=code_of,
)
def test_transient_errors_are_retryable(error: Exception) -> None:
    with pytest.raises(StoreUnreachable, match="SQS does not answer"), explain_sqs_errors("the queue"):
        raise error


@pytest.mark.parametrize(
    ("error", "what", "todo"),
    [
        (refused("AWS.SimpleQueueService.NonExistentQueue"), "does not exist", "`url` or `region`"),
        (refused("QueueDoesNotExist"), "does not exist", "docs/reference/queues.md"),
        (refused("AccessDenied", 403), "access is denied", "permissions"),
        (refused("InvalidClientTokenId", 403), "credentials are not valid", "clock of this machine"),
        (refused("Odd"), "cannot be used", "docs/reference/queues.md"),
        (NoCredentialsError(), "there are no credentials", "AWS_PROFILE"),
    ],
    ids=lambda one: code_of(one) if isinstance(one, Exception) else None,
)
def test_permanent_errors_say_what_to_do(error: Exception, what: str, todo: str) -> None:
    with pytest.raises(ConfigError, match=what) as raised, explain_sqs_errors("the queue"):
        raise error
    assert todo in str(raised.value.todo)
    assert not raised.value.retryable


def built(url: str, **options: Any) -> Any:
    return plugin.build({**ADDED, "url": url, **options}, Runtime(lambda: None, file=Path("lakeward.toml")))


def test_the_error_for_a_missing_queue_names_it(sqs: Sqs) -> None:
    queue = built(f"{sqs.url}-else", wait=0)
    with pytest.raises(ConfigError, match=f"the queue {sqs.url}-else does not exist"):
        queue.receive()
    queue.client.close()


def test_a_queue_without_a_server_does_not_answer(sqs: Sqs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_clients, "_ATTEMPTS", 1)
    queue = built(sqs.url, wait=0, endpoint="http://127.0.0.1:9")
    with pytest.raises(StoreUnreachable, match="SQS does not answer"):
        queue.receive()
    queue.client.close()


def test_the_settings_set_region_endpoint_and_times(sqs: Sqs) -> None:
    queue = built(sqs.url, region="eu-west-1", endpoint="http://127.0.0.1:9", wait=20, visibility="2h")
    assert (queue.client.meta.region_name, queue.client.meta.endpoint_url) == ("eu-west-1", "http://127.0.0.1:9")
    assert (queue.wait, queue.visibility) == (20, 7200)
    assert queue.client.meta.config.read_timeout > 20
    queue.client.close()


@pytest.mark.parametrize(
    "options",
    [{"url": "landing"}, {"url": "https://sqs"}, {"wait": 21}, {"wait": -1}, {"visibility": "30s"}, {"region": ""}],
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        built(**{"url": "https://sqs.eu-central-1.amazonaws.com/123456789012/landing", **options})


def test_a_missing_boto3_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_clients, "find_spec", lambda name: None)
    with pytest.raises(SetupError) as raised:
        sqs_client.create_sqs_client(None, None, 0)
    assert "lakeward[sqs]" in str(raised.value.todo)


def test_no_secret_is_shown(sqs: Sqs) -> None:
    queue = built(sqs.url)
    assert "client" not in repr(queue)
    with pytest.raises(LakewardError) as raised, explain_sqs_errors("the queue"):
        raise refused("InvalidClientTokenId")
    assert "secret word" not in str(raised.value)
    queue.client.close()
