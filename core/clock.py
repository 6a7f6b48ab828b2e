"""Source times that cannot be true: held against the clock, and kept from moving the mark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

SLACK: Final = 3600 * 1_000_000
"""By how much, in microseconds, the clocks of source and machine may differ."""

NONE_ACKED: Final[Mapping[str, Collection[str]]] = {}


class Ahead(NamedTuple):
    """A source time in the future, in microseconds since 1970, and the object that has it."""

    time: int
    object: str

    @property
    def about(self) -> str:
        """What an operator lets pass who goes on all the same."""
        return f"{self.object} {self.time}"


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a person should look at though it stops nothing: its code, what is wrong, what was found, what to do."""

    code: str
    what: str
    found: str
    todo: str


def believed(now: int) -> int:
    """Return the latest source time that is believed: an hour ahead of the clock.

    >>> believed(0) == SLACK
    True
    """
    return now + SLACK


def latest(times: Iterable[int | None], limit: int | None) -> int | None:
    """Return the greatest of the times that are believed (all, where there is no limit)."""
    return max((t for t in times if t is not None and (limit is None or t <= limit)), default=None)


def beyond(times: Iterable[int | None], limit: int | None) -> int | None:
    """Return the greatest of the times that are not believed."""
    return max((t for t in times if t is not None and limit is not None and t > limit), default=None)


def alarms(
    table: str, ahead: Ahead | None, now: int, acked: Mapping[str, Collection[str]] = NONE_ACKED
) -> tuple[Alarm, ...]:
    """Return the alarms of a table: a source time is one until the clock has come near it.

    `acked` is what operators let pass, by the code of the alarm.
    """
    if ahead is None or ahead.time <= believed(now) or ahead.about in acked.get("CLOCK-001", ()):
        return ()
    return (
        Alarm(
            "CLOCK-001",
            f"{table}: a commit time lies in the future",
            found=f"{ahead.object} has one {_words(ahead.time - now)} ahead of the clock",
            todo="It was applied and does not move the mark; until then no other change of its row is newer. "
            "Correct the clock of the source, or of this machine; load the table anew where rows are wrong. "
            f"If it may stay as it is: `lakeward ack {table} CLOCK-001`.",
        ),
    )


def _words(micros: int) -> str:
    hours = micros // SLACK
    return f"{hours:,} h" if hours < 48 else f"{hours // 24:,} days"
