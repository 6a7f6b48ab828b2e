"""Create clients of DynamoDB, with the configuration of the AWS command line and short timeouts."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

from lakeward.adapters.aws.dynamodb.table_purpose import LEASES, Purpose
from lakeward.core.errors import SetupError

_PATIENCE: Final = 3
"""Seconds in which DynamoDB must answer. A lease must be renewed within its time, so it is short."""

_ATTEMPTS: Final = 3


def find_client(purpose: Purpose = LEASES) -> Any:
    """Return a client of DynamoDB; raises SetupError without boto3, ConfigError without region or profile."""
    if find_spec("boto3") is None:
        raise SetupError("boto3 is not installed, and DynamoDB needs it", todo="pip install 'lakeward[dynamodb]'")
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    from lakeward.adapters.aws.dynamodb.error_messages import explain_dynamodb_errors  # noqa: PLC0415

    config = Config(
        connect_timeout=_PATIENCE,
        read_timeout=_PATIENCE,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        user_agent_extra="lakeward",
    )
    with explain_dynamodb_errors("DynamoDB", purpose):
        return boto3.Session().client("dynamodb", config=config)
