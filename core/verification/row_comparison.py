"""Comparison of the rows of two tables by key: counts and order-free hashes by range of the key, then key by key.

Here is what it means, in plain Python. An engine that compares many rows does the same with its own queries.
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
"""The number of differing keys that are named and kept at most; all are counted."""


class Summary(NamedTuple):
    """The number of some rows, and the sum of their hashes: the same in whatever order they come."""

    rows: int = 0
    hash: int = 0

    def plus(self, hash_: int) -> Summary:
        """Return the summary with one more row of that hash."""
        return Summary(self.rows + 1, self.hash + hash_)


class Kind(Enum):
    """How a key differs: the table lacks it, has it alone, has other values, or several rows have it."""

    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"
    REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class Difference:
    """A key, as `core.text.literals.text_of` writes it, and what each side has of it.

    `stamp` stands for the changes that its rows in the table come from: it is another once one was applied.
    """

    key: str
    source: Summary
    table: Summary
    stamp: int = 0

    @property
    def kind(self) -> Kind:
        """How they differ."""
        if not self.table.rows:
            return Kind.MISSING
        if not self.source.rows:
            return Kind.EXTRA
        return Kind.CHANGED if self.source.rows == self.table.rows == 1 else Kind.REPEATED


@dataclass(frozen=True, slots=True)
class RangeSummary:
    """A range of the key that has rows: what each side has in it."""

    source: Summary
    table: Summary

    @property
    def is_equal(self) -> bool:
        """Whether both sides have as many rows there, of the same hashes."""
        return self.source == self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What comparing found: all ranges, the number of differing keys of each kind, and the first of these keys."""

    ranges: Sequence[RangeSummary] = ()
    kinds: Mapping[Kind, int] = field(default_factory=dict)
    differences: Sequence[Difference] = ()

    @property
    def source_rows(self) -> int:
        """The number of rows of the source."""
        return sum(one.source.rows for one in self.ranges)

    @property
    def table_rows(self) -> int:
        """The number of rows of the table."""
        return sum(one.table.rows for one in self.ranges)

    @property
    def differing(self) -> int:
        """The number of keys that differ."""
        return sum(self.kinds.values())

    @property
    def unnamed(self) -> int:
        """The number of keys that differ and are not among `differences`."""
        return self.differing - len(self.differences)


class RowDigest(NamedTuple):
    """A row by its key, which has an order, the text of the key, and the hash of its values.

    `stamp` is a number of the change that it comes from, of a row of the table.
    """

    key: Any
    text: str
    hash: int
    stamp: int = 0


def choose_bounds(keys: Iterable[K], ranges: int) -> Sequence[K]:
    """Return keys at which so many ranges begin at most, behind a first one: each has about as many of the keys.

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
    """Compare range by range, and the keys of the ranges that differ one by one; name so many of them at most.

    With `among` only keys of these texts are looked at in the ranges that differ.
    """
    sides = [*source], [*table]
    bounds = choose_bounds((row.key for side in sides for row in side), ranges)
    texts = {row.key: row.text for side in sides for row in side}
    found: dict[int, list[Summary]] = defaultdict(lambda: [Summary(), Summary()])
    keys: dict[Any, list[Summary]] = defaultdict(lambda: [Summary(), Summary()])
    stamps = Counter[Any]()
    for place, side in enumerate(sides):
        for row in side:
            of_range = found[bisect_right(bounds, row.key)]
            of_range[place] = of_range[place].plus(row.hash)
            keys[row.key][place] = keys[row.key][place].plus(row.hash)
            stamps[row.key] += row.stamp
    summaries = {number: RangeSummary(*pair) for number, pair in sorted(found.items())}
    differences = [
        Difference(texts[key], keys[key][0], keys[key][1], stamps[key])
        for key in sorted(keys)
        if not summaries[bisect_right(bounds, key)].is_equal
        and keys[key][0] != keys[key][1]
        and (among is None or texts[key] in among)
    ]
    kinds = Counter(one.kind for one in differences)
    return Comparison(ranges=[*summaries.values()], kinds=kinds, differences=differences[:most])
