"""Truncate a table where the source wrote no truncate, at a moment that an operator names.

DMS deletes the files of the table instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Generic, TypeVar

from lakeward.core.checks.event_order import LOG_PLACE
from lakeward.core.checks.log_restart import LOG_ALARM, LogRestart
from lakeward.core.checks.source_clock import believed
from lakeward.core.checks.unordered_truncates import is_ordered
from lakeward.core.errors import AlarmRaised, ConfigError
from lakeward.core.events import Position, Sequences
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.pipeline.discovery import discover, find_awaited_load
from lakeward.core.pipeline.job import Job, Report
from lakeward.core.pipeline.truncation import truncate
from lakeward.core.ports import Acknowledgement, ChangeLogState
from lakeward.core.progress import Progress
from lakeward.core.text.numbers import format_count

F = TypeVar("F")

NOW = "now"
_LAST = 2**62
"""Above the order of any object and the number of any row."""


@dataclass
class _Listing(Generic[F]):
    """The objects at the source of a table, listed once and only where they are needed."""

    job: Job[F]

    @cached_property
    def selection(self) -> ObjectSelection:
        """The next objects; none where all files are gone, an alarm (LEDGER-005) that the truncate acknowledges."""
        try:
            return discover(self.job).selection
        except AlarmRaised as error:
            if error.code != "LEDGER-005":
                raise
            return ObjectSelection()


def truncate_at(job: Job[F], moment: str, *, by: str, reason: str | None, at: int) -> Report:
    """Remove the rows that existed at a moment: `now`, a time, or before the first row of a file of changes.

    In a history the versions end there: for a file at the commit time of its first row, or at the run where changes
    have no time. The alarm that the files of the table are gone is acknowledged with it. `at` is in microseconds
    since 1970. Raises ConfigError where the moment has no place in the order of the table, lies in the future, or
    is at or below the low watermark.
    """
    progress = job.opened.table.state().progress
    change_log_state = job.opened.change_log.read_state(progress)
    _refuse(job, progress, change_log_state)
    listing = _Listing(job)
    is_now = moment == NOW
    position = (
        (_position_of_now(listing, progress, change_log_state), at)
        if is_now
        else _position_of(listing, moment, progress, change_log_state, at)
    )
    place, time = position
    if progress.low_watermark is not None and place.source_order <= progress.low_watermark:
        raise ConfigError(
            f"{job.dimension.name}: {moment} lies below the low watermark",
            found="what was changed since then is not remembered any more (`lateness`)",
            todo=f"Load the table anew: `lakeward reload {job.dimension.name}`. Nothing was changed.",
        )
    _refuse_unordered(listing, moment, place, change_log_state)
    report = truncate(job, place, time=time)
    if progress.object is not None:
        acknowledgement = Acknowledgement(
            code="LEDGER-005", about=(progress.object,), by=by, reason=reason, at=at, epoch=progress.epoch
        )
        job.opened.change_log.record_decision(report.progress, acknowledgement)
    if job.ledger_writer is not None:
        job.ledger_writer.clear_alarms(report.table, None)
    return report


def _refuse(job: Job[F], progress: Progress, change_log_state: ChangeLogState) -> None:
    """Refuse to truncate a table without rows or without a key, or one that waits for a reload."""
    name = job.dimension.name
    if not progress.batch or not job.dimension.key:
        raise ConfigError(
            f"{name} cannot be truncated",
            found="it has no key, so its rows have no order" if progress.batch else "nothing was applied yet",
            todo=f"`lakeward reload {name}` replaces all rows." if progress.batch else "Nothing was changed.",
        )
    if job.dimension.snapshots is None and find_awaited_load(job, progress, change_log_state) is not None:
        raise ConfigError(
            f"{name} waits for a full load, which takes the place of all rows",
            todo="`lakeward reload --withdraw` takes that back. Nothing was changed.",
        )


def _refuse_unordered(
    listing: _Listing[F], moment: str, position: Position, change_log_state: ChangeLogState
) -> None:
    """Raise ConfigError for a position without an order relative to rows of other partitions of a topic."""
    restarts = LogRestart.all_of(change_log_state.acknowledged(position.epoch).get(LOG_ALARM, ()))
    if not is_ordered(position, listing.selection, change_log_state.objects.values(), restarts):
        raise ConfigError(
            f"{listing.job.dimension.name}: {moment} is not before or behind all rows of its partitions",
            found="its messages tell no place in the log of the source, so each partition has an order of its own",
            todo="Load the table anew, from messages behind the truncate. Nothing was changed.",
        )


def _position_of_now(listing: _Listing[F], progress: Progress, change_log_state: ChangeLogState) -> Position:
    """Return a position above all applied events; raises ConfigError where objects wait."""
    job, selection = listing.job, listing.selection
    waiting = [item.name for item in (*selection.objects, *selection.remaining)]
    if waiting:
        raise ConfigError(
            f"{job.dimension.name}: {format_count(len(waiting), 'file waits', 'files wait')}, and may lie "
            "before the truncate or behind it",
            found=f"found {', '.join(waiting[:3])}",
            todo="Run first if they lie before it. Else name the time of the truncate, or the first file behind "
            "it. Nothing was changed.",
        )
    newest_object = max((item.order for item in change_log_state.objects.values()), default=0)
    return Position(progress.epoch, _newest(progress), _LAST if _has_unique_places(job) else newest_object, _LAST)


def _position_of(
    listing: _Listing[F], moment: str, progress: Progress, change_log_state: ChangeLogState, at: int
) -> tuple[Position, int | None]:
    """Return the position of a moment and its time in microseconds since 1970, None where that is not known."""
    job = listing.job
    for record in job.opened.change_log.applied(progress, 0):
        if (
            record.object.name == moment
            and record.least is not None
            and record.object.name in change_log_state.objects
        ):
            position = Position(progress.epoch, max(0, record.least.sequence), record.object.order - 1, _LAST)
            return position, _time(job, record.least)
    for item in (*listing.selection.objects, *listing.selection.remaining):
        if item.name == moment:
            object_order = _LAST if _has_unique_places(job) else item.order - 1
            position = Position(progress.epoch, _newest(progress), object_order, _LAST)
            return position, _time(job, _least(job, item, progress.epoch))
    micros = _micros(moment)
    by_time = job.dimension.sequences is Sequences.TIMES and bool(_newest(progress))
    if micros is None or not by_time:
        times = ", `now`, or a time as 2026-11-21T10:00:00Z" if by_time else ", or `now`"
        raise ConfigError(
            f"{job.dimension.name}: {moment!r} cannot be put into the order of its changes",
            found="it is no file of the table"
            + ("" if micros is None else ", and no commit times put its changes in order"),
            todo=f"Name the first file of changes behind the truncate{times}. Nothing was changed.",
        )
    if micros > believed(at):
        raise ConfigError(
            f"{job.dimension.name}: {moment} is yet to come",
            found="whatever changes until then would be overruled when it arrives",
            todo="Name the time of the truncate (UTC, if no zone is given). Nothing was changed.",
        )
    return Position(progress.epoch, micros, _LAST, _LAST), micros


def _has_unique_places(job: Job[F]) -> bool:
    """Return True if a change with a sequence that was applied is no newer change, in whatever object it comes.

    It is the same change, delivered again, or another one of its transaction. A time, or a column that orders rows,
    may be shared by changes that come later.
    """
    is_place = job.dimension.sequences is Sequences.PLACES and job.source.order_by(job.dimension) == LOG_PLACE
    return is_place or job.dimension.sequences is Sequences.UNIQUE


def _least(job: Job[F], item: SourceObject, epoch: int) -> Position | None:
    """Return the position of the first row of a waiting object; None for a mirror, which needs no time."""
    if job.dimension.history is None:
        return None
    batch = job.source.read(job.dimension, ObjectSelection(objects=(item,)), epoch)
    batch.close()
    return batch.facts.least


def _time(job: Job[F], position: Position | None) -> int | None:
    """Return the commit time of a position; None where it has none."""
    is_time = job.dimension.sequences is Sequences.TIMES and position is not None and position.sequence > 0
    return position.sequence if position is not None and is_time else None


def _newest(progress: Progress) -> int:
    """Return the greatest sequence of an applied change; 0 for sources without sequences."""
    return 0 if progress.high_watermark is None else max(0, progress.high_watermark.sequence)


def _micros(moment: str) -> int | None:
    """Return a time in microseconds since 1970, in UTC where the text has no zone; None where it is no time."""
    try:
        time = datetime.fromisoformat(moment)
    except ValueError:
        return None
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return round(time.timestamp() * 1_000_000)
