"""Translate errors of DynamoDB, and separate transient errors from others."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from botocore.exceptions import ClientError

from lakeward.adapters.aws.dynamodb.table_purpose import LEASES, TablePurpose
from lakeward.adapters.aws.error_messages import (
    INVALID_CREDENTIALS_CODES,
    ErrorResponse,
    access_denied,
    explain_client_errors,
    invalid_credentials,
)
from lakeward.adapters.aws.service_clients import retry_advice
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable

_COLLECTION_FULL: Final = "ItemCollectionSizeLimitExceeded"
_TRANSIENT_CODES: Final = (
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


def explain_dynamodb_errors(what: str, purpose: TablePurpose = LEASES) -> AbstractContextManager[None]:
    """Translate errors of DynamoDB; `what` names the requested object, a table of this `purpose`.

    Raises StoreUnreachable for transient errors, else ConfigError.
    """
    return explain_client_errors(what, purpose.page, partial(_response_error, purpose), _transient_error)


def _transient_error(what: str, found: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"{what}: DynamoDB does not answer", found=found, todo=retry_advice("AWS_DEFAULT_REGION")
    )


def _response_error(purpose: TablePurpose, what: str, error: ClientError) -> LakewardError:
    code, text, status = ErrorResponse.of(error)
    found = f"DynamoDB says {text}"
    if code in _TRANSIENT_CODES or status >= 500:
        return _transient_error(what, found)
    if code in INVALID_CREDENTIALS_CODES:
        return invalid_credentials(what, found)
    if code == "AccessDeniedException":
        return access_denied(what, found, error, purpose.page)
    return _table_error(purpose, what, code, found)


def _table_error(purpose: TablePurpose, what: str, code: str, found: str) -> ConfigError:
    """Return the error for a table that is missing, full or made for something else."""
    if _COLLECTION_FULL in found:
        return ConfigError(
            f"{what} is full for one table of the lake: DynamoDB allows 10 GB for it",
            found=found,
            todo=f"Set another `kind` under [{purpose.section}], or delete the items of that table: the next run "
            f"creates them again ({purpose.page}).",
        )
    if code == "ResourceNotFoundException":
        return ConfigError(
            f"{what} does not exist",
            found=found,
            todo=f"Create it as {purpose.page} says, or correct `table` under [{purpose.section}] or the region "
            "(AWS_DEFAULT_REGION).",
        )
    if code == "ValidationException":
        return ConfigError(
            f"{what} is no {purpose.name}",
            found=found,
            todo=f"{purpose.keys}. Create one as {purpose.page} says.",
        )
    return ConfigError(
        f"{what} cannot be used", found=found, todo=f"Correct what DynamoDB names; see {purpose.page}."
    )
