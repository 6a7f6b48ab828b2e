"""Translate errors of AWS services, and separate transient errors from others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ResponseStreamingError,
    UnauthorizedSSOTokenError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError

from lakeward.core.errors import ConfigError

CREDENTIALS_HINT: Final = (
    "Credentials are those of the AWS command line: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, "
    "or the role of the machine."
)
_MISSING_CREDENTIALS: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    ProfileNotFound,
    UnauthorizedSSOTokenError,
)
CONNECTION_ERRORS: Final = (BotoConnectionError, HTTPClientError, ResponseStreamingError, IncompleteReadError)
"""The errors of a request to which no complete response came."""


@contextmanager
def explain_client_errors(
    what: str,
    page: str,
    response_error: Callable[[str, ClientError], Exception],
    connection_error: Callable[[str, str], Exception],
) -> Iterator[None]:
    """Translate errors of a client of AWS; `what` names the requested object, `page` the documentation.

    `response_error` makes the error for a response with an error code. `connection_error` makes the error for a
    connection failure, which may be transient; its second argument is the text of the failure. Raises these, and
    ConfigError for missing credentials, region or profile.
    """
    try:
        yield
    except CONNECTION_ERRORS as error:
        raise connection_error(what, str(error)) from error
    except ClientError as error:
        raise response_error(what, error) from error
    except _MISSING_CREDENTIALS as error:
        raise ConfigError(
            f"{what} cannot be reached: there are no credentials",
            found=str(error),
            todo=f"Give credentials as {page} says. {CREDENTIALS_HINT}",
        ) from error
    except BotoCoreError as error:
        raise ConfigError(
            f"{what} cannot be reached",
            found=str(error),
            todo=f"Correct the configuration of AWS: {page} lists what is needed.",
        ) from error


INVALID_CREDENTIALS_CODES: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "InvalidToken",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnrecognizedClientException",
    }
)
"""The error codes with which services reject the credentials themselves, for any request."""


def invalid_credentials(what: str, found: str) -> ConfigError:
    """Return the error for credentials that a service does not accept; `found` is its response."""
    return ConfigError(
        f"{what}: the credentials are not valid",
        found=found,
        todo=f"Replace the credentials, or set the clock of this machine if it is more than five minutes off. "
        f"{CREDENTIALS_HINT}",
    )


def access_denied(what: str, found: str, error: ClientError, page: str) -> ConfigError:
    """Return the error for credentials that lack a permission; `page` lists the needed ones."""
    return ConfigError(
        f"{what}: access is denied",
        found=f"{found} ({error.operation_name})",
        todo=f"Grant the permissions that {page} lists, or use other credentials.",
    )


class ErrorResponse(NamedTuple):
    """A response with an error: its code, the code with the message, and the HTTP status (0: unknown)."""

    code: str
    text: str
    status: int

    @classmethod
    def of(cls, error: ClientError) -> ErrorResponse:
        """Return the response that a client raised as an error."""
        response: Any = error.response
        details = response.get("Error", {})
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return cls(str(details.get("Code", "")), f"{details.get('Code')}: {details.get('Message')}", status)
