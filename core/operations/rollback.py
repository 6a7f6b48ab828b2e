"""Roll a table back to an earlier commit: rows, progress and change log together.

The next run applies what follows as if the table had never been further. So the objects that follow must be there,
and no decision of an operator may be lost without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from lakeward.core.errors import CommitConflict, ConfigError, SourceError
from lakeward.core.ledger.full_loads import ReloadRequest, find_reload
from lakeward.core.merge.facts import Capability
from lakeward.core.operations.acknowledge import rebuild
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import RollbackPreview, TableState, Version, Versions
from lakeward.core.text.numbers import format_count

F = TypeVar("F")


def versions(job: Job[F]) -> Sequence[Version]:
    """Return the commits that a table can be rolled back to, newest first.

    Raises ConfigError where its table format cannot roll back.
    """
    return _versions_port(job).versions()


def preview_rollback(job: Job[F], name: str) -> RollbackPreview:
    """Return the preview of a rollback to a commit, changing nothing.

    Raises ConfigError, TableError or SourceError, with the reason, where it is not possible.
    """
    preview = _versions_port(job).preview_rollback(name)
    _refuse_reloads(job, preview)
    _refuse_gone(job, preview)
    return preview


def roll_back(job: Job[F], preview: RollbackPreview) -> TableState:
    """Roll a table back, rebuild its ledger, and return its table state.

    An operator has seen the preview, perhaps long ago: raises CommitConflict where the rollback would undo
    something else by now, and what `job.check` raises, before anything is changed.
    """
    port = _versions_port(job)
    _refuse_others(job, preview, port.preview_rollback(preview.version.name))
    job.check()
    port.roll_back(preview)
    rebuild(job, keeps_waiting=False)
    return job.opened.table.state()


def _versions_port(job: Job[F]) -> Versions:
    """Return the port that rolls tables back; raises ConfigError where the table format has none."""
    port = job.opened.versions
    if port is None or Capability.ROLLBACK not in job.opened.table.capabilities:
        raise ConfigError(
            f"{job.dimension.name} cannot be rolled back",
            found="its table format keeps no earlier state (it does not declare `rollback`)",
            todo=f"Nothing was changed. `lakeward reload {job.dimension.name}` loads the table anew.",
        )
    return port


def _refuse_others(job: Job[F], confirmed: RollbackPreview, current: RollbackPreview) -> None:
    """Refuse to undo what the operator has not seen: another process may have committed meanwhile."""
    if _comparable(confirmed) != _comparable(current):
        raise CommitConflict(
            f"{job.dimension.name}: what lies behind {confirmed.version.name} is not what was listed any more",
            found=f"listed: {format_count(confirmed.batches, 'batch', 'batches')} of "
            f"{format_count(len(confirmed.objects), 'file')}; now: {current.batches} of "
            f"{len(current.objects)}",
            todo="Nothing was changed. Another process has written to the table meanwhile: ask again, and look at "
            "what is undone now.",
        )


def _comparable(preview: RollbackPreview) -> tuple[object, ...]:
    """Return what the operator has seen, without order: tables list it in the order of their files."""
    return preview.version.progress, preview.batches, preview.by_hand, {*preview.objects}, {*preview.decisions}


def _refuse_reloads(job: Job[F], preview: RollbackPreview) -> None:
    """Refuse to forget a reload request: its files would count as files of the earlier epoch."""
    reloads = [request for request in preview.decisions if isinstance(request, ReloadRequest)]
    if any(find_reload(reloads, request.epoch) is not None for request in reloads):
        raise ConfigError(
            f"{job.dimension.name}: a reload was asked for after {preview.version.name}",
            found="the changes between the two are of a full load that another has replaced",
            todo="Nothing was changed. Roll it back to the last commit before the load, or load it anew.",
        )


def _refuse_gone(job: Job[F], preview: RollbackPreview) -> None:
    """Refuse where objects that must be applied again are gone, such as into an archive."""
    objects = {record.object.name: record.object for record in preview.objects}
    if missing := job.source.find_missing(job.dimension, [*objects.values()]):
        files = format_count(len(missing), "file that was applied since is", "files that were applied since are")
        raise SourceError(
            f"{job.dimension.name}: {files} not there any more",
            found=f"found no {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}",
            todo="Nothing was changed: they could not be applied again. Put them back (from the archive, where "
            f"there is one), and ask again; or load the table anew: `lakeward reload {job.dimension.name}`.",
        )
