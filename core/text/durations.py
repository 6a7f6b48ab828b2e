"""Durations as settings write them: a whole number with a unit, such as `30s` or `7d`."""

from __future__ import annotations

import re
from typing import Final

DURATION: Final = re.compile(r"([1-9][0-9]*) *(s|m|h|d)")
"""Matches a duration above zero."""

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_MICROS: Final = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def micros_of(duration: str) -> int:
    """Return a duration in microseconds; 0 for any other text, such as "0".

    >>> micros_of("2 h"), micros_of("0")
    (7200000000, 0)
    """
    match = DURATION.fullmatch(duration)
    return 0 if match is None else int(match[1]) * _MICROS[match[2]]


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
