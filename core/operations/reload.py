"""What an operator says of full loads: that a table is loaded anew, that it is not, that a load is whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from lakeward.core.errors import ConfigError
from lakeward.core.events import LOAD_SEQUENCE
from lakeward.core.ledger.full_loads import AwaitedLoad, Load, LoadCompletion, ReloadRequest, reload_of
from lakeward.core.ledger.objects import ObjectRecord, SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.pipeline.discovery import find_awaited_load
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import ChangeLogState, OperatorDecision
from lakeward.core.progress import Progress

F = TypeVar("F")

_LEAST: Final = -(2**63)
"""Below the order of any object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A reload that an operator asks for, not yet written down.

    `load` are the objects of it that are there, `before` and `behind` the changes that were not
    applied and lie before or behind it: those before it never will be.
    """

    word: ReloadRequest
    load: Sequence[SourceObject] = ()
    before: Sequence[SourceObject] = ()
    behind: Sequence[SourceObject] = ()


def ask(job: Job[F], *, by: str, reason: str | None, at: int, first: str | None = None) -> Asked:
    """Work out what a reload of a table would mean, changing nothing.

    `first` names the first object of changes behind the load. Without it, all that are there
    lie before a load that is yet to come; where it lies there, those that were written before its
    first object do. Raises ConfigError where there is nothing to load anew, or no such object.
    """
    progress, change_log_state = _standing(job)
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
    asked = reload_of(change_log_state.reloads, progress.epoch + 1)
    if asked is not None:
        raise ConfigError(
            f"{job.dimension.name} waits for a full load already",
            found=f"{asked.by} asked for it" + (f": {asked.reason}" if asked.reason else ""),
            todo="`lakeward status` says what it waits for; `lakeward reload --withdraw` takes it back. "
            "Nothing was changed.",
        )
    load, changes = _listed(job, progress, change_log_state, Load(epoch=progress.epoch + 1))
    cut = _cut(job, load, changes, progress, change_log_state, first)
    word = ReloadRequest(epoch=progress.epoch + 1, cut=cut, by=by, reason=reason, at=_after(change_log_state, at))
    return Asked(
        word=word,
        load=load,
        before=[item for item in changes if item.order <= cut],
        behind=[item for item in changes if item.order > cut],
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
        named = next((item for item in (*changes, *applied.values()) if item.name == first), None)
        if named is None or named.name in loaded:
            raise ConfigError(
                f"{job.dimension.name}: {first} is no file of its changes",
                todo="Name the first file of changes that was written behind the load. Nothing was changed.",
            )
        return named.order - 1
    began = min((item.modified for item in load), default=None)
    before = [item.order for item in changes if began is None or item.modified < began]
    return max([*before, *(item.order for item in applied.values())], default=_LEAST)


def _is_load(record: ObjectRecord) -> bool:
    return record.least is not None and record.least.sequence == LOAD_SEQUENCE


def record_decision(job: Job[F], word: OperatorDecision) -> AwaitedLoad | None:
    """Keep the word of an operator beside the table; return the full load that it waits for by that.

    Raises what `job.check` does, before anything is written.
    """
    progress = job.opened.table.standing().progress
    job.check()
    job.opened.change_log.record_decision(progress, word)
    _, change_log_state = _standing(job)
    load = find_awaited_load(job, progress, change_log_state)
    awaited = None if load is None else _taken(job, progress, change_log_state, load).awaited
    if job.ledger_writer is not None:
        job.ledger_writer.said(str(job.dimension.name), awaited)
    return awaited


def withdraw(job: Job[F], *, by: str, reason: str | None, at: int) -> ReloadRequest:
    """Take back that a table is loaded anew; raises ConfigError where nobody asked for it."""
    progress, change_log_state = _standing(job)
    asked = reload_of(change_log_state.reloads, progress.epoch + 1)
    if asked is None:
        raise ConfigError(
            f"{job.dimension.name} does not wait for a reload",
            todo="`lakeward status` says what a table waits for. Nothing was changed.",
        )
    word = replace(asked, by=by, reason=reason, at=_after(change_log_state, at), is_withdrawn=True)
    record_decision(job, word)
    return word


def complete(job: Job[F], *, by: str, at: int) -> tuple[LoadCompletion, Sequence[SourceObject]]:
    """Say that what is there of an awaited full load is all of it; return what that is.

    Raises ConfigError where none is awaited, or nothing of it is there.
    """
    progress, change_log_state = _standing(job)
    load = find_awaited_load(job, progress, change_log_state)
    if load is None:
        raise ConfigError(
            f"{job.dimension.name} does not wait for a full load",
            found="no reload was asked for",
            todo=f"`lakeward reload {job.dimension.name}` asks for one. Nothing was changed.",
        )
    selection = _taken(job, progress, change_log_state, load)
    objects, _ = _parted(selection)
    if not objects:
        raise ConfigError(
            f"{job.dimension.name}: nothing of the full load is there",
            found=f"{selection.aside[0].name} is older than what the table shows, and left out: `older_snapshots`"
            if selection.aside
            else "each file of a full load in its folder was applied before",
            todo="Wait until it is written. Nothing was changed.",
        )
    word = LoadCompletion(
        epoch=load.epoch, about=tuple(item.version for item in objects), by=by, at=_after(change_log_state, at)
    )
    record_decision(job, word)
    return word, objects


def _after(change_log_state: ChangeLogState, at: int) -> int:
    """Return a time behind all words before, whatever the clock says: the newest counts."""
    return max([at, *(word.at + 1 for word in change_log_state.words)])


def _standing(job: Job[F]) -> tuple[Progress, ChangeLogState]:
    progress = job.opened.table.standing().progress
    return progress, job.opened.change_log.read_state(progress)


def _taken(job: Job[F], progress: Progress, change_log_state: ChangeLogState, load: Load) -> ObjectSelection:
    """Look for a full load; it is not asked whether all is well with it, nor whether it is whole."""
    past = ObjectHistory(
        seen=change_log_state.objects,
        last=progress.object,
        left=change_log_state.left,
        cut=change_log_state.cut(progress.epoch),
    )
    now = 0 if job.ledger_writer is None else job.ledger_writer.now()
    return job.source.select_objects(job.dimension, replace(past, load=replace(load, whole=None), now=now))


def _listed(
    job: Job[F], progress: Progress, change_log_state: ChangeLogState, load: Load
) -> tuple[Sequence[SourceObject], Sequence[SourceObject]]:
    """Return the objects of a full load that are there, and the changes that were not applied."""
    return _parted(_taken(job, progress, change_log_state, load))


def _parted(selection: ObjectSelection) -> tuple[Sequence[SourceObject], Sequence[SourceObject]]:
    """Part what is there into the objects of the full load and those behind it."""
    every = (*selection.objects, *selection.left)
    size = 0 if selection.awaited is None else selection.awaited.objects
    return every[:size], every[size:]
