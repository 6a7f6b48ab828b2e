"""Selection of the messages that may land, so that each transaction lands completely or not at all."""

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
    """Consecutive messages of one transaction, or of none, in a partition.

    `offset` is that of the first message, `byte` the position of its line in the file. `before` is the time at
    which the message before it was sent.
    """

    transaction: str | None
    offset: int
    byte: int
    before: int


@dataclass(slots=True)
class PartitionRead:
    """What was read of a partition into a file without a name: its runs, and the number of messages of each run.

    It goes up to the offset `end`, and `is_full` says that the range has more. `messages` and `bytes` are its
    totals; `last` is when the last message was sent. `blocking` is a transaction without a known end before whose
    message, sent at `blocked_at`, reading stopped. Times are in milliseconds since 1970.
    """

    offset_range: OffsetRange
    file: Path
    end: int
    runs: list[Run] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    last: int = 0
    is_full: bool = False
    blocking: str | None = None
    blocked_at: int | None = None

    @property
    def is_read(self) -> bool:
        """True if all of the range was read."""
        return not self.is_full and self.blocking is None

    def add(self, transaction: str | None, record: Record, size: int) -> None:
        """Add a message whose line has `size` bytes."""
        if not self.runs or self.runs[-1].transaction != transaction:
            self.runs.append(Run(transaction, record.offset, self.bytes, self.last))
            self.counts.append(0)
        self.counts[-1] += 1
        self.messages, self.bytes = self.messages + 1, self.bytes + size
        self.last = record.timestamp or 0

    def stop(self, transaction: str, record: Record) -> None:
        """End before a message of a transaction without a known end."""
        self.end, self.blocking, self.blocked_at = record.offset, transaction, record.timestamp

    def fill(self, record: Record) -> None:
        """End after a message, because a limit is reached."""
        self.end, self.is_full = record.offset + 1, record.offset + 1 < self.offset_range.end


class Cut(NamedTuple):
    """The number of runs of each part that land, and the transactions that do not.

    The latter are incomplete, or come after incomplete ones. `changes` are the numbers of changes of each
    transaction that were read. All transactions that end before the offset `searched_to` of their topic were
    searched for in each partition.
    """

    landed_runs: Sequence[int]
    incomplete: AbstractSet[str]
    changes: Mapping[str, int]
    searched_to: float


def cut(
    parts: Sequence[PartitionRead], ends: Callable[[str], int], is_whole: Callable[[str, int, float], bool]
) -> Cut:
    """Return the most that may land with whole transactions only.

    `ends` returns the offset in its topic at which a transaction ends. `is_whole` returns True for a whole
    transaction, by the number of its changes that were read and by `searched_to`.
    """
    changes, part_ends = Counter[str](), list[float]()
    for part in parts:
        named = [(run.transaction, n) for run, n in zip(part.runs, part.counts, strict=True) if run.transaction]
        for name, n in named:
            changes[name] += n
        part_ends.append(inf if part.is_read else max((ends(name) for name, _ in named), default=-1))
    searched_to = min(part_ends, default=inf)
    incomplete = {name for name, count in changes.items() if not is_whole(name, count, searched_to)}
    landed_runs = [len(part.runs) for part in parts]
    grows = bool(incomplete)
    while grows:
        grows = False
        for number, part in enumerate(parts):
            runs = landed_runs[number]
            landed_runs[number] = next((n for n in range(runs) if part.runs[n].transaction in incomplete), runs)
            removed_transactions = {
                run.transaction for run in part.runs[landed_runs[number] : runs] if run.transaction
            }
            grows = grows or not removed_transactions <= incomplete
            incomplete |= removed_transactions
    return Cut(landed_runs, incomplete, changes, searched_to)
