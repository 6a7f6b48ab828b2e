"""Source times that cannot be true, and an order that runs backwards: what raises an alarm and stops nothing."""

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


class Backwards(NamedTuple):
    """An object whose order runs backwards: from which row on, or None where that is against the table's mark."""

    object: str
    row: int | None


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


def first_step_back(places: Iterable[tuple[int, int]], tolerance: int) -> int | None:
    """Return the first row whose sequence lies more than `tolerance` behind one of a row before it, or None.

    >>> first_step_back([(1, 10), (3, 12), (2, 20)], 5), first_step_back([(1, 10), (3, 12), (2, 20)], 8)
    (3, None)
    """
    greatest: int | None = None
    for row, sequence in sorted(places):
        if greatest is not None and greatest - sequence > tolerance:
            return row
        greatest = sequence if greatest is None else max(greatest, sequence)
    return None


def alarms(
    table: str,
    ahead: Ahead | None,
    backwards: Iterable[Backwards],
    now: int,
    acked: Mapping[str, Collection[str]] = NONE_ACKED,
) -> tuple[Alarm, ...]:
    """Return the alarms of a table: a source time is one until the clock has come near it.

    `acked` is what operators let pass, by the code of the alarm.
    """
    is_past = ahead is None or ahead.time <= believed(now) or ahead.about in acked.get("CLOCK-001", ())
    found = [] if ahead is None or is_past else [_in_the_future(table, ahead, now)]
    return (*found, *[_runs_backwards(table, one) for one in dict.fromkeys(backwards)])


def _in_the_future(table: str, ahead: Ahead, now: int) -> Alarm:
    return Alarm(
        "CLOCK-001",
        f"{table}: a commit time lies in the future",
        found=f"{ahead.object} has one {_words(ahead.time - now)} ahead of the clock",
        todo="It was applied and does not move the mark; until then no other change of its row is newer. "
        "Correct the clock of the source, or of this machine; load the table anew where rows are wrong. "
        f"If it may stay as it is: `lakeward ack {table} CLOCK-001`.",
    )


def _runs_backwards(table: str, backwards: Backwards) -> Alarm:
    where = "has changes that lie at or below the mark: they came too late"
    if backwards.row is not None:
        where = f"goes back in row {backwards.row}, behind rows that stand before it"
    return Alarm(
        "SEQUENCE-001",
        f"{table}: the order of the source runs backwards",
        found=f"{backwards.object} {where}",
        todo="What has a place in the order was put there; what came too late is in quarantine. Look for a clock "
        "that was set back, or a second task that writes the table; load it anew where rows are wrong.",
    )


def _words(micros: int) -> str:
    hours = micros // SLACK
    return f"{hours:,} h" if hours < 48 else f"{hours // 24:,} days"
