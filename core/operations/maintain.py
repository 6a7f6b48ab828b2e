"""Maintain a table: its layout, files, snapshots and orphans. No row and no progress changes."""

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
    """Maintain a table, or with `is_dry` only report what that would do.

    The layout of the settings is applied first, so that rewritten files have it. Of a table that was never written
    only staged files of its source are removed. Raises ConfigError where the table format cannot maintain,
    TableError before anything is done where the change log does not fit the table, and afterwards where another
    writer has committed; and what `job.check` raises, before each of the two parts that may take long.
    """
    maintenance = job.opened.maintenance
    if maintenance is None or Capability.MAINTAIN not in job.opened.table.capabilities:
        raise ConfigError(
            f"{job.dimension.name} cannot be maintained",
            found="its table format does not declare `maintain`",
            todo="Nothing was changed. Use the tools of the format.",
        )
    before = job.opened.table.state()
    if before.schema is None:
        return MaintenanceReport(orphans=_clean_staging(job, is_dry=is_dry))
    if before.progress.joined is None:  # a joined table has no change log
        job.opened.change_log.read_state(before.progress)
    changes = _apply_layout(job, is_dry=is_dry)
    if not is_dry:
        job.check()
    report = maintenance.maintain(policy, is_dry=is_dry)
    report = replace(report, layout=changes, orphans=(*report.orphans, *_clean_staging(job, is_dry=is_dry)))
    after = job.opened.table.state()
    if after.progress != before.progress:
        raise TableError(
            f"{job.dimension.name}: after its maintenance the table is at another place",
            found=f"it was at batch {before.progress.batch}, and is at batch {after.progress.batch}",
            todo="Let nobody write to the table besides. `lakeward status` shows how far it is.",
        )
    return report


def _clean_staging(job: Job[F], *, is_dry: bool) -> Sequence[str]:
    """Remove the files that ended runs have left staged for the table; with `is_dry` only name them."""
    return job.source.clean_staging(job.dimension, is_dry=is_dry) if isinstance(job.source, StagingArea) else ()


def layout_changes(job: Job[F]) -> Sequence[LayoutChange]:
    """Return how the layout of a table differs from its settings; nothing where its format cannot change it."""
    return () if job.opened.layout is None else job.opened.layout.differences()


def _apply_layout(job: Job[F], *, is_dry: bool) -> Sequence[LayoutChange]:
    """Apply the layout of the settings to a table, or with `is_dry` only return the changes."""
    changes = layout_changes(job)
    for change in changes:
        if change.refused is not None:
            raise ConfigError(f"{job.dimension.name}: {change}", found=change.refused, todo=change.todo)
    if changes and job.opened.layout is not None and not is_dry:
        job.check()
        job.opened.layout.change(changes)
    return changes
