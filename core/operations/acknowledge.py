"""Acknowledge an alarm of a table, with the operator and the reason; and rebuild the ledger of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from lakeward.core.checks.databases import DATABASE_ALARM
from lakeward.core.checks.log_restart import LOG_ALARM
from lakeward.core.checks.refused_files import REFUSED_ALARM
from lakeward.core.checks.topic_restart import TOPIC_ALARM
from lakeward.core.errors import AlarmRaised, ConfigError
from lakeward.core.pipeline.discovery import discover, find_awaited_load
from lakeward.core.pipeline.finish import archive_objects
from lakeward.core.pipeline.job import Job, PreparedBatch
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.core.ports import Acknowledgement, TableState
from lakeward.core.reporting.alarms import alarms

F = TypeVar("F")

_OF_ROWS: Final = ("LOAD-001", "LOAD-002", LOG_ALARM, TOPIC_ALARM, REFUSED_ALARM, DATABASE_ALARM)
"""Alarms that are found only when the rows of a batch are read."""

PASSABLE: Final = (
    *("LEDGER-001", "LEDGER-002", "LEDGER-003", "LEDGER-004", "LEDGER-005", "LEDGER-006"),
    *("KAFKA-001", "CLOCK-001", *_OF_ROWS),
)
"""Alarms that an operator may acknowledge."""

_NUMBERS: Final = {
    "LEDGER-002": 2,
    **dict.fromkeys(("LOAD-001", "LOAD-002", REFUSED_ALARM), 2),
    "CLOCK-001": 1,
    LOG_ALARM: 3,
}
"""How many numbers follow the name of an object in what an alarm is about."""


def objects_in(code: str, about: Iterable[str]) -> list[str]:
    """Return the objects that an alarm is about, each once, sorted by name.

    >>> objects_in("LEDGER-002", ["b.csv 20 1700000000000000", "a b.csv 1 2"])
    ['a b.csv', 'b.csv']
    >>> objects_in("LEDGER-003", ["a 1 2"])
    ['a 1 2']
    """
    return sorted({text.rsplit(" ", _NUMBERS[code])[0] if code in _NUMBERS else text for text in about})


def acknowledge(job: Job[F], code: str, *, by: str, reason: str | None, at: int) -> Acknowledgement:
    """Acknowledge the alarm of a table that has this code; return the stored decision.

    `at` is in microseconds since 1970. Raises ConfigError where the table has no such alarm now, and what
    `job.check` raises, before anything is written.
    """
    if code not in PASSABLE:
        raise ConfigError(
            f"{code} is no alarm that can be acknowledged",
            found=f"alarms that can be acknowledged are {', '.join(PASSABLE)}",
            todo="docs/reference/alarms.md says what to do about each alarm. Nothing was changed.",
        )
    state = job.opened.table.state()
    alarm = _current_alarm(job, state, code, at)
    if alarm is None or alarm.code != code:
        raise ConfigError(
            f"{job.dimension.name}: the alarm {code} does not stand",
            found="the table has no alarm" if alarm is None else f"its alarm is {alarm.code}: {alarm.what}",
            todo="`lakeward status` lists the alarms of the last run. Nothing was changed.",
        )
    load = find_awaited_load(job, state.progress, job.opened.change_log.read_state(state.progress))
    epoch = state.progress.epoch if load is None else load.epoch
    decision = Acknowledgement(code=code, about=alarm.about, by=by, reason=reason, at=at, epoch=epoch)
    job.check()
    job.opened.change_log.record_decision(state.progress, decision)
    if job.ledger_writer is not None:
        acked = job.opened.change_log.read_state(state.progress).acknowledged(epoch)
        job.ledger_writer.record_acknowledgement(str(job.dimension.name), alarm, acked)
    return decision


def rebuild(job: Job[F], *, keeps_waiting: bool = True) -> int:
    """Rebuild the ledger of a table from its batch records; return the number of objects.

    With `keeps_waiting`, objects that wait stay in the ledger, so that they are missed if they go away.
    """
    if job.ledger_writer is None:
        return 0
    table, change_log = str(job.dimension.name), job.opened.change_log
    progress = job.opened.table.state().progress
    change_log_state = change_log.read_state(progress)
    records = job.ledger_writer.rebuild(table, progress, change_log_state, change_log, keeps_waiting=keeps_waiting)
    archive_objects(job, [record.object for record in records])
    return len(records)


def _current_alarm(job: Job[F], state: TableState, code: str, at: int) -> AlarmRaised | None:
    """Return the alarm that a run would raise now, with all objects listed; None if there is none."""
    clock_alarms = alarms(str(job.dimension.name), state.progress.ahead, [], [], at)
    if clock_alarms and code == clock_alarms[0].code and state.progress.ahead is not None:
        return AlarmRaised("CLOCK-001", clock_alarms[0].what, about=[state.progress.ahead.about])
    try:
        discover(job, is_whole=True)
        if code in _OF_ROWS:
            _prepare_and_close(job)
    except AlarmRaised as error:
        return error
    return None


def _prepare_and_close(job: Job[F]) -> None:
    """Prepare the next batch and close it: some alarms are found only when its rows are read."""
    prepared = prepare_next_batch(job)
    if isinstance(prepared, PreparedBatch):
        prepared.close()
