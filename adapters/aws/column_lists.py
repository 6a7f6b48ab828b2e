"""Lists of columns as tools of AWS write them: in one text, separated by commas."""

from __future__ import annotations

import re
from typing import Final

_COMMA: Final = re.compile(r",(?![^(]*\))")
"""A comma that is not within the brackets of a transform."""


def split_columns(text: str) -> list[str]:
    """Return the columns, or the transforms of columns, that a text lists.

    >>> split_columns("bucket(16, id), region,")
    ['bucket(16, id)', 'region']
    """
    return [part.strip() for part in _COMMA.split(text) if part.strip()]
