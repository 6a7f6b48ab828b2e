"""Recognize transient errors of S3 in the errors of any client; a run that ends with one may be repeated."""

from __future__ import annotations

import re
from typing import Final

from lakeward.adapters.aws.service_clients import retry_advice
from lakeward.core.errors import StoreUnreachable

JAVA_EXCEPTIONS: Final = frozenset(
    (
        "java.net.ConnectException",
        "java.net.NoRouteToHostException",
        "java.net.SocketTimeoutException",
        "java.net.UnknownHostException",
        "org.apache.hadoop.fs.s3a.AWSServiceThrottledException",
        "org.apache.hadoop.fs.s3a.AWSStatus500Exception",
    )
)
"""The Java exceptions of transient errors that the SDK, Hadoop or Iceberg pass on."""

_ARROW: Final = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT|THROTTLING)"
)
_OBJECT_STORE: Final = re.compile(
    r"error sending request|timed out|connection (closed|reset)|SlowDown|\b(429|50[0234]) [A-Z]", re.IGNORECASE
)


def is_of_arrow(error: BaseException) -> bool:
    """Return True for a transient error of Arrow, through which PyIceberg reads (aws-sdk-cpp, S3Errors.h)."""
    return isinstance(error, OSError) and _ARROW.search(str(error)) is not None


def is_of_object_store(error: BaseException) -> bool:
    """Return True for a transient error of delta-rs, which passes on the text of its store and no code."""
    return "Generic S3 error" in str(error) and _OBJECT_STORE.search(str(error)) is not None


def transient_error(what: str, found: str) -> StoreUnreachable:
    """Return the error for a transient failure of a request for `what`; `found` is the text of the failure."""
    return StoreUnreachable(f"{what}: S3 does not answer", found=found, todo=retry_advice("AWS_ENDPOINT_URL_S3"))
