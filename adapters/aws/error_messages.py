"""What keeps a service of AWS from answering, in a person's words; what may be over soon is told apart."""

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
    """Say why a service did not do what it was asked for; `what` names that, and `page` is where help stands.

    What it says itself `refused` puts into words, and `later` what may be over soon, with what was found. Raises
    what these return, and ConfigError for what is missing here: credentials, a region, a profile.
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
"""The codes by which services refuse credentials themselves, whatever is asked for."""


def invalid_credentials(what: str, found: str) -> ConfigError:
    """Return what to say where a service does not take the credentials for valid ones."""
    return ConfigError(
        f"{what}: the credentials are not valid",
        found=found,
        todo=f"{AS_WHOM} They are refused, too, where the clock of this machine is more than five minutes off.",
    )


def access_denied(what: str, found: str, error: ClientError, page: str) -> ConfigError:
    """Return what to say where credentials lack a permission; `page` lists those that are needed."""
    return ConfigError(
        f"{what}: access is denied",
        found=f"{found} ({error.operation_name})",
        todo=f"{page} lists the permissions that are needed. Are these the right credentials?",
    )


def answer_of(error: ClientError) -> tuple[str, str, int]:
    """Return what a service said: its code, that with its words, and the status of the request."""
    said: Any = error.response
    answer = said.get("Error", {})
    status = int(said.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return str(answer.get("Code", "")), f"{answer.get('Code')}: {answer.get('Message')}", status
