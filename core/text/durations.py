"""Durations as settings write them: a whole number of seconds, minutes or hours."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def seconds_of(duration: str) -> int:
    """Return the seconds of a duration, whose last letter is its unit.

    >>> seconds_of("30s"), seconds_of("5m"), seconds_of("2h")
    (30, 300, 7200)
    """
    return int(duration[:-1]) * _UNITS[duration[-1]]


def check_duration(text: str, least: str, most: str, example: str) -> str:
    """Return a duration from `least` to `most` unchanged; raises ValueError, with the example, for any other text.

    >>> check_duration("300s", "1m", "12h", "5m")
    '300s'
    """
    is_duration = re.fullmatch(r"\d{1,6}[smh]", text) is not None
    if not is_duration or not seconds_of(least) <= seconds_of(text) <= seconds_of(most):
        raise ValueError(f'must be a duration from "{least}" to "{most}", such as "{example}"')
    return text
