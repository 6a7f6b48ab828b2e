"""What a person should look at though it stops nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lakeward.core.checks.source_clock import SLACK, Ahead, Backwards, believed
from lakeward.core.ledger.duplicate_objects import DuplicateObject

NONE_ACKED: Final[Mapping[str, Collection[str]]] = {}


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a person should look at though it stops nothing: its code, what is wrong, what was found, what to do."""

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
    """Return the alarms of a table: a source time is one until the clock has come near it.

    `acked` is what operators let pass, by the code of the alarm.
    """
    is_past = ahead is None or ahead.time <= believed(now) or ahead.about in acked.get("CLOCK-001", ())
    found = [] if ahead is None or is_past else [_in_the_future(table, ahead, now)]
    found += [_runs_backwards(table, one) for one in dict.fromkeys(backwards)]
    return (*found, *[_has_twin(table, one) for one in dict.fromkeys(duplicate_objects)])


def _in_the_future(table: str, ahead: Ahead, now: int) -> Alarm:
    return Alarm(
        "CLOCK-001",
        f"{table}: a commit time lies in the future",
        found=f"{ahead.object} has one {_words(ahead.time - now)} ahead of the clock",
        todo="It was applied and does not move the mark. Where the commit time is the order, and no "
        "`sequence_column`, no other change of its row is newer until then. Correct the clock of the source, or of "
        "this machine; load the table anew where rows are wrong. "
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
        "that was set back, or a second task that writes the table; load it anew where "
        "rows are wrong.",
    )


def _has_twin(table: str, twin: DuplicateObject) -> Alarm:
    return Alarm(
        "COPY-001",
        f"{table}: two files have the same content",
        found=f"{twin.object} holds what {twin.of} does",
        todo="It was applied, since without a key nothing tells a row from its copy. If the file is one, its rows "
        "are there twice: load the table anew.",
    )


def _words(micros: int) -> str:
    hours = micros // SLACK
    return f"{hours:,} h" if hours < 48 else f"{hours // 24:,} days"
