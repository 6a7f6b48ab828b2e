"""Alarms that do not stop a table, but that a person should look at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lakeward.core.checks.source_clock import SLACK, Ahead, Backwards, believed
from lakeward.core.ledger.duplicate_objects import DuplicateObject

NONE_ACKED: Final[Mapping[str, Collection[str]]] = {}
"""No acknowledged alarm."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm: its code, what is wrong, what was found, and what to do."""

    code: str
    what: str
    found: str
    todo: str


def alarms(
    table: str,
    ahead: Ahead | None,
    backwards: Iterable[Backwards],
    duplicate_objects: Iterable[DuplicateObject],
    now: int,
    acked: Mapping[str, Collection[str]] = NONE_ACKED,
) -> tuple[Alarm, ...]:
    """Return the alarms of a table that do not stop it.

    A source time in the future is an alarm until the clock has come near it. `now` is in microseconds since 1970.
    `acked` is what operators acknowledged, by code of alarm.
    """
    is_over = ahead is None or ahead.time <= believed(now) or ahead.about in acked.get("CLOCK-001", ())
    raised = [] if ahead is None or is_over else [_future_time(table, ahead, now)]
    raised += [_backward_order(table, item) for item in dict.fromkeys(backwards)]
    return (*raised, *[_duplicate_content(table, item) for item in dict.fromkeys(duplicate_objects)])


def _future_time(table: str, ahead: Ahead, now: int) -> Alarm:
    """Return the alarm for a source time in the future."""
    return Alarm(
        "CLOCK-001",
        f"{table}: a commit time lies in the future",
        found=f"{ahead.object} has one {_duration(ahead.time - now)} ahead of the clock",
        todo="It was applied and does not raise the low watermark. Where the commit time is the order, and no "
        "`sequence_column`, no other change of its row is newer until then. Correct the clock of the source, or of "
        "this machine; load the table anew where rows are wrong. "
        f"If it may stay as it is: `lakeward ack {table} CLOCK-001`.",
    )


def _backward_order(table: str, backwards: Backwards) -> Alarm:
    """Return the alarm for an order that runs backwards."""
    fault = "has changes at or below the low watermark: they came too late"
    if backwards.row is not None:
        fault = f"goes back in row {backwards.row}, below rows before it"
    return Alarm(
        "SEQUENCE-001",
        f"{table}: the order of the source runs backwards",
        found=f"{backwards.object} {fault}",
        todo="Changes in time were applied at their place in the order; late ones are in quarantine. Look for a "
        "clock that was set back, or a second task that writes the table; load it anew where rows are wrong.",
    )


def _duplicate_content(table: str, duplicate: DuplicateObject) -> Alarm:
    """Return the alarm for two objects of equal content."""
    return Alarm(
        "COPY-001",
        f"{table}: two files have the same content",
        found=f"{duplicate.object} holds what {duplicate.of} does",
        todo="It was applied, since without a key nothing tells a row from its copy. If the file is one, its rows "
        "are there twice: load the table anew.",
    )


def _duration(micros: int) -> str:
    """Return a duration in microseconds in words, in hours or days."""
    hours = micros // SLACK
    return f"{hours:,} h" if hours < 48 else f"{hours // 24:,} days"
