"""Translate errors of S3, and separate transient errors from others."""

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
from lakeward.adapters.aws.s3.transient_errors import transient_error
from lakeward.core.errors import ConfigError, LakewardError, SourceError

_PAGE: Final = "docs/reference/s3.md"
_NOT_FOUND_CODES: Final = ("404", "NoSuchKey", "NotFound")
_REPLACED_CODES: Final = ("412", "PreconditionFailed")
_DENIED_CODES: Final = ("AccessDenied", "403", "Forbidden", "AllAccessDisabled")
_OTHER_REGION_CODES: Final = (
    "301",
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
)
_TRANSIENT_CODES: Final = (
    "InternalError",
    "OperationAborted",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
)
"""The codes that docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html lists as transient."""


def explain_s3_errors(what: str) -> AbstractContextManager[None]:
    """Translate errors of S3; `what` is the requested URL.

    Raises FileNotFoundError for an object that does not exist, OSError for one that was replaced or is in cold
    storage, StoreUnreachable for transient errors, ConfigError for a wrong bucket, region, credentials or
    permission, else SourceError.
    """
    return explain_client_errors(what, _PAGE, _response_error, transient_error)


def _response_error(what: str, error: ClientError) -> LakewardError | OSError:
    code, text, status = ErrorResponse.of(error)
    found = f"S3 says {text}"
    if code in _TRANSIENT_CODES or status >= 500:
        return transient_error(what, found)
    if code == "NoSuchBucket":
        bucket = what.removeprefix("s3://").partition("/")[0]
        return ConfigError(
            f"the bucket {bucket} does not exist",
            found=found,
            todo="Correct the URL in the settings, or AWS_ENDPOINT_URL_S3 if the bucket is on another server.",
        )
    if code in _NOT_FOUND_CODES:
        return FileNotFoundError(f"{what} does not exist")
    if code in _REPLACED_CODES:
        return OSError(f"{what} was replaced while it was read")
    if code == "InvalidObjectState":
        return OSError(f"{what} is in a storage class from which it must be restored before it can be read")
    if code in INVALID_CREDENTIALS_CODES:
        return invalid_credentials(what, found)
    if code in _DENIED_CODES:
        return access_denied(what, found, error, _PAGE)
    if code in _OTHER_REGION_CODES:
        return ConfigError(
            f"{what} is in another region",
            found=found,
            todo="Set AWS_DEFAULT_REGION, or the region of the profile, to that of the bucket.",
        )
    todo = f"Correct what S3 names; see {_PAGE}."
    return SourceError(f"{what} cannot be read or written", found=found, todo=todo)
