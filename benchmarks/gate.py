"""The gate: both ways leave the rows that plain Python expects, or nothing is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from feed import KEY, Feed, expected_rows


class Way(Protocol):
    """One of the two ways to keep the table."""

    def load(self, files: Sequence[Path]) -> float:
        """Make the table from a full load; return the seconds it took."""
        ...

    def apply(self, files: Sequence[Path]) -> float:
        """Apply files of changes; return the seconds it took."""
        ...

    def checksum(self) -> tuple[int, int]:
        """Return the number of rows, and a number that any other content would change."""
        ...

    def rows(self) -> pa.Table:
        """Return the rows as PyIceberg reads them."""
        ...


class WrongRows(AssertionError):
    """A way left other rows than it should have."""


def check_small_feed(ways: Mapping[str, Way], feed: Feed) -> None:
    """Give each way a small feed; raises WrongRows where one leaves other rows than expected."""
    files = feed.load()
    for way in ways.values():
        way.load(files)
    for keys, parts in ((60, 3), (90, 1), (60, 2)):
        changes = feed.change(keys, parts)
        files += changes
        for way in ways.values():
            way.apply(changes)
    expected = expected_rows(feed, files)
    for name, way in ways.items():
        check_rows(name, way, expected)


def check_rows(name: str, way: Way, expected: Mapping[int, Mapping[str, Any]]) -> None:
    """Compare the rows of a way, read by PyIceberg, with those expected; raises WrongRows."""
    rows = way.rows().to_pylist()
    found = {row[KEY]: row for row in rows}
    if len(found) < len(rows):
        raise WrongRows(f"{name}: {len(rows) - len(found)} keys stand twice")
    wrong = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
    if wrong:
        key = wrong[0]
        raise WrongRows(
            f"{name}: {len(wrong)} of {len(expected)} rows are wrong, the first of them that with the key {key}: "
            f"found {found.get(key)}, expected {expected.get(key)}"
        )


def check_equal(ways: Mapping[str, Way]) -> None:
    """Compare the tables of the ways by their checksums; raises WrongRows where they differ."""
    found = {name: way.checksum() for name, way in ways.items()}
    if len(set(found.values())) > 1:
        raise WrongRows(f"the tables differ, as (rows, checksum): {found}")
