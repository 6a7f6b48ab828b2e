"""Check all versions of a history against its rules, whoever has written to the table."""

from __future__ import annotations

from typing import Final, TypeVar

from lakeward.core.errors import ConfigError
from lakeward.core.history.refusals import no_versions, refuse_other_history
from lakeward.core.history.version_checks import HistoryCheck
from lakeward.core.pipeline.job import Job

F = TypeVar("F")

EXAMPLES: Final = 5
"""The number of keys that are named for each broken rule."""


def check_history(job: Job[F], examples: int = EXAMPLES) -> HistoryCheck:
    """Check all versions of a history against its rules; nothing is changed.

    `examples` is the number of keys to name for each broken rule. Raises ConfigError for a table without versions,
    SchemaConflict where its versions were made with other options than those of the settings, and TableError where
    it cannot be read.
    """
    dimension, reader = job.dimension, job.opened.reader
    progress = job.opened.table.state().progress
    refuse_other_history(dimension, progress)
    if dimension.history is None:
        raise no_versions(dimension.name, "verify")
    if reader is None:
        raise ConfigError(
            f"{dimension.name} cannot be verified",
            found="its table format does not look at a table whole",
            todo="Verify it with the tools of the format.",
        )
    return reader.check_history(examples) if progress.batch else HistoryCheck()
