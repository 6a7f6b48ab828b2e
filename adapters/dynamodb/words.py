"""What DynamoDB says, in words of what to do; what may be over in a minute is told from what will not be."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from botocore.exceptions import ClientError

from lakeward.adapters.aws.failures import AS_WHOM, answer_of, explaining_errors
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable

_PAGE: Final = "docs/lease.md"
_UNKNOWN: Final = (
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
)
_LATER: Final = (
    "InternalServerError",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "ThrottlingException",
    "TransactionConflictException",
)
"""What docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html calls these."""


def told(what: str) -> AbstractContextManager[None]:
    """Say what DynamoDB refuses in a person's words; `what` is what is asked for.

    Raises StoreUnreachable for what may be over soon, and else ConfigError.
    """
    return explaining_errors(what, _PAGE, _refused, _later)


def _later(what: str, found: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"{what}: DynamoDB does not answer",
        found=found,
        todo="Nothing is lost: run again. If that goes on: is the network there, and AWS_DEFAULT_REGION right?",
    )


def _refused(what: str, error: ClientError) -> LakewardError:
    code, said, status = answer_of(error)
    found = f"DynamoDB says {said}"
    if code in _LATER or status >= 500:
        return _later(what, found)
    if code == "ResourceNotFoundException":
        return ConfigError(
            f"{what} does not exist",
            found=found,
            todo=f"Make it as {_PAGE} says, or correct `table` under [lease], or the region: AWS_DEFAULT_REGION.",
        )
    if code == "ValidationException":
        return ConfigError(
            f"{what} is no table of leases",
            found=found,
            todo=f"Its partition key must be `lease`, a string, and it has no sort key: make one as {_PAGE} says.",
        )
    if code in _UNKNOWN:
        return ConfigError(
            f"{what}: the credentials are not valid",
            found=found,
            todo=f"{AS_WHOM} They are refused, too, where the clock of this machine is more than five minutes off.",
        )
    if code == "AccessDeniedException":
        return ConfigError(
            f"{what}: access is denied",
            found=f"{found} ({error.operation_name})",
            todo=f"{_PAGE} lists the permissions that are needed. Are these the right credentials?",
        )
    return ConfigError(f"{what} cannot be asked", found=found, todo=f"{_PAGE} says what is needed.")
