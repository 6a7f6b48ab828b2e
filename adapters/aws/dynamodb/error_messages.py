"""Translate errors of DynamoDB, and separate transient errors from others."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from botocore.exceptions import ClientError

from lakeward.adapters.aws.dynamodb.table_purpose import LEASES, Purpose
from lakeward.adapters.aws.error_messages import (
    INVALID_CREDENTIALS,
    access_denied,
    answer_of,
    explaining_errors,
    invalid_credentials,
)
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable

_FULL: Final = "ItemCollectionSizeLimitExceeded"
_LATER: Final = (
    "InternalServerError",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "ThrottlingException",
    "TransactionConflictException",
    "TransactionInProgressException",
)
"""The codes that docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html lists as
transient.
"""


def explain_dynamodb_errors(what: str, purpose: Purpose = LEASES) -> AbstractContextManager[None]:
    """Translate errors of DynamoDB; `what` names the requested object.

    Raises StoreUnreachable for transient errors, else ConfigError.
    """
    return explaining_errors(what, purpose.page, partial(_refused, purpose), _later)


def _later(what: str, found: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"{what}: DynamoDB does not answer",
        found=found,
        todo="Nothing is lost: run again. If that goes on: is the network there, and AWS_DEFAULT_REGION right?",
    )


def _refused(purpose: Purpose, what: str, error: ClientError) -> LakewardError:
    code, message, status = answer_of(error)
    found = f"DynamoDB says {message}"
    if code in _LATER or status >= 500:
        return _later(what, found)
    if _FULL in message:
        return ConfigError(
            f"{what} is full for one table of the lake: DynamoDB keeps 10 GB for it",
            found=found,
            todo=f"Take another `kind` under [{purpose.section}], or delete its items: the next run makes them "
            f"anew ({purpose.page}).",
        )
    if code == "ResourceNotFoundException":
        return ConfigError(
            f"{what} does not exist",
            found=found,
            todo=f"Make it as {purpose.page} says, or correct `table` under [{purpose.section}], or the region: "
            "AWS_DEFAULT_REGION.",
        )
    if code == "ValidationException":
        return ConfigError(
            f"{what} is no {purpose.what}",
            found=found,
            todo=f"{purpose.keys}: make one as {purpose.page} says.",
        )
    if code in INVALID_CREDENTIALS:
        return invalid_credentials(what, found)
    if code == "AccessDeniedException":
        return access_denied(what, found, error, purpose.page)
    return ConfigError(f"{what} cannot be asked", found=found, todo=f"{purpose.page} says what is needed.")
