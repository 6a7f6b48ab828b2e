"""Settings as they are shown: without what may be a secret, whether it belongs there or not."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from lakeward.core.errors import ConfigError
from lakeward.core.secrets import SecretName

HIDDEN: Final = "(hidden)"

_KEY: Final = re.compile(
    r"pass(word|wd|phrase)|pwd|secret|token|credential|pepper|salt|private|(access|api|shared|account)[._-]?key",
    re.IGNORECASE,
)
_KEYS_OF_SECRETS: Final = ("key",)
"""What is a secret as a text, and not as a list: the primary key of a table is one."""

_IN_URL: Final = re.compile(r"(//[^/\s:@]*:)[^@\s/]+(?=@)")
_IN_TEXT: Final = re.compile(rf"((?:{_KEY.pattern})[\w.-]*\s*[=:]\s*)[^&;,\s]+", re.IGNORECASE)


def hidden(value: Any, key: str, kinds: Collection[str]) -> Any:
    """Return a value of a key without secrets; where a secret is, in one of these `kinds` of places, is shown.

    >>> hidden("hunter2", "password", ["env"]), hidden({"env": "DB"}, "password", ["env"])
    ('(hidden)', {'env': 'DB'})
    """
    if is_secret(key, value):
        return value if _is_named(value, kinds) else HIDDEN
    if isinstance(value, Mapping):
        return {name: hidden(inner, str(name), kinds) for name, inner in value.items()}
    if isinstance(value, list):
        return [hidden(inner, "", kinds) for inner in value]
    return _IN_TEXT.sub(rf"\1{HIDDEN}", _IN_URL.sub(rf"\1{HIDDEN}", value)) if isinstance(value, str) else value


def is_secret(key: str, value: Any) -> bool:
    """Whether what has such a key may be a secret."""
    return bool(_KEY.search(key)) or (key in _KEYS_OF_SECRETS and not isinstance(value, list))


def _is_named(value: Any, kinds: Collection[str]) -> bool:
    """Whether it says where a secret is, and is none itself."""
    if isinstance(value, Mapping):
        return len(value) == 1 and {*value} <= {*kinds} and all(isinstance(name, str) for name in value.values())
    try:
        return isinstance(value, str) and SecretName.read(value).kind in kinds
    except ConfigError:
        return False
