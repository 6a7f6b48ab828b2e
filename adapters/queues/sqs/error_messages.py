"""Translate errors of SQS, and separate transient errors from others."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from botocore.exceptions import ClientError

from lakeward.adapters.aws.error_messages import (
    INVALID_CREDENTIALS,
    access_denied,
    answer_of,
    explaining_errors,
    invalid_credentials,
)
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable

_PAGE: Final = "docs/reference/queues.md"
_MISSING: Final = (
    "AWS.SimpleQueueService.NonExistentQueue",
    "InvalidAddress",
    "NonExistentQueue",
    "QueueDoesNotExist",
)
_DENIED: Final = ("AccessDenied", "AccessDeniedException", "KmsAccessDenied", "KMS.AccessDeniedException")
_LATER: Final = (
    "AWS.SimpleQueueService.OverLimit",
    "InternalError",
    "InternalFailure",
    "KmsThrottled",
    "OverLimit",
    "RequestThrottled",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
)
"""The codes that docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html lists as
transient.
"""


def explain_sqs_errors(what: str) -> AbstractContextManager[None]:
    """Translate errors of SQS; `what` names the requested object.

    Raises StoreUnreachable for transient errors, else ConfigError.
    """
    return explaining_errors(what, _PAGE, _refused, _later)


def _later(what: str, found: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"{what}: SQS does not answer",
        found=found,
        todo="Nothing is lost. If that goes on: is the network there, are `url` and `region` under [queue] right?",
    )


def _refused(what: str, error: ClientError) -> LakewardError:
    code, message, status = answer_of(error)
    found = f"SQS says {message}"
    if code in _LATER or status >= 500:
        return _later(what, found)
    if code in _MISSING:
        return ConfigError(
            f"{what} does not exist",
            found=found,
            todo=f"Make it as {_PAGE} says, or correct `url` or `region` under [queue].",
        )
    if code in _DENIED:
        return access_denied(what, found, error, _PAGE)
    if code in INVALID_CREDENTIALS:
        return invalid_credentials(what, found)
    return ConfigError(f"{what} cannot be asked", found=found, todo=f"{_PAGE} says what is needed.")
