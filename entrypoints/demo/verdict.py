"""Comparison of the lake with the database, row by row and cell by cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from lakeward.core.dimension import Dimension
from lakeward.core.events import Key, canonical
from lakeward.entrypoints.demo.database import Row, key_of


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose rows differ; None if a side has no such row, or one less."""

    key: Row
    in_database: Row | None
    in_lake: Row | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of the comparison of one table."""

    table: Dimension
    in_database: int
    in_lake: int
    differences: tuple[Difference, ...]


def compare(table: Dimension, in_database: Iterable[Row], in_lake: Iterable[Row]) -> Verdict:
    """Compare two sets of rows; in a table without a key, equal rows must have equal counts."""
    expected, actual = _by_key(table, in_database), _by_key(table, in_lake)
    differences = tuple(
        Difference(key_of(table, row or other or ()), row, other)
        for key in {**expected, **actual}
        for row, other in zip_longest(expected.get(key, ()), actual.get(key, ()))
        if row is None or other is None or canonical(list(row)) != canonical(list(other))
    )
    return Verdict(table, _count(expected), _count(actual), differences)


def _by_key(table: Dimension, rows: Iterable[Row]) -> dict[Key, list[Row]]:
    by_key: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[tuple(canonical(value) for value in key_of(table, row))].append(row)
    return by_key


def _count(rows: dict[Key, list[Row]]) -> int:
    return sum(map(len, rows.values()))
