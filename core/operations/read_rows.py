"""Read the rows of a table as it is now, whoever has written to it, or those valid at an instant."""

from __future__ import annotations

from typing import TypeVar

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.history import as_of
from lakeward.core.history.refusals import no_versions, refuse_other_history
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import Selection, TableReader

F = TypeVar("F")


def reading_of(job: Job[F]) -> TableReader[F]:
    """Return the reader of the table of a job.

    Raises ConfigError where the table format has none, or nothing was applied yet, and SchemaConflict where its
    versions were made with other options than those of the settings.
    """
    dimension, reading = job.dimension, job.opened.reader
    progress = job.opened.table.state().progress
    refuse_other_history(dimension, progress)
    if reading is None:
        raise ConfigError(
            f"{dimension.name} cannot be read here",
            found="its table format does not read a table whole",
            todo="Read it with the tools of the format.",
        )
    if not progress.batch:
        raise nothing_yet(dimension.name)
    return reading


def nothing_yet(name: TableName) -> ConfigError:
    """Return the error for a table that has no batch yet."""
    return ConfigError(
        f"{name}: nothing was applied yet, so there is nothing to read", todo="`lakeward run` applies it."
    )


def valid_at(job: Job[F], at: int, known: int | None) -> Selection:
    """Return the selection of the rows of a history that were valid at an instant.

    They are as known now, or as known after batch `known`. `at` is in microseconds since 1970. Raises ConfigError
    for a mirror, and where the history cannot tell or has no such batch yet.
    """
    history = job.dimension.history
    if history is None:
        raise no_versions(job.dimension.name, "read as of a time")
    as_of.check(job.dimension.name, history, at, known)
    if known is not None and known > (newest := job.opened.table.state().progress.batch):
        raise ConfigError(
            f"{job.dimension.name}: there is no batch {known} yet, so nothing says what is known after it",
            found=f"it is at batch {newest}",
            todo="Leave --known out: that is what is known now.",
        )
    return Selection(at=at, known=known)
