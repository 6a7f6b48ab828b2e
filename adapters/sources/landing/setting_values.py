"""What single values of the settings of files may be, and mean; who finds one that may not be raises ValueError."""

from __future__ import annotations

import re
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_TO_SECONDS: Final = 14
"""Digits of a time to its second: what follows is a fraction."""

_GROUPS: Final = ("time", "counter", "hex")
"""The groups of a pattern for names, by which files are ordered."""


def one_character(value: str) -> str:
    """Return what parts or quotes fields."""
    if len(value) != 1 or value in "\r\n\\\0":
        raise ValueError("must be one character, and no line end, backslash or NUL")
    return value


def one_or_none(value: str) -> str:
    """Return what quotes fields, empty where nothing does."""
    return one_character(value) if value else value


def zone(value: str) -> str:
    """Return the name of a time zone."""
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError("is no time zone; zones are named as Europe/Berlin or UTC") from error
    return value


def time_digits(text: str) -> str:
    """Return the digits of a time in a name, from its year on: a month, day or hour of one digit gets its zero.

    >>> time_digits("2026-1-11"), time_digits("20261121-0830"), time_digits("2026-11-21T08:30:05.5")
    ('20260111', '202611210830', '202611210830055')
    """
    digits = ""
    for part in re.finditer("[0-9]+", text):
        is_short = digits and len(digits) < _TO_SECONDS
        digits += part[0].zfill(2) if is_short else part[0]
    return digits


def counted(found: re.Match[str]) -> int | None:
    """Return the number that the groups of such a pattern count a file by: 0 where one is empty, None without one.

    Raises ValueError where what a group holds is no number: then the pattern is not meant for that file.
    """
    groups = found.groupdict()
    if groups.get("hex") is not None:
        return _number(groups["hex"], "0123456789abcdefABCDEF", 16)
    return None if groups.get("counter") is None else _number(groups["counter"], "0123456789", 10)


def _number(text: str, digits: str, base: int) -> int:
    if text.strip(digits):
        raise ValueError(f"{text!r} is no number")
    return int(text or "0", base)


def pattern(value: str | None, *more: str) -> str | None:
    """Return a pattern for the names of files; `more` are groups that it may have besides."""
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
