"""Create clients of SQS, with the configuration of the AWS command line."""

from __future__ import annotations

from typing import Any, Final

from lakeward.adapters.aws.service_clients import create_client, require_boto3

_TIMEOUT: Final = 10
"""Seconds in which SQS must answer, in addition to the wait for messages."""


def create_sqs_client(region: str | None, endpoint: str | None, wait: int) -> Any:
    """Return a client of SQS; raises SetupError without boto3, ConfigError without region or profile.

    Without `region` and `endpoint` (a URL) these are the configured ones. `wait` are the seconds for which a
    receive request may wait for messages.
    """
    require_boto3("SQS", "sqs")
    from lakeward.adapters.queues.sqs.error_messages import explain_sqs_errors  # noqa: PLC0415

    with explain_sqs_errors("SQS"):
        return create_client(
            "sqs", region, endpoint=endpoint, connect_timeout=_TIMEOUT, read_timeout=_TIMEOUT + wait
        )
