"""Keeping a table in shape: how it is made, files, snapshots and what is left over; never a row or the progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from lakeward.core.errors import ConfigError, TableError
from lakeward.core.merge.facts import Capability
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import LayoutChange, MaintenancePolicy, MaintenanceReport, StagingArea

F = TypeVar("F")


def maintain(job: Job[F], policy: MaintenancePolicy, *, is_dry: bool = False) -> MaintenanceReport:
    """Take care of a table, or (`is_dry`) only tell what that would do; one that was never written needs none.

    What its settings say of how it is made comes first, so that files which are written anew are written so.
    Raises ConfigError where its format cannot, and TableError, before anything is done, for a table in doubt; and
    what `job.check` does, before each of the two that may take long.
    """
    found = job.opened.maintenance
    if found is None or Capability.MAINTAIN not in job.opened.table.capabilities:
        raise ConfigError(
            f"{job.dimension.name} cannot be maintained",
            found="its table format does not declare `maintain`",
            todo="Nothing was changed. Use the tools of the format.",
        )
    before = job.opened.table.standing()
    if before.schema is None:
        return MaintenanceReport(orphans=_staged(job, is_dry=is_dry))
    if before.progress.joined is None:  # a joined table remembers nothing
        job.opened.change_log.read_state(before.progress)
    changes = _layout(job, is_dry=is_dry)
    if not is_dry:
        job.check()
    cared = found.maintain(policy, is_dry=is_dry)
    cared = replace(cared, layout=changes, orphans=(*cared.orphans, *_staged(job, is_dry=is_dry)))
    after = job.opened.table.standing()
    if after.progress != before.progress:
        raise TableError(
            f"{job.dimension.name}: after its maintenance the table is at another place",
            found=f"it was at batch {before.progress.batch}, and is at batch {after.progress.batch}",
            todo="Let nobody write to the table besides. `lakeward status` shows how far it is.",
        )
    return cared


def _staged(job: Job[F], *, is_dry: bool) -> Sequence[str]:
    """Remove, or (`is_dry`) name, what ended runs have left of what the source stages for the table."""
    return job.source.clean_staging(job.dimension, is_dry=is_dry) if isinstance(job.source, StagingArea) else ()


def layout_changes(job: Job[F]) -> Sequence[LayoutChange]:
    """Return how a table is made otherwise than its settings say; nothing, where its format cannot change that."""
    return () if job.opened.layout is None else job.opened.layout.differences()


def _layout(job: Job[F], *, is_dry: bool) -> Sequence[LayoutChange]:
    """Make a table as its settings say, or (`is_dry`) only tell what that changes."""
    changes = layout_changes(job)
    for change in changes:
        if change.refused is not None:
            raise ConfigError(f"{job.dimension.name}: {change}", found=change.refused, todo=change.todo)
    if changes and job.opened.layout is not None and not is_dry:
        job.check()
        job.opened.layout.change(changes)
    return changes
