"""Create clients of AWS services, with the configuration of the AWS command line, and translate their errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal

from lakeward.core.errors import ConfigError, LakewardError, SetupError, StoreUnreachable

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

_CONNECT_TIMEOUT: Final = 10
"""Seconds in which a connection must be established."""

_ATTEMPTS: Final = 3
"""How often a request is sent in all, by a client with a read timeout."""

_NOT_FOUND_CODES: Final = (
    "EntityNotFoundException",
    "NotFound",
    "ParameterNotFound",
    "ParameterVersionNotFound",
    "ResourceNotFoundException",
)
_DENIED_CODES: Final = ("AccessDeniedException", "AccessDenied", "AuthorizationError")
_TRANSIENT_CODES: Final = (
    "ConcurrentModificationException",
    "InternalError",
    "InternalServiceError",
    "InternalServerError",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "Throttled",
    "ThrottlingException",
)


def require_boto3(user: str, extra: str) -> None:
    """Raise SetupError if boto3 is not installed; `user` needs it, and `extra` of lakeward brings it."""
    if find_spec("boto3") is None:
        raise SetupError(f"boto3 is not installed, and {user} needs it", todo=f"pip install 'lakeward[{extra}]'")


def create_client(
    service: str,
    region: str | None = None,
    *,
    endpoint: str | None = None,
    connect_timeout: float = _CONNECT_TIMEOUT,
    read_timeout: float | None = None,
) -> Any:
    """Return a client of a service; without `region` and `endpoint` (a URL) these are the configured ones.

    The timeouts are in seconds. With a `read_timeout` a request is sent at most three times; without one, the
    defaults of botocore apply. Call it in a context that translates errors, such as `explain_errors`: it raises
    errors of botocore for a missing region or profile.
    """
    import boto3  # noqa: PLC0415  # boto3 is optional
    from botocore.config import Config  # noqa: PLC0415

    limits: dict[str, Any] = {"connect_timeout": connect_timeout}
    if read_timeout is not None:
        retries = {"mode": "standard", "total_max_attempts": _ATTEMPTS}
        limits |= {"read_timeout": read_timeout, "retries": retries}
    config = Config(user_agent_extra="lakeward", **limits)
    return boto3.Session().client(service, region_name=region, endpoint_url=endpoint, config=config)


@contextmanager
def explain_errors(
    what: str, page: str, action: Literal["read", "written", "published to"] = "read"
) -> Iterator[None]:
    """Translate errors of an `action` on `what`; `page` lists the permissions.

    Raises ConfigError if `what` does not exist or access is denied, StoreUnreachable for transient errors, and
    SetupError without boto3.
    """
    require_boto3("AWS", "s3")
    from lakeward.adapters.aws.error_messages import explain_client_errors  # noqa: PLC0415  # it imports boto3

    def response_error(what: str, error: ClientError) -> LakewardError:
        return _response_error(what, error, page, action)

    def connection_error(what: str, found: str) -> LakewardError:
        return _transient_error(what, found, action)

    with explain_client_errors(what, page, response_error, connection_error):
        yield


def _response_error(what: str, error: ClientError, page: str, action: str) -> LakewardError:
    from lakeward.adapters.aws.error_messages import ErrorResponse  # noqa: PLC0415  # it imports boto3

    code, text, status = ErrorResponse.of(error)
    found = f"AWS says {text}"
    if code in _NOT_FOUND_CODES:
        return ConfigError(
            f"{what} does not exist",
            found=found,
            todo="Create it, or correct its name or the region (AWS_DEFAULT_REGION).",
        )
    if code in _DENIED_CODES:
        found = f"{found} ({error.operation_name})"
        todo = f"Grant the permissions that {page} lists."
        return ConfigError(f"{what} may not be {action}", found=found, todo=todo)
    if code in _TRANSIENT_CODES or status >= 500:
        return _transient_error(what, found, action)
    return ConfigError(f"{what} cannot be {action}", found=found, todo=f"Correct what AWS names; see {page}.")


def _transient_error(what: str, found: str, action: str) -> StoreUnreachable:
    return StoreUnreachable(f"{what} cannot be {action} now", found=found, todo=retry_advice("AWS_DEFAULT_REGION"))


def retry_advice(setting: str) -> str:
    """Return what to do about a transient error; `setting` decides which server is reached."""
    return f"Nothing is lost: run again. If it persists, check the network and {setting}."
