"""The clock that Hudi takes its instants from, and a timeline that lies ahead of it.

Hudi orders writes by the times at which they were requested and completed. Where the host of a write before had a
clock that was ahead, or this one was set back, the next would count as the earlier one: its batch would not be
found, and be written again.
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
"""Microseconds that are waited for: clocks that are kept set differ by less."""

_MILLI: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _now() -> int:
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of this machine, in microseconds since 1970, as Java has it too, and how seconds are waited."""

    now: Callable[[], int] = _now
    sleep: Callable[[float], None] = time.sleep

    def until_past(self, latest: str) -> int:
        """Return the microseconds until an instant that is begun by this clock comes behind another; 0 is now."""
        now = self.now()
        return 0 if latest < instant_of(now) else micros_of(latest) + _MILLI - now


MACHINE: Final = Clock()


def ahead(timeline: Timeline, clock: Clock) -> str | None:
    """Return in words that a timeline lies ahead of the clock by more than is waited for, or None."""
    latest = timeline.latest()
    return _both(latest, clock) if clock.until_past(latest) > PATIENCE else None


def pass_by(timeline: Timeline, what: str, clock: Clock) -> None:
    """Wait for a moment, where there is need, until what is written now comes behind all that a timeline has.

    Who asks holds the lock of the table, and has written nothing. Raises TableError where it would take longer.
    """
    left = clock.until_past(timeline.latest())
    if 0 < left <= PATIENCE:
        clock.sleep(left / 1_000_000)
    latest = timeline.latest()
    if clock.until_past(latest) > 0:
        raise TableError(
            f"{what}: the clock of this machine is behind the table",
            found=_both(latest, clock),
            todo="Nothing was written. Set the clock, and keep it set (chrony, systemd-timesyncd); if it is right, "
            "another host's was ahead: set that, and wait until the time of the instant. Hudi orders writes by "
            "their times, and this one would count as the earlier.",
        )


def _both(latest: str, clock: Clock) -> str:
    return f"its timeline has the instant {latest}, and it is {instant_of(clock.now())} in UTC"


def instant_of(now: int) -> str:
    """Return a time as Hudi writes it.

    >>> instant_of(1_795_305_603_004_999)
    '20261122000003004'
    """
    return f"{_EPOCH + timedelta(microseconds=now):%Y%m%d%H%M%S%f}"[:17]
