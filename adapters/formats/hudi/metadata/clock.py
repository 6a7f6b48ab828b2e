"""The clock that Hudi takes its instants from, and timelines that are ahead of it.

Hudi orders writes by the times at which they were requested and completed. If the host of an earlier write had a
clock that was ahead, or this clock was set back, the next write would count as the earlier one: its batch would not
be found, and would be written again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from lakeward.adapters.formats.hudi.metadata.timeline import Timeline, micros_of
from lakeward.core.errors import TableError

PATIENCE: Final = 5_000_000
"""The longest wait in microseconds: clocks that are synchronised differ by less."""

_MILLI: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _now() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of this machine, in microseconds since 1970, which Java uses as well, and a sleep function."""

    now: Callable[[], int] = _now
    sleep: Callable[[float], None] = time.sleep

    def until_past(self, latest: str) -> int:
        """Return the microseconds until a new instant of this clock sorts after another; 0 is now."""
        now = self.now()
        return 0 if latest < instant_of(now) else micros_of(latest) + _MILLI - now


MACHINE: Final = Clock()


def describe_clock_lag(timeline: Timeline, clock: Clock) -> str | None:
    """Return a message if a timeline is ahead of the clock by more than the longest wait, or None."""
    latest = timeline.latest()
    return _describe_difference(latest, clock) if clock.until_past(latest) > PATIENCE else None


def wait_until_past(timeline: Timeline, table_name: str, clock: Clock) -> None:
    """Wait, if needed, until an instant written now sorts after all instants of a timeline.

    The caller holds the lock of the table and has written nothing. Raises TableError if it would take too long.
    """
    microseconds = clock.until_past(timeline.latest())
    if 0 < microseconds <= PATIENCE:
        clock.sleep(microseconds / 1_000_000)
    latest = timeline.latest()
    if clock.until_past(latest) > 0:
        raise TableError(
            f"{table_name}: the clock of this machine is behind the table",
            found=_describe_difference(latest, clock),
            todo="Nothing was written. Set the clock, and keep it set (chrony, systemd-timesyncd); if it is right, "
            "another host's was ahead: set that, and wait until the time of the instant. Hudi orders writes by "
            "their times, and this one would count as the earlier.",
        )


def _describe_difference(latest: str, clock: Clock) -> str:
    return f"its timeline has the instant {latest}, and it is {instant_of(clock.now())} in UTC"


def instant_of(now: int) -> str:
    """Return a time as Hudi writes it.

    >>> instant_of(1_795_305_603_004_999)
    '20261122000003004'
    """
    return f"{_EPOCH + timedelta(microseconds=now):%Y%m%d%H%M%S%f}"[:17]
