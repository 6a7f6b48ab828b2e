"""S3 that does not answer, whoever asked: what may be over soon, so that a run is only tried again."""

from __future__ import annotations

import re
from typing import Final

from lakeward.core.errors import StoreUnreachable

JAVA: Final = frozenset(
    (
        "java.net.ConnectException",
        "java.net.NoRouteToHostException",
        "java.net.SocketTimeoutException",
        "java.net.UnknownHostException",
        "org.apache.hadoop.fs.s3a.AWSServiceThrottledException",
        "org.apache.hadoop.fs.s3a.AWSStatus500Exception",
    )
)
"""What Java throws, as the SDK, Hadoop or Iceberg pass it on."""

_ARROW: Final = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT|THROTTLING)"
)


_OBJECT_STORE: Final = re.compile(
    r"error sending request|timed out|connection (closed|reset)|SlowDown|\b(429|50[0234]) [A-Z]", re.IGNORECASE
)


def is_of_arrow(error: BaseException) -> bool:
    """Whether Arrow, through which PyIceberg reads, says it (aws-sdk-cpp, S3Errors.h)."""
    return isinstance(error, OSError) and _ARROW.search(str(error)) is not None


def is_of_object_store(error: BaseException) -> bool:
    """Whether delta-rs says it, which passes on a tree of lines of the store below it, and no code."""
    return "Generic S3 error" in str(error) and _OBJECT_STORE.search(str(error)) is not None


def later(what: str, found: str) -> StoreUnreachable:
    """Return the error that says so of `what`."""
    return StoreUnreachable(
        f"{what}: S3 does not answer",
        found=found,
        todo="Nothing is lost: run again. If that goes on: is the network there, and AWS_ENDPOINT_URL_S3 right?",
    )
