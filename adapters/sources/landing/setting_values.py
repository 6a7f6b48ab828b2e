"""Validation of single settings of file sources; each function raises ValueError for an invalid value."""

from __future__ import annotations

import re
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_TO_SECONDS: Final = 14
"""The digits of a time up to its second; the digits after them are a fraction."""

_GROUPS: Final = ("time", "counter", "hex")
"""The groups of a pattern for names that order files."""


def one_character(value: str) -> str:
    """Return a delimiter or quote, which must be one character."""
    if len(value) != 1 or value in "\r\n\\\0":
        raise ValueError("must be one character, and no line end, backslash or NUL")
    return value


def optional_character(value: str) -> str:
    """Return a quote, or an empty text for none."""
    return one_character(value) if value else value


def zone(value: str) -> str:
    """Return the name of a time zone."""
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError("is no time zone; zones are named as Europe/Berlin or UTC") from error
    return value


def time_digits(text: str) -> str:
    """Return the digits of a time in a name, with months, days and hours of one digit padded by a zero.

    >>> time_digits("2026-1-11"), time_digits("20261121-0830"), time_digits("2026-11-21T08:30:05.5")
    ('20260111', '202611210830', '202611210830055')
    """
    digits = ""
    for part in re.finditer("[0-9]+", text):
        is_short = digits and len(digits) < _TO_SECONDS
        digits += part[0].zfill(2) if is_short else part[0]
    return digits


def group_number(match: re.Match[str]) -> int | None:
    """Return the number by which a pattern orders a file: 0 if its group is empty, None without such a group.

    Raises ValueError if the group has anything but a number: the pattern is then not for that file.
    """
    groups = match.groupdict()
    if groups.get("hex") is not None:
        return _number(groups["hex"], "0123456789abcdefABCDEF", 16)
    return None if groups.get("counter") is None else _number(groups["counter"], "0123456789", 10)


def _number(text: str, digits: str, base: int) -> int:
    if text.strip(digits):
        raise ValueError(f"{text!r} is no number")
    return int(text or "0", base)


def pattern(value: str | None, *more: str) -> str | None:
    """Return a pattern for the names of files; `more` are further groups that it may have."""
    if value is None:
        return None
    try:
        groups = set(re.compile(value).groupindex)
    except re.error as error:
        raise ValueError(f"is no pattern: {error}") from error
    if strange := sorted(groups - {*_GROUPS, *more}):
        there = ", ".join(f"`{group}`" for group in (*more, *_GROUPS[:-1]))
        raise ValueError(f"has a group {strange[0]!r}; there are {there} and `{_GROUPS[-1]}`")
    return value
