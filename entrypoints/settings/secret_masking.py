"""Masks values of shown settings that may be secrets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from lakeward.core.errors import ConfigError
from lakeward.core.settings.secrets import SecretName

HIDDEN: Final = "(hidden)"

_PARTS: Final = (
    r"pass|pwd|secret|token|credential|pepper|salt|private|auth|signature|cookie|user[ ._-]?info"
    r"|(?:access|api|shared|account|storage|encryption)[ ._-]?key"
)
_OF_SECRETS: Final = re.compile(_PARTS, re.IGNORECASE)
_WORDS: Final = frozenset({"pw", "psk", "sig", "sas"})
_KEY: Final = "key"
"""A key of a secret if its value is a text; a list is the primary key of a table."""

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_IN_TEXT: Final = re.compile(
    rf"(?:{_PARTS}|(?<![a-z])(?:pw|sig|sas|ssl[ ._-]?key))[\w.-]*[\"']?\s*[=:]"
    r"|//\S*:.*@|(?<!abfs:)(?<!abfss:)(?<!wasb:)(?<!wasbs:)//[^/\s]*@|jdbc:\w+:\w+:[^@]+@|\A[\w$#.-]+/\S+@"
    r"|-----BEGIN|\b(?:bearer|basic)\s+\S",
    re.IGNORECASE | re.DOTALL,
)
"""A login in a URL or before an address, or a secret behind its name. Azure has `container@account` in URLs."""

_ADDRESSES: Final = re.compile(r"\barn:aws[\w-]*:secretsmanager:[\w-]*:\d*:secret:[\w/+=.@-]+|\bsecretsmanager:")
"""Keys that say where a secret is stored, and whose names look like those of secrets."""

_MAPS_BY_COLUMN: Final = frozenset({"aggregates", "columns", "kinds", "otherwise", "rename", "sources"})
"""Keys with names of columns below them: a column named `token` has a type there, not a secret."""

_FREE_MAPS: Final = frozenset({"catalog_properties", "headers", "options", "properties", "settings"})
"""Keys whose values are passed to Spark, a driver or a catalog, which have their own names for secrets."""

_HARMLESS: Final = re.compile(
    r"(?:write|read|commit|history|format|format-version|gc|cache|delta|hoodie)[.-].*|format-version"
    r"|spark\.sql\.(?!catalog\.[^.]+\.).*|spark\.(?:dynamicAllocation|shuffle|memory|ui|eventLog|serializer)\b.*"
    r"|spark\.(?:master|default\.parallelism|local\.dir|jars\.packages|(?:driver|executor)\.(?:memory|cores))"
    r"|(?:spark\.hadoop\.)?(?:fs\.)?s3a?\.(?:endpoint|region|path[.-]style[.-]access)(?:\.region)?"
    r"|type|uri|warehouse|catalog-impl|io-impl|region|(?:client|glue)\.(?:region|id)"
    r"|ssl|sslmode|encrypt|trustServerCertificate|(?:connect|socket|login)Timeout|applicationName",
    re.IGNORECASE,
)


def mask_secrets(value: Any, key: str, kinds: Collection[str]) -> Any:
    """Return the value of a key without secrets. A reference to one of these `kinds` of secret stores is shown.

    A text that contains a secret is hidden whole. In a map whose keys are not lakeward's, only the values of keys
    that are known to be harmless are shown.

    >>> mask_secrets("hunter2", "password", ["env"]), mask_secrets({"env": "DB"}, "password", ["env"])
    ('(hidden)', {'env': 'DB'})
    >>> mask_secrets({"sslmode": "require", "x": "hunter2"}, "properties", [])
    {'sslmode': 'require', 'x': '(hidden)'}
    """
    if is_secret(key, value):
        return value if _is_reference(value, kinds) else HIDDEN
    if isinstance(value, Mapping):
        is_by_column = key in _MAPS_BY_COLUMN
        masked = {n: mask_secrets(inner, "" if is_by_column else str(n), kinds) for n, inner in value.items()}
        if key in _FREE_MAPS:
            return {name: _mask_unknown(str(name), inner, kinds) for name, inner in masked.items()}
        return masked
    if isinstance(value, list):
        return [mask_secrets(inner, "", kinds) for inner in value]
    return HIDDEN if isinstance(value, str) and _IN_TEXT.search(_ADDRESSES.sub("", value)) else value


def mask_urls(value: Any, key: str, kinds: Collection[str]) -> Any:
    """Return a value of the notifier settings with masked webhook URLs, which give write access.

    >>> mask_urls([{"url": "https://example.com/token"}, {"url": {"env": "HOOK"}}], "notify", ["env"])
    [{'url': '(hidden)'}, {'url': {'env': 'HOOK'}}]
    """
    if isinstance(value, Mapping):
        return {name: mask_urls(inner, str(name), kinds) for name, inner in value.items()}
    if isinstance(value, list):
        return [mask_urls(inner, key, kinds) for inner in value]
    return HIDDEN if key == "url" and not _is_reference(value, kinds) else value


def secret_names(value: Any, kinds: Collection[str], key: str = "") -> Iterator[SecretName]:
    """Yield the names of secrets in settings, for these `kinds` of secret stores.

    >>> [*map(str, secret_names({"source": {"password": {"env": "DB"}, "path": "env:x"}}, ["env"]))]
    ['env:DB']
    >>> [*map(str, secret_names({"notify": [{"kind": "webhook", "url": {"env": "HOOK"}}]}, ["env"]))]
    ['env:HOOK']
    """
    if (is_secret(key, value) or key == "url") and _is_reference(value, kinds):
        ((kind, name),) = value.items() if isinstance(value, Mapping) else (value.split(":", 1),)
        yield SecretName(kind, name)
    elif isinstance(value, Mapping):
        is_by_column = key in _MAPS_BY_COLUMN
        for name, inner in value.items():
            yield from secret_names(inner, kinds, "" if is_by_column else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from secret_names(inner, kinds)


def is_secret(key: str, value: Any) -> bool:
    """Return True if the value of a key may be a secret."""
    if isinstance(value, bool):
        return False
    words = {word.lower() for word in _WORD.findall(key)}
    names_secret = bool(_OF_SECRETS.search(key) or words & _WORDS)
    return names_secret or (_KEY in words and not isinstance(value, list))


def _mask_unknown(name: str, masked: Any, kinds: Collection[str]) -> Any:
    is_shown = isinstance(masked, bool) or _HARMLESS.fullmatch(name) or _is_reference(masked, kinds)
    return masked if is_shown else HIDDEN


def _is_reference(value: Any, kinds: Collection[str]) -> bool:
    """Return True if a value only says where a secret is stored."""
    if isinstance(value, Mapping):
        return len(value) == 1 and {*value} <= {*kinds} and all(isinstance(name, str) for name in value.values())
    try:
        return isinstance(value, str) and SecretName.read(value).kind in kinds
    except ConfigError:
        return False
