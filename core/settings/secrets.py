"""Secrets: where they are, and values that are never shown by accident."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from lakeward.core.errors import ConfigError

_WRITTEN = re.compile(r"([a-z][a-z0-9_-]*):(.+)")


@dataclass(frozen=True, slots=True)
class SecretName:
    """Where a secret is: the `kind` of place, and its name there.

    >>> str(SecretName("env", "DB_PASSWORD"))
    'env:DB_PASSWORD'
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def read(cls, text: str) -> SecretName:
        """Read `kind:name`; raises ConfigError, which does not show the text: it might be the secret itself."""
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise ConfigError("a secret is named as `env:NAME` or `file:PATH`")
        return cls(match[1], match[2])


class Secret:
    """A secret value. Its `repr` does not show it, and it cannot be pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """Return the value, to pass it to the system that it is for."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written down")

    def hidden_in(self, text: str) -> str:
        """Return a text, such as a message of a driver, without the secret in it."""
        plain = self._value.decode("utf-8", "surrogateescape")
        return text.replace(plain, "…") if plain else text
