"""Clients of services of AWS, reached as the AWS command line reaches them, and their errors in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal

from lakeward.core.errors import ConfigError, LakewardError, SetupError, StoreUnreachable

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

_PATIENCE: Final = 10
"""Seconds in which a connection must be made."""

_GONE: Final = (
    "EntityNotFoundException",
    "NotFound",
    "ParameterNotFound",
    "ParameterVersionNotFound",
    "ResourceNotFoundException",
)
_DENIED: Final = ("AccessDeniedException", "AccessDenied", "AuthorizationError")
_LATER: Final = (
    "ConcurrentModificationException",
    "InternalError",
    "InternalServiceError",
    "InternalServerError",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "Throttled",
    "ThrottlingException",
)


def client_of(service: str, region: str | None = None) -> Any:
    """Return a client of a service, of the usual region or this one.

    It is made within `translate_errors`, which says what is missing.
    """
    import boto3  # noqa: PLC0415  # who asks AWS nothing needs none of it
    from botocore.config import Config  # noqa: PLC0415

    config = Config(connect_timeout=_PATIENCE, user_agent_extra="lakeward")
    return boto3.Session().client(service, region_name=region, config=config)


@contextmanager
def translate_errors(what: str, page: str, done: Literal["read", "written", "told"] = "read") -> Iterator[None]:
    """Say why AWS did not let `what` be read, written or told; `page` has the permissions.

    Raises ConfigError where it is not there or not allowed, StoreUnreachable for what may be over soon, and
    SetupError without boto3.
    """
    if find_spec("boto3") is None:
        raise SetupError("boto3 is not installed, which asks AWS", todo="pip install 'lakeward[s3]'")
    from lakeward.adapters.aws.error_messages import explaining_errors  # noqa: PLC0415  # it imports boto3

    def refused(what: str, error: ClientError) -> LakewardError:
        return _refused(what, error, page, done)

    def unreachable(what: str, found: str) -> LakewardError:
        return _unreachable(what, found, done)

    with explaining_errors(what, page, refused, unreachable):
        yield


def _refused(what: str, error: ClientError, page: str, done: str) -> LakewardError:
    from lakeward.adapters.aws.error_messages import answer_of  # noqa: PLC0415  # it imports boto3

    code, said, status = answer_of(error)
    found = f"AWS says {said}"
    if code in _GONE:
        return ConfigError(
            f"{what} is not there",
            found=found,
            todo="Correct its name, or the region (AWS_DEFAULT_REGION).",
        )
    if code in _DENIED:
        found = f"{found} ({error.operation_name})"
        return ConfigError(f"{what} may not be {done}", found=found, todo=f"{page} has the permissions.")
    if code in _LATER or status >= 500:
        return _unreachable(what, found, done)
    return ConfigError(f"{what} cannot be {done}", found=found, todo=f"See {page}.")


def _unreachable(what: str, found: str, done: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"{what} cannot be {done} now",
        found=found,
        todo="Nothing is lost: run again. If that goes on: is the network there, and AWS_DEFAULT_REGION right?",
    )
