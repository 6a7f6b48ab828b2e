"""Keeping a table in shape: files, snapshots and what is left over, and never a row or the progress."""

from __future__ import annotations

from typing import TypeVar

from lakeward.core.errors import ConfigError, TableError
from lakeward.core.facts import Capability
from lakeward.core.job import Job
from lakeward.core.ports import Care, Cared

F = TypeVar("F")


def maintain(job: Job[F], care: Care, *, is_dry: bool = False) -> Cared:
    """Take care of a table, or (`is_dry`) only tell what that would do; one that was never written needs none.

    Raises ConfigError where its format cannot, and TableError, before anything is done, for a table in doubt.
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
        return Cared()
    job.opened.companion.recall(before.progress)
    cared = found.maintain(care, is_dry=is_dry)
    after = job.opened.table.standing()
    if after.progress != before.progress:
        raise TableError(
            f"{job.dimension.name}: after its maintenance the table is at another place",
            found=f"it was at batch {before.progress.batch}, and is at batch {after.progress.batch}",
            todo="Let nobody write to the table besides. `lakeward status` shows how far it is.",
        )
    return cared
