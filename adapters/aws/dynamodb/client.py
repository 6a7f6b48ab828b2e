"""Create clients of DynamoDB, with the configuration of the AWS command line and short timeouts."""

from __future__ import annotations

from typing import Any, Final

from lakeward.adapters.aws.dynamodb.table_purpose import LEASES, TablePurpose
from lakeward.adapters.aws.service_clients import create_client, require_boto3

_TIMEOUT: Final = 3
"""Seconds in which DynamoDB must answer. It is short, because a lease must be renewed before it expires."""


def create_dynamodb_client(purpose: TablePurpose = LEASES) -> Any:
    """Return a client of DynamoDB; raises SetupError without boto3, ConfigError without region or profile.

    `purpose` is that of the tables, for error messages.
    """
    require_boto3("DynamoDB", "dynamodb")
    from lakeward.adapters.aws.dynamodb.error_messages import explain_dynamodb_errors  # noqa: PLC0415

    with explain_dynamodb_errors("DynamoDB", purpose):
        return create_client("dynamodb", connect_timeout=_TIMEOUT, read_timeout=_TIMEOUT)
