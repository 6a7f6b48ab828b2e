"""The laws of a place of secrets: what is there is read, what is not is said, and none is ever shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pytest

from lakeward.core.errors import ConfigError
from lakeward.core.ports import Secrets
from lakeward.plugins.testing.contract import port_contract


@dataclass(frozen=True, slots=True, kw_only=True)
class Vault:
    """A place of secrets under test: the `name` of one that is there, its `value`, and a name that is not."""

    secrets: Secrets
    name: str
    value: bytes = field(repr=False)
    missing: str = "A_NAME_THAT_IS_NOT_THERE"


Law: TypeAlias = Callable[[Vault], None]


def secrets_contract(make: Callable[..., Vault]) -> type:
    """Return a test class with the laws of a place of secrets; parameters of `make` are fixtures of pytest."""
    return port_contract("The laws of a place of secrets.", make, LAWS)


def a_secret_that_is_there_is_read_to_the_byte(vault: Vault) -> None:
    """As often as it is asked for."""
    assert vault.secrets.read(vault.name).reveal() == vault.value
    assert vault.secrets.read(vault.name).reveal() == vault.value


def one_that_is_not_there_is_an_error_that_names_it(vault: Vault) -> None:
    """And says what to do; it is never taken for an empty one."""
    with pytest.raises(ConfigError) as refused:
        vault.secrets.read(vault.missing)
    assert vault.missing in str(refused.value)
    assert refused.value.todo


def no_secret_is_shown(vault: Vault) -> None:
    """Neither by the place, once it was read, nor by what was read, nor by an error about another."""
    text = vault.value.decode("utf-8", "surrogateescape")
    found = vault.secrets.read(vault.name)
    with pytest.raises(ConfigError) as refused:
        vault.secrets.read(vault.missing)
    for shown in (repr(vault.secrets), str(vault.secrets), repr(found), str(found), repr(refused.value)):
        assert text not in shown


LAWS: Final[tuple[Law, ...]] = (
    a_secret_that_is_there_is_read_to_the_byte,
    one_that_is_not_there_is_an_error_that_names_it,
    no_secret_is_shown,
)
