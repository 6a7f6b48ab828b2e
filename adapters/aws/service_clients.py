"""Create clients of AWS services, with the configuration of the AWS command line, and translate their errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal

from lakeward.core.errors import ConfigError, LakewardError, SetupError, StoreUnreachable

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

_PATIENCE: Final = 10
"""Seconds in which a connection must be established."""

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
    """Return a client of a service in this region, or in the configured one.

    Call it within `translate_errors`, which explains what is missing.
    """
    import boto3  # noqa: PLC0415  # boto3 is optional
    from botocore.config import Config  # noqa: PLC0415

    config = Config(connect_timeout=_PATIENCE, user_agent_extra="lakeward")
    return boto3.Session().client(service, region_name=region, config=config)


@contextmanager
def translate_errors(what: str, page: str, done: Literal["read", "written", "told"] = "read") -> Iterator[None]:
    """Translate errors of reading, writing or notifying `what`; `page` lists the permissions.

    Raises ConfigError if it does not exist or access is denied, StoreUnreachable for transient errors, and
    SetupError without boto3.
    """
    if find_spec("boto3") is None:
        raise SetupError("boto3 is not installed, and AWS needs it", todo="pip install 'lakeward[s3]'")
    from lakeward.adapters.aws.error_messages import explaining_errors  # noqa: PLC0415  # it imports boto3

    def refused(what: str, error: ClientError) -> LakewardError:
        return _refused(what, error, page, done)

    def unreachable(what: str, found: str) -> LakewardError:
        return _unreachable(what, found, done)

    with explaining_errors(what, page, refused, unreachable):
        yield


def _refused(what: str, error: ClientError, page: str, done: str) -> LakewardError:
    from lakeward.adapters.aws.error_messages import answer_of  # noqa: PLC0415  # it imports boto3

    code, message, status = answer_of(error)
    found = f"AWS says {message}"
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
