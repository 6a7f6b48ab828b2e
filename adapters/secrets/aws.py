"""Secrets in AWS Secrets Manager and in the Parameter Store of Systems Manager.

A secret is named by its name or ARN, `shop/database`; one whose text is a JSON object, as rotation keeps logins, by
a field of it as well: `shop/database#password`. It is asked for each time it is needed, so that one that was
rotated is the new one; nothing is kept.
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
    """A store of secrets of AWS, reached as the AWS command line reaches it."""

    kind: ClassVar[str]
    service: ClassVar[str]

    def read(self, name: str) -> Secret:
        """Return a secret, or a field of one; raises ConfigError where it is not there, without showing it."""
        (place, _, field), what = name.partition("#"), f"the secret {self.kind}:{name}"
        with translate_errors(what, _PAGE):
            found = self._ask(self._client(), place)
        return Secret(found if not field else _field_of(found, field, what))

    @abstractmethod
    def _ask(self, client: Any, place: str) -> bytes:
        """Return what stands there."""

    def _client(self) -> Any:
        return client_of(self.service)


@dataclass(frozen=True, slots=True)
class SecretsManager(AwsSecrets):
    """Secrets Manager: the version of a secret that is current."""

    kind: ClassVar[str] = "aws-secrets-manager"
    service: ClassVar[str] = "secretsmanager"

    def _ask(self, client: Any, place: str) -> bytes:
        found = client.get_secret_value(SecretId=place, VersionStage="AWSCURRENT")
        text = found.get("SecretString")
        return bytes(found["SecretBinary"]) if text is None else str(text).encode()


@dataclass(frozen=True, slots=True)
class ParameterStore(AwsSecrets):
    """Parameters of Systems Manager, deciphered."""

    kind: ClassVar[str] = "aws-ssm"
    service: ClassVar[str] = "ssm"

    def _ask(self, client: Any, place: str) -> bytes:
        return str(client.get_parameter(Name=place, WithDecryption=True)["Parameter"]["Value"]).encode()


def _field_of(found: bytes, field: str, what: str) -> bytes:
    """Return a field of a JSON object; what is wrong with that is said without a word of its text."""
    try:
        content = json.loads(found)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ConfigError(f"{what} is no JSON object", todo="Name it without `#`, or keep one there.")
    value = content.get(field)
    if value is None or isinstance(value, dict | list):
        raise ConfigError(f"{what} is not there", todo=f"The object has no text or number {field!r}.")
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def build_secrets_manager(options: Options, runtime: Runtime) -> Secrets:
    """Make what reads Secrets Manager."""
    return SecretsManager()


def build_parameter_store(options: Options, runtime: Runtime) -> Secrets:
    """Make what reads the Parameter Store."""
    return ParameterStore()


@hookimpl
def register(registry: Registry) -> None:
    """Register the secrets `aws-secrets-manager` and `aws-ssm`."""
    registry.secrets.add("aws-secrets-manager", build_secrets_manager)
    registry.secrets.add("aws-ssm", build_parameter_store)
