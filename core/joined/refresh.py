"""Refresh a joined table: one batch of it in named steps.

One commit carries the rows and how far the table has passed its sources. A crash before it changes nothing. What a
source commits during a batch is left to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.history.stored_options import options_of
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.joined.plan import BEYOND_OPEN_END, JoinPlan, JoinProgress, SourceCommit
from lakeward.core.joined.preparation import JoinJob, plan_next
from lakeward.core.merge.counts import Counts
from lakeward.core.pipeline.job import StepObserver, no_observer
from lakeward.core.ports import MergeResult, SkippedKeys
from lakeward.core.progress import Progress
from lakeward.core.text.numbers import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReport:
    """The result of one batch of a joined table; `error` names keys that were left unchanged, if there are any."""

    table: str
    plan: JoinPlan
    progress: Progress
    written: int
    removed: int
    commit: str
    error: TableError | None = None

    @property
    def passed(self) -> Mapping[str, SourceCommit]:
        """The commits of the sources that it has passed.

        Where keys were left unchanged, these are older than those read.
        """
        return {} if self.progress.joined is None else JoinProgress.from_json(self.progress.joined).passed

    @property
    def cautions(self) -> Sequence[str]:
        """Warnings about source rows that the table cannot show."""
        return cautions(self.plan.joining.joined, self.progress)


def refresh(job: JoinJob, observe: StepObserver = no_observer) -> JoinReport | None:
    """Refresh a joined table from its sources in one commit; returns None where it is up to date.

    Keys of a history whose versions break a rule are left unchanged: others have altered them, or a source has an
    instant at the open end. Then the sources count as not passed, and each batch joins these keys again until they
    are right. Raises CommitConflict where others kept committing to the table, and TableError where only such keys
    are to be written.
    """
    for _ in range(job.attempts - 1):
        try:
            return _refresh_once(job, observe)
        except CommitConflict:
            continue
    return _refresh_once(job, observe)


def _refresh_once(job: JoinJob, observe: StepObserver) -> JoinReport | None:
    prepared = plan_next(job, observe)
    plan, table, merge = prepared.plan, prepared.table, prepared.merge
    if plan is None or table is None or merge is None:
        return None
    with observe("resolve"):
        resolved = table.resolve(plan, merge)
    try:
        error = None if resolved.skipped_keys is None else _skipped_keys_error(job.joined, resolved.skipped_keys)
        if error is not None and not resolved.written and not resolved.removed:
            raise error
        progress = _progress_after(plan, prepared.state.progress, resolved)
        with observe("commit"):
            job.check()
            commit = table.commit(merge, resolved, progress)
    finally:
        resolved.close()
    return JoinReport(
        table=str(job.joined.name),
        plan=plan,
        progress=progress,
        written=commit.written,
        removed=commit.removed,
        commit=commit.name,
        error=error,
    )


def cautions(joined: JoinDeclaration, progress: Progress) -> Sequence[str]:
    """Return warnings about source rows that a joined table cannot show, from its last commit."""
    return () if progress.joined is None else JoinProgress.from_json(progress.joined).unshown.warnings(joined)


def _skipped_keys_error(joined: JoinDeclaration, skipped: SkippedKeys) -> TableError:
    keys = format_count(skipped.keys, "key")
    return TableError(
        f"{joined.name}: versions of {keys} break the rules of histories",
        found=skipped.example,
        todo="Nothing is written of these keys; all others go on. Where others have altered the joined table, "
        f"`lakeward verify --history {joined.name}` names such keys: put their versions right. Where "
        f"{BEYOND_OPEN_END}, put the date that means never right in the source, or let `open_end` lie behind it. "
        "Or drop the table, and the next run makes it anew; a history of mirrors loses its past with that.",
    )


def _progress_after(plan: JoinPlan, before: Progress, resolved: MergeResult) -> Progress:
    dimension = plan.joining.dimension
    return replace(
        before,
        batch=plan.batch,
        rows=before.rows + resolved.written - resolved.removed,
        current=None if dimension.history is None else (before.current or 0) + resolved.current,
        sequences=dimension.sequences,
        key=dimension.key,
        history=options_of(dimension),
        joined=_passed_commits(plan, before, resolved).to_json(),
        counts=Counts(),
    )


def _passed_commits(plan: JoinPlan, before: Progress, resolved: MergeResult) -> JoinProgress:
    """Return how far the sources are passed: where keys are left unchanged, no further than before."""
    progress = plan.progress
    if resolved.skipped_keys is not None:
        progress = replace(progress, passed={}) if before.joined is None else JoinProgress.from_json(before.joined)
    return replace(progress, batch=plan.batch, unshown=resolved.omitted_rows)
