"""Surrogate numbers: a version gets one when it is first written, and keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from lakeward.core.events import Key
from lakeward.core.history.versions import Columns, Version, Versions

Numbers: TypeAlias = Mapping[tuple[Key, int], int]
"""The surrogate numbers of versions, by key and start."""

NO_NUMBERS: Final[Numbers] = MappingProxyType({})


def assign_numbers(
    columns: Columns,
    numbers: Numbers,
    had: Mapping[Key, Versions],
    made: Mapping[Key, Versions],
    highest: int,
) -> Numbers:
    """Return the numbers of the versions that a batch has `made` of some keys, in place of those they `had`.

    A version keeps the number of the one of its key that begins at the same instant. Where there is none, it keeps
    that of the one that ends at the same instant and is equal in the tracked columns: its start has moved. All
    others are new, and get the numbers after `highest`, the greatest that was ever assigned; the first is 1.
    """
    found: dict[tuple[Key, int], int] = {}
    for key, versions in made.items():
        for version, old in _lives_on(columns, had.get(key, ()), versions):
            number = None if old is None else numbers.get((key, old.valid_from))
            if number is None:
                number = highest = highest + 1
            found[key, version.valid_from] = number
    return found


def _lives_on(columns: Columns, had: Versions, made: Versions) -> Iterator[tuple[Version, Version | None]]:
    """Yield each new version with the old one whose number it keeps, or None."""
    starts = {version.valid_from for version in made}
    by_start = {version.valid_from: version for version in had}
    moved = {version.valid_to: version for version in had if version.valid_from not in starts}
    for version in made:
        old = by_start.get(version.valid_from)
        if old is None:
            old = moved.get(version.valid_to)
            old = old if old is not None and columns.same(old.cells, version.cells) else None
        yield version, old
