"""Translate errors of S3, and separate transient errors from others."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from botocore.exceptions import ClientError

from lakeward.adapters.aws.error_messages import AS_WHOM, answer_of, explaining_errors
from lakeward.adapters.aws.s3.transient_errors import later
from lakeward.core.errors import ConfigError, LakewardError, SourceError

_AS_WHOM: Final = f"{AS_WHOM} See docs/reference/s3.md."
_GONE: Final = ("404", "NoSuchKey", "NotFound")
_OTHER: Final = ("412", "PreconditionFailed")
_UNKNOWN: Final = (
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
)
_ELSEWHERE: Final = (
    "301",
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
)
_LATER: Final = (
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

    Raises FileNotFoundError for an object that does not exist, OSError for one that was replaced or cannot be read,
    StoreUnreachable for transient errors, else ConfigError.
    """
    return explaining_errors(what, "docs/reference/s3.md", _refused, later)


def _refused(what: str, error: ClientError) -> LakewardError | OSError:
    code, message, status = answer_of(error)
    found = f"S3 says {message}"
    if code in _LATER or status >= 500:
        return later(what, found)
    if code == "NoSuchBucket":
        bucket = what.removeprefix("s3://").partition("/")[0]
        return ConfigError(
            f"the bucket {bucket} does not exist",
            found=found,
            todo="Correct the URL in the settings, or AWS_ENDPOINT_URL_S3 where the bucket is of another store.",
        )
    if code in _GONE:
        return FileNotFoundError(f"{what} is not there")
    if code in _OTHER:
        return OSError(f"{what} was replaced while it was read")
    if code == "InvalidObjectState":
        return OSError(f"{what} is in a storage class that must be restored before it is read")
    if code in _UNKNOWN:
        return ConfigError(f"{what}: the credentials are not valid", found=found, todo=_AS_WHOM)
    if code in _ELSEWHERE:
        return ConfigError(
            f"{what} lies in another region", found=found, todo="Name it by AWS_DEFAULT_REGION or in the profile."
        )
    if code in ("AccessDenied", "403", "Forbidden", "AllAccessDisabled"):
        return ConfigError(
            f"{what}: access is denied",
            found=f"{found} ({error.operation_name})",
            todo="docs/reference/s3.md lists the permissions that are needed. Are these the right credentials?",
        )
    todo = "docs/reference/s3.md says what is needed."
    return SourceError(f"{what} cannot be read or written", found=found, todo=todo)
