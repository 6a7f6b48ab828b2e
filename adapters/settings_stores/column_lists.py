"""Column lists in the form of AWS tools: one text, separated by commas."""

from __future__ import annotations

import re
from typing import Final

from lakeward.core.errors import ConfigError

_COMMA: Final = re.compile(r",(?![^(]*\))")
"""A comma that is not in the brackets of a transform."""


def split_columns(text: str, origin: str) -> list[str]:
    """Return the columns, or transforms of columns, in a text; an empty text has none.

    Raises ConfigError if a column has no name; `origin` is the place of the text in messages.

    >>> split_columns("bucket(16, id), region,", "a parameter")
    ['bucket(16, id)', 'region']
    """
    listed = text.strip()
    found = [part.strip() for part in _COMMA.split(listed.removesuffix(","))] if listed else []
    if "" in found:
        raise ConfigError(
            f"{origin}: a column of the list has no name",
            found=f"it is {text!r}",
            todo="Separate columns by one comma each: `id,region`.",
        )
    return found


def split_key(text: str, origin: str) -> list[str]:
    """Return the columns of a key, at least one. Raises ConfigError as `split_columns` does."""
    found = split_columns(text, origin)
    if not found:
        raise ConfigError(f"{origin}: the key has no column", todo="A table without a key leaves it out.")
    return found
