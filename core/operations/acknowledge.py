"""What an operator does about the ledger: let an alarm pass, remembered with who and why; make it anew."""

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
"""Alarms that are found where the rows of a batch are read."""

PASSABLE: Final = (
    *("LEDGER-001", "LEDGER-002", "LEDGER-003", "LEDGER-004", "LEDGER-005", "LEDGER-006"),
    *("KAFKA-001", "CLOCK-001", *_OF_ROWS),
)
"""Alarms that an operator may let pass."""

_NUMBERS: Final = {
    "LEDGER-002": 2,
    **dict.fromkeys(("LOAD-001", "LOAD-002", REFUSED_ALARM), 2),
    "CLOCK-001": 1,
    LOG_ALARM: 3,
}
"""How many numbers stand behind the name of an object in what an alarm is about."""


def objects_in(code: str, about: Iterable[str]) -> list[str]:
    """Return the objects that an alarm is about, each once, in order of their names.

    >>> objects_in("LEDGER-002", ["b.csv 20 1700000000000000", "a b.csv 1 2"])
    ['a b.csv', 'b.csv']
    >>> objects_in("LEDGER-003", ["a 1 2"])
    ['a 1 2']
    """
    return sorted({one.rsplit(" ", _NUMBERS[code])[0] if code in _NUMBERS else one for one in about})


def ack(job: Job[F], code: str, *, by: str, reason: str | None, at: int) -> Acknowledgement:
    """Let the alarm of a table pass that stands under this code; raises ConfigError where none does.

    Raises what `job.check` does, before anything is written.
    """
    if code not in PASSABLE:
        raise ConfigError(
            f"{code} is no alarm that can be let pass",
            found=f"those that can be are {', '.join(PASSABLE)}",
            todo="docs/reference/alarms.md says what to do about each alarm. Nothing was changed.",
        )
    standing = job.opened.table.standing()
    raised = _raised(job, standing, code, at)
    if raised is None or raised.code != code:
        raise ConfigError(
            f"{job.dimension.name}: the alarm {code} does not stand",
            found="none does" if raised is None else f"the one that does is {raised.code}: {raised.what}",
            todo="`lakeward status` lists the alarms of the last run. Nothing was changed.",
        )
    load = find_awaited_load(job, standing.progress, job.opened.change_log.read_state(standing.progress))
    epoch = standing.progress.epoch if load is None else load.epoch
    made = Acknowledgement(code=code, about=raised.about, by=by, reason=reason, at=at, epoch=epoch)
    job.check()
    job.opened.change_log.record_decision(standing.progress, made)
    if job.ledger_writer is not None:
        acked = job.opened.change_log.read_state(standing.progress).acked(epoch)
        job.ledger_writer.let_pass(str(job.dimension.name), raised, acked)
    return made


def rebuild(job: Job[F], *, keeps_waiting: bool = True) -> int:
    """Make the ledger of a table anew from its batch records; return of how many objects these are.

    What waits stays in it, unless somebody has just looked that it is there.
    """
    if job.ledger_writer is None:
        return 0
    table, change_log = str(job.dimension.name), job.opened.change_log
    progress = job.opened.table.standing().progress
    change_log_state = change_log.read_state(progress)
    records = job.ledger_writer.rebuild(table, progress, change_log_state, change_log, keeps_waiting=keeps_waiting)
    archive_objects(job, [record.object for record in records])
    return len(records)


def _raised(job: Job[F], standing: TableState, code: str, at: int) -> AlarmRaised | None:
    """Return the alarm that stands: all objects are listed, as a run would."""
    found = alarms(str(job.dimension.name), standing.progress.ahead, [], [], at)
    if found and code == found[0].code and standing.progress.ahead is not None:
        return AlarmRaised("CLOCK-001", found[0].what, about=[standing.progress.ahead.about])
    try:
        discover(job, is_whole=True)
        if code in _OF_ROWS:
            _count(job)
    except AlarmRaised as error:
        return error
    return None


def _count(job: Job[F]) -> None:
    """Work out the next batch, and no more: some alarms are found where its rows are read."""
    prepared = prepare_next_batch(job)
    if isinstance(prepared, PreparedBatch):
        prepared.close()
