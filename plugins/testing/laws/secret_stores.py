"""The laws of a secret store: secrets are read exactly, missing ones are errors, and none is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pytest

from lakeward.core.errors import ConfigError
from lakeward.core.ports import Secrets
from lakeward.plugins.testing.contract import port_contract


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretStoreUnderTest:
    """A secret store under test: the `name` and `value` of a secret, and a `missing` name."""

    secrets: Secrets
    name: str
    value: bytes = field(repr=False)
    missing: str = "A_NAME_THAT_IS_NOT_THERE"


Law: TypeAlias = Callable[[SecretStoreUnderTest], None]


def secrets_contract(make: Callable[..., SecretStoreUnderTest]) -> type:
    """Return a test class with the laws of a secret store. Parameters of `make` are pytest fixtures."""
    return port_contract("The laws of a secret store.", make, LAWS)


def a_secret_is_read_to_the_byte(vault: SecretStoreUnderTest) -> None:
    """A secret is read to the byte, as often as requested."""
    assert vault.secrets.read(vault.name).reveal() == vault.value
    assert vault.secrets.read(vault.name).reveal() == vault.value


def a_missing_secret_is_an_error_that_names_it(vault: SecretStoreUnderTest) -> None:
    """A missing secret raises a ConfigError that names it and says what to do. It is never an empty secret."""
    with pytest.raises(ConfigError) as refused:
        vault.secrets.read(vault.missing)
    assert vault.missing in str(refused.value)
    assert refused.value.todo


def no_secret_is_shown(vault: SecretStoreUnderTest) -> None:
    """Neither the store, nor a secret that was read, nor an error about another secret shows it."""
    text = vault.value.decode("utf-8", "surrogateescape")
    secret = vault.secrets.read(vault.name)
    with pytest.raises(ConfigError) as refused:
        vault.secrets.read(vault.missing)
    for printed in (repr(vault.secrets), str(vault.secrets), repr(secret), str(secret), repr(refused.value)):
        assert text not in printed


LAWS: Final[tuple[Law, ...]] = (
    a_secret_is_read_to_the_byte,
    a_missing_secret_is_an_error_that_names_it,
    no_secret_is_shown,
)
