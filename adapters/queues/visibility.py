"""The setting for how long a queue hides received notices."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
LEAST: Final = 60
"""The least number of seconds for which received notices are hidden."""

_MOST: Final = 12 * 3600


def seconds_of(visibility: str) -> int:
    """Return a duration in seconds.

    >>> seconds_of("5m")
    300
    """
    return int(visibility[:-1]) * _UNITS[visibility[-1]]


def _visibility(text: str) -> str:
    if not re.fullmatch(r"\d{1,6}[smh]", text) or not LEAST <= seconds_of(text) <= _MOST:
        raise ValueError('must be a duration from "1m" to "12h", as "5m"')
    return text


Visibility: TypeAlias = Annotated[str, AfterValidator(_visibility)]
"""A duration such as `5m`. It is several times the interval in which notices in work are extended."""
