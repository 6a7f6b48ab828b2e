"""What was read of the partitions of a topic, and how much of it lands so that no transaction is landed in part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import NamedTuple

from lakeward.adapters.sources.kafka.broker import Record
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange


class Run(NamedTuple):
    """Messages of one transaction, or of none, behind one another in a partition.

    `offset` is that of the first, `byte` where its line begins. The message before was sent at `before`.
    """

    transaction: str | None
    offset: int
    byte: int
    before: int


@dataclass(slots=True)
class Part:
    """What was read of a partition into a file without a name: its runs, and how many messages each of them has.

    It goes up to the offset `end`, and `is_full` where more of the range is there. It has so many `messages` and
    bytes; the last one was sent at `last`. Reading `stopped` before a message, sent at `stopped_at`, of a
    transaction that is not known to end.
    """

    of: OffsetRange
    file: Path
    end: int
    runs: list[Run] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    last: int = 0
    is_full: bool = False
    stopped: str | None = None
    stopped_at: int | None = None

    @property
    def is_read(self) -> bool:
        """Whether all of the range was read."""
        return not self.is_full and self.stopped is None

    def add(self, transaction: str | None, record: Record, size: int) -> None:
        """Add a message, whose line has so many bytes."""
        if not self.runs or self.runs[-1].transaction != transaction:
            self.runs.append(Run(transaction, record.offset, self.bytes, self.last))
            self.counts.append(0)
        self.counts[-1] += 1
        self.messages, self.bytes = self.messages + 1, self.bytes + size
        self.last = record.timestamp or 0

    def stop(self, transaction: str, record: Record) -> None:
        """End before a message."""
        self.end, self.stopped, self.stopped_at = record.offset, transaction, record.timestamp

    def fill(self, record: Record) -> None:
        """End behind a message, though more may be there."""
        self.end, self.is_full = record.offset + 1, record.offset + 1 < self.of.end


class Cut(NamedTuple):
    """How many runs of each part land, and which transactions do not: they are not whole, or lie behind such ones.

    `changes` are those that were read of each transaction. In each partition all transactions were looked for that
    end before the offset `behind` of their topic.
    """

    kept: Sequence[int]
    left: AbstractSet[str]
    changes: Mapping[str, int]
    behind: float


def cut(parts: Sequence[Part], ends: Callable[[str], int], is_whole: Callable[[str, int, float], bool]) -> Cut:
    """Return the most that may land, so that each transaction in it is whole.

    `ends` says where a transaction ends in its topic, `is_whole` whether it is whole: by how many of its changes
    were read, and the offset `behind`.
    """
    changes, reached = Counter[str](), list[float]()
    for part in parts:
        named = [(run.transaction, n) for run, n in zip(part.runs, part.counts, strict=True) if run.transaction]
        for name, n in named:
            changes[name] += n
        reached.append(inf if part.is_read else max((ends(name) for name, _ in named), default=-1))
    behind = min(reached, default=inf)
    left = {name for name, seen in changes.items() if not is_whole(name, seen, behind)}
    kept = [len(part.runs) for part in parts]
    grows = bool(left)
    while grows:
        grows = False
        for number, part in enumerate(parts):
            most = kept[number]
            kept[number] = next((n for n in range(most) if part.runs[n].transaction in left), most)
            away = {run.transaction for run in part.runs[kept[number] : most] if run.transaction}
            grows = grows or not away <= left
            left |= away
    return Cut(kept, left, changes, behind)
