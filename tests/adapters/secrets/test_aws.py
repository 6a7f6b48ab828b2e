"""Secrets of AWS: their laws and errors, with Secrets Manager and Parameter Store of moto."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from lakeward.adapters.aws import service_clients
from lakeward.adapters.secrets.aws import AwsSecrets, ParameterStore, SecretsManager
from lakeward.core.errors import ConfigError, LakewardError, SetupError, StoreUnreachable
from lakeward.plugins.manager import load, registry_of
from lakeward.plugins.options import _named_secret
from lakeward.plugins.testing import SecretStoreUnderTest, secrets_contract

WORD = "s3cr\u00e9t of a database"


def keep(name: str, value: str | bytes) -> None:
    """Store or replace a secret in both stores; bytes only in Secrets Manager."""
    session = boto3.Session()  # the default one keeps the credentials that it began with
    client = session.client("secretsmanager")
    expected = {"SecretBinary": value} if isinstance(value, bytes) else {"SecretString": value}
    try:
        client.create_secret(Name=name, **expected)
    except client.exceptions.ResourceExistsException:
        client.put_secret_value(SecretId=name, **expected)
    if isinstance(value, str):
        session.client("ssm").put_parameter(Name=name, Value=value, Type="SecureString", Overwrite=True)


def in_secrets_manager(aws_services: None) -> SecretStoreUnderTest:
    keep("/shop/plain", WORD)
    return SecretStoreUnderTest(secrets=SecretsManager(), name="/shop/plain", value=WORD.encode())


def in_a_field(aws_services: None) -> SecretStoreUnderTest:
    keep("/shop/login", json.dumps({"username": "lakeward", "password": WORD}))
    variables = {"name": "/shop/login#password", "missing": "/shop/login#word"}
    return SecretStoreUnderTest(secrets=SecretsManager(), value=WORD.encode(), **variables)


def in_the_parameter_store(aws_services: None) -> SecretStoreUnderTest:
    keep("/shop/plain", WORD)
    return SecretStoreUnderTest(secrets=ParameterStore(), name="/shop/plain", value=WORD.encode())


TestSecretsManager = secrets_contract(in_secrets_manager)
TestField = secrets_contract(in_a_field)
TestParameterStore = secrets_contract(in_the_parameter_store)

BOTH = pytest.mark.parametrize("store", [SecretsManager(), ParameterStore()], ids=lambda store: store.kind)


@BOTH
@pytest.mark.usefixtures("aws_services")
def test_a_rotated_secret_is_read_again(store: AwsSecrets) -> None:
    for password in ("one", "two"):
        keep("/shop/rotated", json.dumps({"password": password, "port": 5432}))
        assert store.read("/shop/rotated#password").reveal() == password.encode()
    assert store.read("/shop/rotated#port").reveal() == b"5432"


@pytest.mark.usefixtures("aws_services")
def test_a_binary_secret_is_read_unchanged() -> None:
    keep("/shop/bytes", b"\x00\xff")
    assert SecretsManager().read("/shop/bytes").reveal() == b"\x00\xff"


@BOTH
@pytest.mark.usefixtures("aws_services")
def test_a_text_that_is_no_object_has_no_fields_and_is_not_shown(store: AwsSecrets) -> None:
    for text in (WORD, json.dumps([WORD])):
        keep("/shop/no-object", text)
        with pytest.raises(ConfigError, match="is no JSON object") as raised:
            store.read("/shop/no-object#password")
        assert WORD not in repr(raised.value) + str(raised.value.__cause__) + str(raised.value.__context__)


@pytest.mark.parametrize(
    ("code", "status", "kind", "expected"),
    [
        ("AccessDeniedException", 400, ConfigError, "may not be read"),
        ("ThrottlingException", 400, StoreUnreachable, "cannot be read now"),
        ("Whatever", 503, StoreUnreachable, "cannot be read now"),
        ("DecryptionFailure", 400, ConfigError, "cannot be read"),
    ],
)
def test_errors_of_aws_are_translated_and_only_transient_ones_are_retryable(
    code: str, status: int, kind: type[LakewardError], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        response: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(response, "GetSecretValue")

    monkeypatch.setattr(SecretsManager, "_fetch", refuse)
    monkeypatch.setattr(SecretsManager, "_client", lambda _: None)
    with pytest.raises(kind, match=expected) as raised:
        SecretsManager().read("shop/database")
    assert "aws-secrets-manager:shop/database" in raised.value.what
    assert raised.value.retryable is (kind is StoreUnreachable)


@BOTH
@pytest.mark.usefixtures("aws_services")
def test_no_credentials_and_no_boto3_are_errors(store: AwsSecrets, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_ACCESS", "AWS_SECRET"))]:
        monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match="there are no credentials"):
        store.read("/shop/plain")
    monkeypatch.setattr(service_clients, "find_spec", lambda _: None)
    with pytest.raises(SetupError, match="boto3 is not installed"):
        store.read("/shop/plain")


@pytest.mark.parametrize("kind", ["aws-secrets-manager", "aws-ssm"])
def test_settings_name_secrets_of_aws_by_kind_and_name(kind: str) -> None:
    build: Callable[..., Any] = registry_of(load(entry_points=False)).secrets.build
    name = _named_secret({kind: "shop/database#password"})
    assert (str(name), build(name.kind, {}, None).kind) == (f"{kind}:shop/database#password", kind)
