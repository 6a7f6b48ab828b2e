"""Ranges of offsets: what the name of a staged file says, and how far a table is by the names of its objects."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lakeward.adapters.sources.kafka.topics import Place

NAMES: Final = r"\+?[^+/]+\+(?P<partition>\d{1,5})\+(?P<counter>\d{1,13})-\d{1,13}\+[\w-]+\.json"
"""The names of staged files, as a pattern for the source of files: partition and first offset give the order."""

_MARK: Final = "~"
"""Stands before the name of a topic of transactions, of which a table has no messages: no name has it itself."""

_NO_PARTITION: Final = 99_999
"""The partition of ranges of such a topic, so that they sort apart from those of messages."""

_OFFSETS: Final = 10**13
_PARTITIONS: Final = 10**5

_NAME: Final = re.compile(
    r"\+?(?P<topic>[^+/]+)\+(?P<partition>\d{1,5})\+(?P<first>\d{1,13})-(?P<last>\d{1,13})\+(?P<id>[\w-]+)\.json",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets of a partition from `start` on that lie before `end`, of a topic by its name and its id."""

    topic: str
    id: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        """Refuse what could not be read from the name again: its file would never be taken."""
        is_kept = self.start < self.end <= _OFFSETS and self.partition < _PARTITIONS
        if not is_kept or re.fullmatch(r"[\w-]+", self.id, re.ASCII) is None:
            raise ValueError(f"no range of offsets: {self!r}")

    @property
    def name(self) -> str:
        """The name of its file. A file whose name begins with `_` or `.` would be hidden: `+` stands before it.

        >>> OffsetRange("shop.public.orders", "4fVb2", 3, 1200, 1260).name
        'shop.public.orders+3+0000001200-0000001259+4fVb2.json'
        """
        mark = "+" if self.topic[0] in "._" else ""
        return f"{mark}{self.topic}+{self.partition}+{self.start:010}-{self.end - 1:010}+{self.id}.json"

    @property
    def words(self) -> str:
        """The range as people read it."""
        topic, partition = Place.of(self.topic, self.partition)
        return f"{topic}, partition {partition}, offsets {self.start:,} to {self.end - 1:,}"

    @classmethod
    def read(cls, name: str) -> OffsetRange | None:
        """Return what a name says; None for a name of another form."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        return cls(
            found["topic"], found["id"], int(found["partition"]), int(found["first"]), int(found["last"]) + 1
        )

    @classmethod
    def of_transactions(cls, topic: str, id_: str, start: int, end: int) -> OffsetRange:
        """Return a range of a topic of transactions: what a batch makes whole, of which the table has no messages.

        >>> OffsetRange.of_transactions("shop.transaction", "4fVb2", 0, 12).name
        '~shop.transaction+99999+0000000000-0000000011+4fVb2.json'
        """
        return cls(f"{_MARK}{topic}", id_, _NO_PARTITION, start, end)

    @property
    def is_of_transactions(self) -> bool:
        """Whether it is a range of a topic of transactions."""
        return self.topic.startswith(_MARK)


def read_names(names: Iterable[str]) -> list[OffsetRange]:
    """Return the ranges of messages that names say; names of another form are passed over."""
    found = map(OffsetRange.read, names)
    return [one for one in found if one is not None and not one.is_of_transactions]


def read_transactions(names: Iterable[str]) -> list[OffsetRange]:
    """Return the ranges of topics of transactions that names say."""
    found = map(OffsetRange.read, names)
    return [one for one in found if one is not None and one.is_of_transactions]


def next_offsets(applied: Iterable[OffsetRange]) -> Mapping[int, int]:
    """Return for each partition the offset behind the greatest that was applied.

    >>> next_offsets(OffsetRange("t", "i", *numbers) for numbers in ((0, 0, 5), (0, 5, 9), (1, 0, 2)))
    {0: 9, 1: 2}
    """
    found: dict[int, int] = {}
    for one in applied:
        found[one.partition] = max(one.end, found.get(one.partition, 0))
    return found


def follow(start: int, ranges: Collection[OffsetRange]) -> tuple[list[OffsetRange], int]:
    """Return the ranges of one partition that follow an offset without a gap, and the offset behind them.

    Of several that begin at one offset the longest is taken.

    >>> a, b = OffsetRange("t", "i", 0, 5, 9), OffsetRange("t", "i", 0, 10, 12)
    >>> follow(5, [b, a])[1]
    9
    """
    by_start: dict[int, OffsetRange] = {}
    for one in ranges:
        if one.start not in by_start or by_start[one.start].end < one.end:
            by_start[one.start] = one
    found = []
    while (then := by_start.get(start)) is not None:
        found.append(then)
        start = then.end
    return found, start
