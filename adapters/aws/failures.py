"""What botocore raises before a service has said anything, by what it means for who asked."""

from __future__ import annotations

from typing import Final

from botocore.exceptions import ConnectionError as NotConnected
from botocore.exceptions import (
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ResponseStreamingError,
    UnauthorizedSSOTokenError,
)

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
