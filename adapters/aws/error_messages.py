"""Translate errors of AWS services, and separate transient errors from others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

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
from botocore.exceptions import ConnectionError as NotConnected

from lakeward.core.errors import ConfigError

AS_WHOM: Final = (
    "Credentials come from where the AWS command line has them: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "AWS_PROFILE, or the role of the machine."
)
LACKS_CREDENTIALS: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    ProfileNotFound,
    UnauthorizedSSOTokenError,
)
CUT_OFF: Final = (NotConnected, HTTPClientError, ResponseStreamingError, IncompleteReadError)


@contextmanager
def explaining_errors(
    what: str, page: str, refused: Callable[[str, ClientError], Exception], later: Callable[[str, str], Exception]
) -> Iterator[None]:
    """Translate errors of a service; `what` names the requested object, `page` the documentation.

    `refused` returns the error for a response with an error code. `later` returns the error for a connection
    failure, which may be transient, and gets its text. Raises these, and ConfigError for missing credentials,
    region or profile.
    """
    try:
        yield
    except CUT_OFF as error:
        raise later(what, str(error)) from error
    except ClientError as error:
        raise refused(what, error) from error
    except LACKS_CREDENTIALS as error:
        raise ConfigError(
            f"{what} cannot be reached: there are no credentials", found=str(error), todo=f"{AS_WHOM} See {page}."
        ) from error
    except BotoCoreError as error:
        raise ConfigError(
            f"{what} cannot be reached", found=str(error), todo=f"{page} says what is needed."
        ) from error


INVALID_CREDENTIALS: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""The error codes with which services reject the credentials themselves, for any request."""


def invalid_credentials(what: str, found: str) -> ConfigError:
    """Return the error for credentials that a service does not accept."""
    return ConfigError(
        f"{what}: the credentials are not valid",
        found=found,
        todo=f"{AS_WHOM} They are refused, too, where the clock of this machine is more than five minutes off.",
    )


def access_denied(what: str, found: str, error: ClientError, page: str) -> ConfigError:
    """Return the error for credentials that lack a permission; `page` lists the needed ones."""
    return ConfigError(
        f"{what}: access is denied",
        found=f"{found} ({error.operation_name})",
        todo=f"{page} lists the permissions that are needed. Are these the right credentials?",
    )


def answer_of(error: ClientError) -> tuple[str, str, int]:
    """Return the error code of a response, the code with the message, and the HTTP status."""
    response: Any = error.response
    answer = response.get("Error", {})
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return str(answer.get("Code", "")), f"{answer.get('Code')}: {answer.get('Message')}", status
