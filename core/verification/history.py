"""Looking at a table whole, whoever has written to it: is it what lakeward promises of it?"""

from __future__ import annotations

from typing import Final, TypeVar

from lakeward.core.errors import ConfigError
from lakeward.core.history.refusals import no_versions, refuse_other_history
from lakeward.core.history.version_checks import HistoryCheck
from lakeward.core.pipeline.job import Job

F = TypeVar("F")

EXAMPLES: Final = 5
"""So many keys are named of each rule that is broken."""


def check_history(job: Job[F], examples: int = EXAMPLES) -> HistoryCheck:
    """Return what all versions of a history are like, held against its rules; nothing is changed.

    Raises ConfigError for a table that keeps none, SchemaConflict where its versions were made with other options
    than the settings say, and TableError where it cannot be read.
    """
    dimension, found = job.dimension, job.opened.verification
    progress = job.opened.table.standing().progress
    refuse_other_history(dimension, progress)
    if dimension.history is None:
        raise no_versions(dimension.name, "verify")
    if found is None:
        raise ConfigError(
            f"{dimension.name} cannot be verified",
            found="its table format does not look at a table whole",
            todo="Verify it with the tools of the format.",
        )
    return found.check_history(examples) if progress.batch else HistoryCheck()
