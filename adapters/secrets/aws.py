"""Secrets in AWS Secrets Manager and in the Parameter Store of Systems Manager.

A setting gives the name or the ARN of a secret, such as `shop/database`. If the secret is a JSON object, as
rotation stores logins, the setting can name a field: `shop/database#password`. A secret is not cached, but read
each time it is needed, so that a rotated secret takes effect.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from lakeward.adapters.aws.service_clients import create_client, explain_errors
from lakeward.core.errors import ConfigError
from lakeward.core.ports import Secrets
from lakeward.core.settings.secrets import Secret
from lakeward.plugins import Options, Registry, Runtime, hookimpl

_PAGE: Final = "docs/how-to/aws/secrets.md"


@dataclass(frozen=True, slots=True)
class AwsSecrets(ABC):
    """A secret store of AWS, with the credentials and region of the AWS command line.

    `kind` is its name in the settings, `service` that of its client in boto3.
    """

    kind: ClassVar[str]
    service: ClassVar[str]

    def read(self, name: str) -> Secret:
        """Return a secret, or one of its fields.

        Raises ConfigError if it does not exist or access is denied, StoreUnreachable if AWS does not answer. Errors
        do not show the content.
        """
        stored_name, _, field = name.partition("#")
        what = f"the secret {self.kind}:{name}"
        with explain_errors(what, _PAGE):
            content = self._fetch(self._client(), stored_name)
        return Secret(_field_of(content, field, what) if field else content)

    @abstractmethod
    def _fetch(self, client: Any, name: str) -> bytes:
        """Return the stored bytes."""

    def _client(self) -> Any:
        return create_client(self.service)


@dataclass(frozen=True, slots=True)
class SecretsManager(AwsSecrets):
    """Reads the current version of a secret in Secrets Manager."""

    kind: ClassVar[str] = "aws-secrets-manager"
    service: ClassVar[str] = "secretsmanager"

    def _fetch(self, client: Any, name: str) -> bytes:
        response = client.get_secret_value(SecretId=name, VersionStage="AWSCURRENT")
        text = response.get("SecretString")
        return bytes(response["SecretBinary"]) if text is None else str(text).encode()


@dataclass(frozen=True, slots=True)
class ParameterStore(AwsSecrets):
    """Reads decrypted parameters of Systems Manager."""

    kind: ClassVar[str] = "aws-ssm"
    service: ClassVar[str] = "ssm"

    def _fetch(self, client: Any, name: str) -> bytes:
        return str(client.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]).encode()


def _field_of(text: bytes, field: str, what: str) -> bytes:
    """Return a field of a JSON object, a text or a number. Errors do not show the text of the object."""
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ConfigError(
            f"{what} is no JSON object",
            todo="Remove `#` and the field from its name, or store a JSON object.",
        )
    value = content.get(field)
    if value is None or isinstance(value, dict | list):
        raise ConfigError(
            f"{what} has no field {field!r} with a text or a number",
            todo="Correct the field after `#`, or add it to the object.",
        )
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def build_secrets_manager(options: Options, runtime: Runtime) -> Secrets:
    """Build the reader of Secrets Manager; no request is sent yet."""
    return SecretsManager()


def build_parameter_store(options: Options, runtime: Runtime) -> Secrets:
    """Build the reader of the Parameter Store; no request is sent yet."""
    return ParameterStore()


@hookimpl
def register(registry: Registry) -> None:
    """Register the secrets `aws-secrets-manager` and `aws-ssm`."""
    registry.secrets.add("aws-secrets-manager", build_secrets_manager)
    registry.secrets.add("aws-ssm", build_parameter_store)
