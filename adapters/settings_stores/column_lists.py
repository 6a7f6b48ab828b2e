"""Column lists of other tools: one text, in which commas separate the columns."""

from __future__ import annotations

import re
from typing import Final

from lakeward.core.errors import ConfigError

_COMMA: Final = re.compile(r",(?![^(]*\))")
"""A comma that is not in the brackets of a transform."""


def split_columns(text: str, origin: str) -> list[str]:
    """Return the columns, or transforms of columns, in a text; an empty text has none.

    `origin` is the place of the text in messages. A comma at the end is ignored. Raises ConfigError if a column has
    no name.

    >>> split_columns("bucket(16, id), region,", "a parameter")
    ['bucket(16, id)', 'region']
    """
    stripped = text.strip()
    columns = [part.strip() for part in _COMMA.split(stripped.removesuffix(","))] if stripped else []
    if "" in columns:
        raise ConfigError(
            f"{origin}: a column of the list has no name",
            found=f"the list is {text!r}",
            todo="Write one comma between two columns: `id,region`.",
        )
    return columns


def split_key(text: str, origin: str) -> list[str]:
    """Return the columns of a key. Raises ConfigError if there is none, and as `split_columns` does."""
    columns = split_columns(text, origin)
    if not columns:
        raise ConfigError(
            f"{origin}: the key has no column", todo="Name its columns, or remove it for a table without a key."
        )
    return columns
