"""Ranges of offsets, as names of staged files and of objects in a table's commits."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lakeward.adapters.sources.kafka.topics import TopicPartition

NAMES: Final = r"\+?[^+/]+\+(?P<partition>\d{1,5})\+(?P<counter>\d{1,13})-\d{1,13}\+[\w-]+\.json"
"""The pattern of staged files for the source of files; partition and first offset give their order."""

_TRANSACTIONS_PREFIX: Final = "~"
"""Precedes the name of a topic of transactions. No topic name contains it."""

_NO_PARTITION: Final = 99_999
"""The partition of ranges of a topic of transactions, so that they sort apart from those of messages."""

_OFFSETS: Final = 10**13
_PARTITIONS: Final = 10**5

_NAME: Final = re.compile(
    r"\+?(?P<topic>[^+/]+)\+(?P<partition>\d{1,5})\+(?P<first>\d{1,13})-(?P<last>\d{1,13})\+(?P<id>[\w-]+)\.json",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets of a partition from `start` up to and without `end`, of a topic with a name and an id."""

    topic: str
    id: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        """Raise ValueError for a range that could not be parsed from its name: its file would never be read."""
        is_valid = self.start < self.end <= _OFFSETS and self.partition < _PARTITIONS
        if not is_valid or re.fullmatch(r"[\w-]+", self.id, re.ASCII) is None:
            raise ValueError(f"no range of offsets: {self!r}")

    @property
    def name(self) -> str:
        """The name of its file.

        Names that begin with `_` or `.` would be hidden: `+` precedes them.

        >>> OffsetRange("shop.public.orders", "4fVb2", 3, 1200, 1260).name
        'shop.public.orders+3+0000001200-0000001259+4fVb2.json'
        """
        prefix = "+" if self.topic[0] in "._" else ""
        return f"{prefix}{self.topic}+{self.partition}+{self.start:010}-{self.end - 1:010}+{self.id}.json"

    @property
    def words(self) -> str:
        """The range as a text for people."""
        topic, partition = TopicPartition.of(self.topic, self.partition)
        return f"{topic}, partition {partition}, offsets {self.start:,} to {self.end - 1:,}"

    @classmethod
    def read(cls, name: str) -> OffsetRange | None:
        """Return the range of a file name, or None for a name of another form."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        return cls(
            match["topic"], match["id"], int(match["partition"]), int(match["first"]), int(match["last"]) + 1
        )

    @classmethod
    def of_transactions(cls, topic: str, id_: str, start: int, end: int) -> OffsetRange:
        """Return a range of a topic of transactions, which a batch completes; the table has no messages of it.

        >>> OffsetRange.of_transactions("shop.transaction", "4fVb2", 0, 12).name
        '~shop.transaction+99999+0000000000-0000000011+4fVb2.json'
        """
        return cls(f"{_TRANSACTIONS_PREFIX}{topic}", id_, _NO_PARTITION, start, end)

    @property
    def is_of_transactions(self) -> bool:
        """True for a range of a topic of transactions."""
        return self.topic.startswith(_TRANSACTIONS_PREFIX)


def parse_ranges(names: Iterable[str]) -> list[OffsetRange]:
    """Return the ranges of messages in these names; names of another form are ignored."""
    ranges = map(OffsetRange.read, names)
    return [one for one in ranges if one is not None and not one.is_of_transactions]


def parse_transaction_ranges(names: Iterable[str]) -> list[OffsetRange]:
    """Return the ranges of topics of transactions in these names."""
    ranges = map(OffsetRange.read, names)
    return [one for one in ranges if one is not None and one.is_of_transactions]


def next_offsets(applied: Iterable[OffsetRange]) -> Mapping[int, int]:
    """Return for each partition the offset after the last one in these ranges.

    >>> next_offsets(OffsetRange("t", "i", *numbers) for numbers in ((0, 0, 5), (0, 5, 9), (1, 0, 2)))
    {0: 9, 1: 2}
    """
    offsets: dict[int, int] = {}
    for one in applied:
        offsets[one.partition] = max(one.end, offsets.get(one.partition, 0))
    return offsets


def find_contiguous(start: int, ranges: Collection[OffsetRange]) -> tuple[list[OffsetRange], int]:
    """Return the ranges of one partition that follow an offset without a gap, and the offset after them.

    Of several ranges with the same start the longest is used.

    >>> a, b = OffsetRange("t", "i", 0, 5, 9), OffsetRange("t", "i", 0, 10, 12)
    >>> find_contiguous(5, [b, a])[1]
    9
    """
    by_start: dict[int, OffsetRange] = {}
    for one in ranges:
        if one.start not in by_start or by_start[one.start].end < one.end:
            by_start[one.start] = one
    chain = []
    while (following := by_start.get(start)) is not None:
        chain.append(following)
        start = following.end
    return chain, start
