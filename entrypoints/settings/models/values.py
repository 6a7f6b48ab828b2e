"""The strict base model of sections, and the durations that the settings write."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict

DURATION: Final = re.compile(r"([1-9][0-9]*) *(s|m|h|d)")
MICROS: Final = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
"""Microseconds of each unit of a duration."""


class Strict(BaseModel):
    """A section that refuses unknown keys and values of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def micros(duration: str) -> int:
    """Return a duration of the settings in microseconds; 0 for any other text, such as "0".

    >>> micros("2 h"), micros("0")
    (7200000000, 0)
    """
    match = DURATION.fullmatch(duration)
    return 0 if match is None else int(match[1]) * MICROS[match[2]]


def _check_interval(value: str) -> str:
    if value != "0" and not DURATION.fullmatch(value):
        raise ValueError('must be a duration such as "1h", "30m" or "1d", or "0"')
    return value


def _check_pause(value: str) -> str:
    if not DURATION.fullmatch(value):
        raise ValueError('must be a duration such as "10s", "5m" or "1h"')
    return value


Interval: TypeAlias = Annotated[str, AfterValidator(_check_interval)]
"""A duration such as `1h`, or `0`."""

Pause: TypeAlias = Annotated[str, AfterValidator(_check_pause)]
"""A duration such as `10s`, above zero."""
