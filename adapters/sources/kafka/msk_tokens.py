"""Tokens with which IAM of AWS lets a client read a cluster of Amazon MSK.

docs.aws.amazon.com/msk/latest/developerguide/iam-access-control.html. The library of AWS signs them, with the
credentials that the AWS command line would find.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from lakeward.core.errors import ConfigError, SetupError

_MILLIS: Final = 1000


@dataclass(frozen=True, slots=True)
class MskTokens:
    """Signs tokens for the clusters of one region."""

    region: str

    def token(self) -> tuple[str, float]:
        """Return a token, and the time until which it is valid, in seconds since 1970.

        Raises SetupError without the library, and ConfigError without credentials.
        """
        if find_spec("aws_msk_iam_sasl_signer") is None:
            raise SetupError(
                "the library is not installed that signs tokens of AWS for Kafka",
                todo="Install it: pip install 'lakeward[kafka,msk]'.",
            )
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415  # an optional library
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
        from botocore.session import Session  # noqa: PLC0415

        try:
            if Session().get_credentials() is None:
                raise _no_credentials("none are found")
            token, expires = MSKAuthTokenProvider.generate_auth_token(self.region)
        except (ValueError, BotoCoreError, ClientError) as error:
            raise _no_credentials(str(error)) from None
        return token, expires / _MILLIS

    def __call__(self, _: str) -> tuple[str, float]:
        """Return a token to a client that asks for one."""
        return self.token()


def _no_credentials(reason: str) -> ConfigError:
    return ConfigError(
        "AWS gives no credentials to sign a token for the broker with",
        found=reason,
        todo="`sasl_mechanism` under [source.security] is `AWS_MSK_IAM`: let the AWS command line find credentials "
        "here (`aws sts get-caller-identity`).",
    )
