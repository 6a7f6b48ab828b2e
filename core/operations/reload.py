"""What an operator decides about full loads: request a reload, withdraw it, declare a load complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from lakeward.core.errors import ConfigError
from lakeward.core.events import LOAD_SEQUENCE
from lakeward.core.ledger.full_loads import AwaitedLoad, Load, LoadCompletion, ReloadRequest, find_reload
from lakeward.core.ledger.objects import ObjectRecord, SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.pipeline.discovery import find_awaited_load
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import ChangeLogState, OperatorDecision
from lakeward.core.progress import Progress

F = TypeVar("F")

_LEAST: Final = -(2**63)
"""A number below the order of any object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReload:
    """A reload that an operator asks for, not recorded yet.

    `load` are its objects that are there already. `before` and `after` are the unapplied changes before and behind
    it; those before it will never be applied.
    """

    request: ReloadRequest
    load: Sequence[SourceObject] = ()
    before: Sequence[SourceObject] = ()
    after: Sequence[SourceObject] = ()


def plan_reload(job: Job[F], *, by: str, reason: str | None, at: int, first: str | None = None) -> PlannedReload:
    """Plan a reload of a table, changing nothing.

    `first` names the first object of changes behind the load. Without it, all changes that are there lie before a
    load that is yet to come; if objects of the load are there, the changes that were written before its first
    object do. `at` is in microseconds since 1970. Raises ConfigError where there is nothing to reload, or no such
    object.
    """
    progress, change_log_state = _read(job)
    if not progress.batch:
        raise ConfigError(
            f"{job.dimension.name}: nothing was applied yet, so it cannot be loaded anew",
            todo="The next run applies the full load as it is. Nothing was changed.",
        )
    if job.dimension.snapshots is not None:
        raise ConfigError(
            f"{job.dimension.name}: each of its full loads takes the place of all rows anyway",
            found='`full_loads = "snapshot"` is set',
            todo="Start the full load. Where it has ended: `lakeward load-complete`. Nothing was changed.",
        )
    request = find_reload(change_log_state.reload_requests, progress.epoch + 1)
    if request is not None:
        raise ConfigError(
            f"{job.dimension.name} waits for a full load already",
            found=f"{request.by} asked for it" + (f": {request.reason}" if request.reason else ""),
            todo="`lakeward status` says what it waits for; `lakeward reload --withdraw` takes it back. "
            "Nothing was changed.",
        )
    load, changes = _list_objects(job, progress, change_log_state, Load(epoch=progress.epoch + 1))
    cut = _cut(job, load, changes, progress, change_log_state, first)
    decision = ReloadRequest(
        epoch=progress.epoch + 1, cut=cut, by=by, reason=reason, at=_time_after(change_log_state, at)
    )
    return PlannedReload(
        request=decision,
        load=load,
        before=[item for item in changes if item.order <= cut],
        after=[item for item in changes if item.order > cut],
    )


def _cut(
    job: Job[F],
    load: Sequence[SourceObject],
    changes: Sequence[SourceObject],
    progress: Progress,
    change_log_state: ChangeLogState,
    first: str | None,
) -> int:
    """Return the order of the last changes before a load."""
    applied = change_log_state.objects
    if first is not None:
        loaded = {r.object.name for r in job.opened.change_log.applied(progress, 0) if _is_load(r)}
        first_object = next((item for item in (*changes, *applied.values()) if item.name == first), None)
        if first_object is None or first_object.name in loaded:
            raise ConfigError(
                f"{job.dimension.name}: {first} is no file of its changes",
                todo="Name the first file of changes that was written behind the load. Nothing was changed.",
            )
        return first_object.order - 1
    load_begin = min((item.modified for item in load), default=None)
    before = [item.order for item in changes if load_begin is None or item.modified < load_begin]
    return max([*before, *(item.order for item in applied.values())], default=_LEAST)


def _is_load(record: ObjectRecord) -> bool:
    """Return True if an applied object was of a full load."""
    return record.least is not None and record.least.sequence == LOAD_SEQUENCE


def record_decision(job: Job[F], decision: OperatorDecision) -> AwaitedLoad | None:
    """Record the decision of an operator; return the full load that the table then waits for, or None.

    Raises what `job.check` raises, before anything is written.
    """
    progress = job.opened.table.state().progress
    job.check()
    job.opened.change_log.record_decision(progress, decision)
    _, change_log_state = _read(job)
    load = find_awaited_load(job, progress, change_log_state)
    awaited = None if load is None else _select(job, progress, change_log_state, load).awaited
    if job.ledger_writer is not None:
        job.ledger_writer.clear_alarms(str(job.dimension.name), awaited)
    return awaited


def withdraw(job: Job[F], *, by: str, reason: str | None, at: int) -> ReloadRequest:
    """Withdraw the reload request of a table; raises ConfigError where there is none."""
    progress, change_log_state = _read(job)
    request = find_reload(change_log_state.reload_requests, progress.epoch + 1)
    if request is None:
        raise ConfigError(
            f"{job.dimension.name} does not wait for a reload",
            todo="`lakeward status` says what a table waits for. Nothing was changed.",
        )
    decision = replace(request, by=by, reason=reason, at=_time_after(change_log_state, at), is_withdrawn=True)
    record_decision(job, decision)
    return decision


def complete(job: Job[F], *, by: str, at: int) -> tuple[LoadCompletion, Sequence[SourceObject]]:
    """Declare that an awaited full load is complete as it is; return the decision and the objects of the load.

    Raises ConfigError where no full load is awaited, or none of its objects is there.
    """
    progress, change_log_state = _read(job)
    load = find_awaited_load(job, progress, change_log_state)
    if load is None:
        raise ConfigError(
            f"{job.dimension.name} does not wait for a full load",
            found="no reload was asked for",
            todo=f"`lakeward reload {job.dimension.name}` asks for one. Nothing was changed.",
        )
    selection = _select(job, progress, change_log_state, load)
    objects, _ = _split(selection)
    if not objects:
        raise ConfigError(
            f"{job.dimension.name}: nothing of the full load is there",
            found=f"{selection.excluded[0].name} is older than what the table shows, and left out: "
            "`older_snapshots`"
            if selection.excluded
            else "each file of a full load in its folder was applied before",
            todo="Wait until it is written. Nothing was changed.",
        )
    decision = LoadCompletion(
        epoch=load.epoch, about=tuple(item.version for item in objects), by=by, at=_time_after(change_log_state, at)
    )
    record_decision(job, decision)
    return decision, objects


def _time_after(change_log_state: ChangeLogState, at: int) -> int:
    """Return a time after all earlier decisions, whatever the clock says: the newest decision counts."""
    return max([at, *(decision.at + 1 for decision in change_log_state.decisions)])


def _read(job: Job[F]) -> tuple[Progress, ChangeLogState]:
    """Return the progress and the change log state of the table."""
    progress = job.opened.table.state().progress
    return progress, job.opened.change_log.read_state(progress)


def _select(job: Job[F], progress: Progress, change_log_state: ChangeLogState, load: Load) -> ObjectSelection:
    """Select the objects of a full load, complete or not, without the checks of a run."""
    history = ObjectHistory(
        applied=change_log_state.objects,
        last_applied=progress.object,
        earlier_versions=change_log_state.earlier_versions,
        cut=change_log_state.cut(progress.epoch),
    )
    now = 0 if job.ledger_writer is None else job.ledger_writer.now()
    return job.source.select_objects(
        job.dimension, replace(history, load=replace(load, completed_versions=None), now=now)
    )


def _list_objects(
    job: Job[F], progress: Progress, change_log_state: ChangeLogState, load: Load
) -> tuple[Sequence[SourceObject], Sequence[SourceObject]]:
    """Return the objects of a full load that are there, and the changes that were not applied."""
    return _split(_select(job, progress, change_log_state, load))


def _split(selection: ObjectSelection) -> tuple[Sequence[SourceObject], Sequence[SourceObject]]:
    """Return the objects of the full load, and those behind it."""
    listed = (*selection.objects, *selection.remaining)
    size = 0 if selection.awaited is None else selection.awaited.objects
    return listed[:size], listed[size:]
