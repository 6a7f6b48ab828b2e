"""Taking a table back to an earlier commit: rows, progress and memory go together.

The next run applies what follows as if the table had never been further. So what follows must
be there, and nothing that only a person can say again may be lost on the way in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from lakeward.core.errors import CommitConflict, ConfigError, SourceError
from lakeward.core.ledger.full_loads import ReloadRequest, reload_of
from lakeward.core.merge.facts import Capability
from lakeward.core.operations.acknowledge import rebuild
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import RollbackPreview, TableState, Version, Versions
from lakeward.core.text.numbers import format_count

F = TypeVar("F")


def versions(job: Job[F]) -> Sequence[Version]:
    """Return the commits that a table can be taken back to, newest first; ConfigError where its format cannot."""
    return _kept(job).versions()


def ask(job: Job[F], name: str) -> RollbackPreview:
    """Return what it means to take a table back to a commit, changing nothing.

    Raises ConfigError, TableError or SourceError, with the reason, where it cannot be.
    """
    preview = _kept(job).behind(name)
    _refuse_reloads(job, preview)
    _refuse_gone(job, preview)
    return preview


def roll_back(job: Job[F], preview: RollbackPreview) -> TableState:
    """Take a table back, make its ledger anew from what is left, and return how it stands.

    A person has seen what is undone, and may have thought for long: raises CommitConflict where that is something
    else by now, and what `job.check` does, before anything is changed.
    """
    kept = _kept(job)
    _refuse_others(job, preview, kept.behind(preview.version.name))
    job.check()
    kept.roll_back(preview)
    rebuild(job, keeps_waiting=False)
    return job.opened.table.standing()


def _kept(job: Job[F]) -> Versions:
    found = job.opened.versions
    if found is None or Capability.ROLLBACK not in job.opened.table.capabilities:
        raise ConfigError(
            f"{job.dimension.name} cannot be taken back",
            found="its table format keeps no earlier state (it does not declare `rollback`)",
            todo=f"Nothing was changed. `lakeward reload {job.dimension.name}` loads the table anew.",
        )
    return found


def _refuse_others(job: Job[F], told: RollbackPreview, found: RollbackPreview) -> None:
    """Refuse to undo what nobody was told of: another process may have gone on meanwhile."""
    if _listed(told) != _listed(found):
        raise CommitConflict(
            f"{job.dimension.name}: what lies behind {told.version.name} is not what was listed any more",
            found=f"listed: {format_count(told.batches, 'batch', 'batches')} of "
            f"{format_count(len(told.objects), 'file')}; now: {found.batches} of "
            f"{len(found.objects)}",
            todo="Nothing was changed. Another process has written to the table meanwhile: ask again, and look at "
            "what is undone now.",
        )


def _listed(preview: RollbackPreview) -> tuple[object, ...]:
    """Return what a person is told, in no order: tables list it as its files come."""
    return preview.version.progress, preview.batches, preview.by_hand, {*preview.objects}, {*preview.words}


def _refuse_reloads(job: Job[F], preview: RollbackPreview) -> None:
    """Refuse to forget that a full load was asked for: its files would be taken for those of the epoch before."""
    reloads = [word for word in preview.words if isinstance(word, ReloadRequest)]
    if any(reload_of(reloads, word.epoch) is not None for word in reloads):
        raise ConfigError(
            f"{job.dimension.name}: a reload was asked for after {preview.version.name}",
            found="the changes between the two are of a full load that another has replaced",
            todo="Nothing was changed. It can be taken back to the last commit before the load, or be loaded anew.",
        )


def _refuse_gone(job: Job[F], preview: RollbackPreview) -> None:
    """Refuse where objects that are to be applied again are not there any more, in an archive, say."""
    wanted = {found.object.name: found.object for found in preview.objects}
    if gone := job.source.find_missing(job.dimension, [*wanted.values()]):
        files = format_count(len(gone), "file that was applied since is", "files that were applied since are")
        raise SourceError(
            f"{job.dimension.name}: {files} not there any more",
            found=f"found no {', '.join(gone[:3])}{' …' if len(gone) > 3 else ''}",
            todo="Nothing was changed: they could not be applied again. Put them back (from the archive, where "
            f"there is one), and ask again; or load the table anew: `lakeward reload {job.dimension.name}`.",
        )
