"""Checks of source times: times in the future, and an order that runs backwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

SLACK: Final = 3600 * 1_000_000
"""By how much the clocks of source and machine may differ, in microseconds."""


class Ahead(NamedTuple):
    """A source time in the future, in microseconds since 1970, and the object that has it."""

    time: int
    object: str

    @property
    def about(self) -> str:
        """What an operator acknowledges."""
        return f"{self.object} {self.time}"


class Backwards(NamedTuple):
    """An object whose order runs backwards.

    `row` is the first row that does, or None where the object lies below the low watermark of the table.
    """

    object: str
    row: int | None


def believed(now: int) -> int:
    """Return the latest source time that is plausible: an hour ahead of the clock, in microseconds.

    >>> believed(0) == SLACK
    True
    """
    return now + SLACK


def latest(times: Iterable[int | None], limit: int | None) -> int | None:
    """Return the greatest of the times that are at or below the limit, or of all where there is no limit."""
    return max((t for t in times if t is not None and (limit is None or t <= limit)), default=None)


def beyond(times: Iterable[int | None], limit: int | None) -> int | None:
    """Return the greatest of the times above the limit, or None."""
    return max((t for t in times if t is not None and limit is not None and t > limit), default=None)


def first_step_back(rows: Iterable[tuple[int, int]], tolerance: int) -> int | None:
    """Return the first row whose sequence lies more than `tolerance` below that of an earlier row, or None.

    >>> first_step_back([(1, 10), (3, 12), (2, 20)], 5), first_step_back([(1, 10), (3, 12), (2, 20)], 8)
    (3, None)
    """
    greatest: int | None = None
    for row, sequence in sorted(rows):
        if greatest is not None and greatest - sequence > tolerance:
            return row
        greatest = sequence if greatest is None else max(greatest, sequence)
    return None
