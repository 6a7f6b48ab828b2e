"""Translate errors of SQS, and separate transient errors from others."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from botocore.exceptions import ClientError

from lakeward.adapters.aws.error_messages import (
    INVALID_CREDENTIALS_CODES,
    ErrorResponse,
    access_denied,
    explain_client_errors,
    invalid_credentials,
)
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable

_PAGE: Final = "docs/reference/queues.md"
_NOT_FOUND_CODES: Final = (
    "AWS.SimpleQueueService.NonExistentQueue",
    "InvalidAddress",
    "NonExistentQueue",
    "QueueDoesNotExist",
)
_DENIED_CODES: Final = ("AccessDenied", "AccessDeniedException", "KmsAccessDenied", "KMS.AccessDeniedException")
_TRANSIENT_CODES: Final = (
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
    """Translate errors of SQS; `what` names the requested object, such as the queue.

    Raises StoreUnreachable for transient errors, else ConfigError.
    """
    return explain_client_errors(what, _PAGE, _response_error, _transient_error)


def _transient_error(what: str, found: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"{what}: SQS does not answer",
        found=found,
        todo="Nothing is lost: without the queue all tables are checked. If it persists, check the network, "
        "and `url` and `region` under [queue].",
    )


def _response_error(what: str, error: ClientError) -> LakewardError:
    code, text, status = ErrorResponse.of(error)
    found = f"SQS says {text}"
    if code in _TRANSIENT_CODES or status >= 500:
        return _transient_error(what, found)
    if code in _NOT_FOUND_CODES:
        return ConfigError(
            f"{what} does not exist",
            found=found,
            todo=f"Create it as {_PAGE} says, or correct `url` or `region` under [queue].",
        )
    if code in _DENIED_CODES:
        return access_denied(what, found, error, _PAGE)
    if code in INVALID_CREDENTIALS_CODES:
        return invalid_credentials(what, found)
    return ConfigError(f"{what} cannot be used", found=found, todo=f"Correct what SQS names; see {_PAGE}.")
