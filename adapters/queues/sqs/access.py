"""Create clients of SQS, with the configuration of the AWS command line."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

from lakeward.core.errors import SetupError

_PATIENCE: Final = 10
"""Seconds in which SQS must answer, in addition to the wait for messages."""

_ATTEMPTS: Final = 3


def find_client(region: str | None, endpoint: str | None, wait: int) -> Any:
    """Return a client of SQS; raises SetupError without boto3, ConfigError without region or profile.

    `wait` is in seconds.
    """
    if find_spec("boto3") is None:
        raise SetupError("boto3 is not installed, and SQS needs it", todo="pip install 'lakeward[sqs]'")
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    from lakeward.adapters.queues.sqs.error_messages import explain_sqs_errors  # noqa: PLC0415

    config = Config(
        connect_timeout=_PATIENCE,
        read_timeout=_PATIENCE + wait,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        user_agent_extra="lakeward",
    )
    with explain_sqs_errors("SQS"):
        return boto3.Session().client("sqs", region_name=region, endpoint_url=endpoint, config=config)
