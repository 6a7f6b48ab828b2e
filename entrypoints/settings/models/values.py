"""The strict base model of sections, and the durations that the settings write."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict

from lakeward.core.text.durations import DURATION


class Strict(BaseModel):
    """A section that refuses unknown keys and values of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


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
