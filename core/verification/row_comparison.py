"""Compare the rows of two tables: counts and order-free hashes by range of the key, then key by key.

This module defines the result in plain Python. An engine that compares many rows uses its own queries.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

K = TypeVar("K")

RANGES: Final = 16
"""The number of ranges of the key that are compared first."""

MOST_NAMED: Final = 1000
"""The number of differing keys that are named and stored at most; all are counted."""


class Summary(NamedTuple):
    """The number of rows and the sum of their hashes, which does not depend on their order."""

    rows: int = 0
    hash: int = 0

    def plus(self, hash_: int) -> Summary:
        """Return the summary with one more row of this hash."""
        return Summary(self.rows + 1, self.hash + hash_)


class Kind(Enum):
    """How a key differs: missing in the table, only in the table, other values, or in several rows."""

    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"
    REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class Difference:
    """A key, as `core.text.literals.text_of` writes it, and the summary of its rows on each side.

    `stamp` identifies the changes that its rows in the table are from: another change gives another stamp.
    """

    key: str
    source: Summary
    table: Summary
    stamp: int = 0

    @property
    def kind(self) -> Kind:
        """How the key differs."""
        if not self.table.rows:
            return Kind.MISSING
        if not self.source.rows:
            return Kind.EXTRA
        return Kind.CHANGED if self.source.rows == self.table.rows == 1 else Kind.REPEATED


@dataclass(frozen=True, slots=True)
class RangeSummary:
    """The summaries of both sides in a range of the key."""

    source: Summary
    table: Summary

    @property
    def is_equal(self) -> bool:
        """True if both sides have as many rows, of the same hashes."""
        return self.source == self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of a comparison: ranges, the number of differing keys by kind, and the first of these keys."""

    ranges: Sequence[RangeSummary] = ()
    kinds: Mapping[Kind, int] = field(default_factory=dict)
    differences: Sequence[Difference] = ()

    @property
    def source_rows(self) -> int:
        """The number of rows of the source."""
        return sum(summary.source.rows for summary in self.ranges)

    @property
    def table_rows(self) -> int:
        """The number of rows of the table."""
        return sum(summary.table.rows for summary in self.ranges)

    @property
    def differing(self) -> int:
        """The number of keys that differ."""
        return sum(self.kinds.values())

    @property
    def unnamed(self) -> int:
        """The number of keys that differ and are not among `differences`."""
        return self.differing - len(self.differences)


class RowDigest(NamedTuple):
    """A row: its key, which has an order, the text of the key, and the hash of its values.

    `stamp` is, in a row of the table, a number of the change that it is from.
    """

    key: Any
    text: str
    hash: int
    stamp: int = 0


def choose_bounds(keys: Iterable[K], ranges: int) -> Sequence[K]:
    """Return keys that split all keys into at most so many ranges of about equal size.

    >>> choose_bounds([5, 1, 3, 7], 2), choose_bounds([1, 1], 4), choose_bounds([], 4)
    ([5], [], [])
    """
    ordered: list[Any] = sorted({*keys})
    step = -(-len(ordered) // ranges) or 1
    return ordered[step::step]


def compare_rows(
    source: Iterable[RowDigest],
    table: Iterable[RowDigest],
    *,
    ranges: int = RANGES,
    most: int = MOST_NAMED,
    among: Collection[str] | None = None,
) -> Comparison:
    """Compare range by range, and in ranges that differ key by key; name at most `most` keys.

    With `among`, only keys of these texts are compared in the ranges that differ.
    """
    sides = [*source], [*table]
    bounds = choose_bounds((row.key for side in sides for row in side), ranges)
    texts = {row.key: row.text for side in sides for row in side}
    sums: dict[int, list[Summary]] = defaultdict(lambda: [Summary(), Summary()])
    keys: dict[Any, list[Summary]] = defaultdict(lambda: [Summary(), Summary()])
    stamps = Counter[Any]()
    for index, side in enumerate(sides):
        for row in side:
            of_range = sums[bisect_right(bounds, row.key)]
            of_range[index] = of_range[index].plus(row.hash)
            keys[row.key][index] = keys[row.key][index].plus(row.hash)
            stamps[row.key] += row.stamp
    summaries = {number: RangeSummary(*pair) for number, pair in sorted(sums.items())}
    differences = [
        Difference(texts[key], keys[key][0], keys[key][1], stamps[key])
        for key in sorted(keys)
        if not summaries[bisect_right(bounds, key)].is_equal
        and keys[key][0] != keys[key][1]
        and (among is None or texts[key] in among)
    ]
    kinds = Counter(difference.kind for difference in differences)
    return Comparison(ranges=[*summaries.values()], kinds=kinds, differences=differences[:most])
