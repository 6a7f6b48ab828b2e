"""How long queues hide what was received: a duration of the settings."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
LEAST: Final = 60
"""Seconds for which what was received is hidden, at the least."""

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
"""A duration, as `5m`: several times as long as the seconds after which notices in work are extended."""
