"""Dates and times from JSON values in plain Python: days and microseconds since 1970, None for any other value."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import Any, Final

from lakeward.adapters.sources.files.local.values.documents import text_of
from lakeward.adapters.sources.files.local.values.texts import number, plain_text, refuse_control
from lakeward.adapters.sources.messages.json.wire_format import UNITS, Writing
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.core.schema import Type

_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAYS: Final = (date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH)
_DAY: Final = 86_400_000_000
_MICROS: Final = (_DAYS[0] * _DAY, (_DAYS[1] + 1) * _DAY - 1)
_DATE: Final = re.compile(r" *([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]00:00:00(?:\.0+)?)? *")
_TIME: Final = re.compile(
    r" *([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6})0*)?)?)?"
    r"( *(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?))? *"
)
_MOST: Final = 10**38


@lru_cache(maxsize=10_000)
def _days(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        return None


def date_reader(*, has_days: bool) -> Callable[[Any], int | None]:
    """Return a reader of dates as days since 1970; with `has_days` numbers are such days."""

    def read(value: Any) -> int | None:
        if has_days and value.__class__ is int and -(10**9) < value < 10**9:
            return value if _DAYS[0] <= value <= _DAYS[1] else None
        text = plain_text(value)
        if has_days and re.fullmatch("-?[0-9]{1,9}", text):
            days = int(text)
            return days if _DAYS[0] <= days <= _DAYS[1] else None
        match = _DATE.fullmatch(text.removesuffix("Z"))
        return None if match is None else _days(match[1])

    return read


def moment_reader(type_: Type, written: Writing) -> Callable[[Any], int | None]:
    """Return a reader of times as microseconds since 1970, from numbers of the column's unit or from texts."""
    unit = UNITS.get(written.wire)
    is_wall_clock, zone = type_.name == "timestamp_ntz", written.text.zone

    def read(value: Any) -> int | None:
        if unit is not None:
            moment = value if value.__class__ is int and -_MOST < value < _MOST else number(text_of(value))
            if moment is not None:
                micros = _of_unit(moment, unit)
                return micros if micros is not None and _MICROS[0] <= micros <= _MICROS[1] else None
        text = text_of(value) or ""
        match = _TIME.fullmatch(text.removesuffix("Z") if is_wall_clock else text)
        if match is None:
            refuse_control(text)
            return None
        return _moment(match, zone, is_wall_clock=is_wall_clock)

    return read


def micros_reader(unit: int) -> Callable[[Any], int | None]:
    """Return a reader of whole numbers of a unit of time as microseconds of 64 bits."""

    def read(value: Any) -> int | None:
        count = value if value.__class__ is int and -_MOST < value < _MOST else number(text_of(value))
        micros = None if count is None else _of_unit(count, unit)
        return micros if micros is not None and -(2**63) <= micros < 2**63 else None

    return read


def _of_unit(value: int, unit: int) -> int | None:
    """Return a count of a unit (`unit` of them are a second) as microseconds; None if it is not a whole number."""
    if unit <= 10**6:
        return value * (10**6 // unit)
    if abs(value) >= 10**21:
        raise SparkNeeded("a time is too great a number")
    return None if value % (unit // 10**6) else value // (unit // 10**6)


def _moment(match: re.Match[str], zone: str, *, is_wall_clock: bool) -> int | None:
    day, hour, minute, second, fraction, in_zone, sign, hours, minutes = match.groups()
    days = _days(day)
    if days is None or (in_zone is not None and (is_wall_clock or second is None)):
        return None
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    if h > 23 or m > 59 or s > 59:
        return None
    micros = days * _DAY + ((h * 60 + m) * 60 + s) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    if in_zone is None and not is_wall_clock and zone != "UTC":
        raise SparkNeeded("a time is written without its zone, and the zone of the source is not UTC")
    if sign is not None:
        offset = int(hours) * 60 + int(minutes or 0)
        if offset > 18 * 60 or int(minutes or 0) > 59:
            return None
        micros -= offset * 60_000_000 * (1 if sign == "+" else -1)
    return micros if _MICROS[0] <= micros <= _MICROS[1] else None
