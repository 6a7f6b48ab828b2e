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
    before: Mapping[Key, Versions],
    after: Mapping[Key, Versions],
    highest: int,
) -> Numbers:
    """Return the numbers of the versions that some keys have `after` a batch, from those that they had `before`.

    A version keeps the number of the one of its key that begins at the same instant. Where there is none, it keeps
    that of the one that ends at the same instant and is equal in the tracked columns: its start has moved. All
    others are new, and get the numbers after `highest`, the greatest that was ever assigned; the first is 1.
    """
    assigned: dict[tuple[Key, int], int] = {}
    for key, versions in after.items():
        for version, earlier in _match_versions(columns, before.get(key, ()), versions):
            number = None if earlier is None else numbers.get((key, earlier.valid_from))
            if number is None:
                number = highest = highest + 1
            assigned[key, version.valid_from] = number
    return assigned


def _match_versions(
    columns: Columns, before: Versions, after: Versions
) -> Iterator[tuple[Version, Version | None]]:
    """Yield each new version with the old one whose number it keeps, or None."""
    starts = {version.valid_from for version in after}
    by_start = {version.valid_from: version for version in before}
    moved = {version.valid_to: version for version in before if version.valid_from not in starts}
    for version in after:
        earlier = by_start.get(version.valid_from)
        if earlier is None:
            earlier = moved.get(version.valid_to)
            earlier = earlier if earlier is not None and columns.same(earlier.cells, version.cells) else None
        yield version, earlier
