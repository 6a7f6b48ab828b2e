"""What is read of a table as it is now, whoever has written to it: its rows, or those valid at an instant."""

from __future__ import annotations

from typing import TypeVar

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.history import as_of
from lakeward.core.history.refusals import no_versions, refuse_other_history
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import Reading, Selection

F = TypeVar("F")


def reading_of(job: Job[F]) -> Reading:
    """Return what reads the table of a job; raises ConfigError where nothing does, or nothing was applied yet.

    Raises SchemaConflict where its versions were made with other options than the settings say.
    """
    dimension, found = job.dimension, job.opened.reading
    progress = job.opened.table.standing().progress
    refuse_other_history(dimension, progress)
    if found is None:
        raise ConfigError(
            f"{dimension.name} cannot be read here",
            found="its table format does not read a table whole",
            todo="Read it with the tools of the format.",
        )
    if not progress.batch:
        raise nothing_yet(dimension.name)
    return found


def nothing_yet(name: TableName) -> ConfigError:
    """Say that there is no table to read before the first batch."""
    return ConfigError(
        f"{name}: nothing was applied yet, so there is nothing to read", todo="`lakeward run` applies it."
    )


def valid_at(job: Job[F], at: int, known: int | None) -> Selection:
    """Return the rows of a history that were valid at an instant, as is believed now, or was after a batch.

    Raises ConfigError for a mirror, which has none, and where the history cannot tell: not what will be known
    after a batch that has not come.
    """
    history = job.dimension.history
    if history is None:
        raise no_versions(job.dimension.name, "read as of a time")
    as_of.check(job.dimension.name, history, at, known)
    if known is not None and known > (newest := job.opened.table.standing().progress.batch):
        raise ConfigError(
            f"{job.dimension.name}: there is no batch {known} yet, so nothing says what is known after it",
            found=f"it is at batch {newest}",
            todo="Leave --known out: that is what is known now.",
        )
    return Selection(at=at, known=known)
