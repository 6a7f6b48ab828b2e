"""Secrets in AWS Secrets Manager and in the Parameter Store of Systems Manager.

A secret is named by its name or ARN, as in `shop/database`. If its text is a JSON object, as rotation stores
logins, a field of it can be named: `shop/database#password`. A secret is read each time it is needed and not
cached, so that a rotated secret takes effect.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from lakeward.adapters.aws.service_clients import client_of, translate_errors
from lakeward.core.errors import ConfigError
from lakeward.core.ports import Secrets
from lakeward.core.settings.secrets import Secret
from lakeward.plugins import Options, Registry, Runtime, hookimpl

_PAGE: Final = "docs/how-to/aws/secrets.md"


@dataclass(frozen=True, slots=True)
class AwsSecrets(ABC):
    """A secret store of AWS, with the credentials and region of the AWS command line."""

    kind: ClassVar[str]
    service: ClassVar[str]

    def read(self, name: str) -> Secret:
        """Return a secret, or a field of one. Raises ConfigError, without its content, if it does not exist."""
        (place, _, field), what = name.partition("#"), f"the secret {self.kind}:{name}"
        with translate_errors(what, _PAGE):
            content = self._ask(self._client(), place)
        return Secret(content if not field else _field_of(content, field, what))

    @abstractmethod
    def _ask(self, client: Any, place: str) -> bytes:
        """Return the stored bytes."""

    def _client(self) -> Any:
        return client_of(self.service)


@dataclass(frozen=True, slots=True)
class SecretsManager(AwsSecrets):
    """Reads the current version of a secret in Secrets Manager."""

    kind: ClassVar[str] = "aws-secrets-manager"
    service: ClassVar[str] = "secretsmanager"

    def _ask(self, client: Any, place: str) -> bytes:
        response = client.get_secret_value(SecretId=place, VersionStage="AWSCURRENT")
        text = response.get("SecretString")
        return bytes(response["SecretBinary"]) if text is None else str(text).encode()


@dataclass(frozen=True, slots=True)
class ParameterStore(AwsSecrets):
    """Reads decrypted parameters of Systems Manager."""

    kind: ClassVar[str] = "aws-ssm"
    service: ClassVar[str] = "ssm"

    def _ask(self, client: Any, place: str) -> bytes:
        return str(client.get_parameter(Name=place, WithDecryption=True)["Parameter"]["Value"]).encode()


def _field_of(text: bytes, field: str, what: str) -> bytes:
    """Return a field of a JSON object. Errors do not show its text."""
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ConfigError(f"{what} is no JSON object", todo="Name it without `#`, or keep one there.")
    value = content.get(field)
    if value is None or isinstance(value, dict | list):
        raise ConfigError(f"{what} is not there", todo=f"The object has no text or number {field!r}.")
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def build_secrets_manager(options: Options, runtime: Runtime) -> Secrets:
    """Build the reader of Secrets Manager."""
    return SecretsManager()


def build_parameter_store(options: Options, runtime: Runtime) -> Secrets:
    """Build the reader of the Parameter Store."""
    return ParameterStore()


@hookimpl
def register(registry: Registry) -> None:
    """Register the secrets `aws-secrets-manager` and `aws-ssm`."""
    registry.secrets.add("aws-secrets-manager", build_secrets_manager)
    registry.secrets.add("aws-ssm", build_parameter_store)
