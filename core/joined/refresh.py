"""Refresh a joined table: the port of a table format for it, the plan of a batch, and the batch in named steps.

One commit carries the rows and how far the table has passed its sources. A crash before it changes nothing. What a
source commits during a batch is left to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, runtime_checkable

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import CommitConflict, SchemaConflict, TableError
from lakeward.core.history.stored_options import options_of
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.plan import BEYOND_OPEN_END, JoinPlan, JoinProgress, SourceCommit, SourceState, plan_join
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.pipeline.job import ATTEMPTS, StepObserver, no_observer
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, SkippedKeys, TableState
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import DEFAULT_POLICIES, Evolution, Kind, evolve, with_new_names
from lakeward.core.text.numbers import format_count

_WITHOUT_PAST: Final = ", but without its past, which mirrors do not know."


class JoinedTable(Protocol):
    """A joined table of a lake, with its source tables."""

    @property
    def name(self) -> str:
        """Its name in the lake."""
        ...

    def state(self) -> TableState:
        """Return the table state of its last commit; no engine is started."""
        ...

    def sources(self, progress: JoinProgress | None) -> Mapping[str, SourceState]:
        """Return the states of the sources that have a commit, as seen from the commits that were passed."""
        ...

    def resolve(self, plan: JoinPlan, merge: MergePlan) -> MergeResult:
        """Return the effect of a plan on the rows, from the commits that the plan names; nothing is written."""
        ...

    def commit(self, merge: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit; raises CommitConflict where another writer was first."""
        ...


@runtime_checkable
class Joins(Protocol):
    """A lake that can keep joined tables."""

    def table_state(self, dimension: Dimension) -> TableState:
        """Return the state of a table; no engine is started."""
        ...

    def joined(self, joining: JoinDefinition) -> JoinedTable:
        """Return a joined table, which need not exist yet; no engine is started."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinJob:
    """The job of refreshing a joined table: its declaration, and the dimensions of its sources.

    A batch is tried at most `attempts` times, where other writers commit in between. `check` raises where this
    process may no longer write. `now` is the clock, in microseconds since 1970.
    """

    joined: JoinDeclaration
    sources: Mapping[TableName, Dimension]
    target: Joins
    now: Callable[[], int]
    attempts: int = ATTEMPTS
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJoin:
    """The state of a joined table and the plan of its next batch, None where there is nothing to do.

    `merge` is that plan as a `MergePlan`. `missing_sources` are the sources without a commit: the table begins when
    each has one. `over_time` says that it is a history of histories, of which each batch rebuilds all rows.
    """

    state: TableState = field(default_factory=lambda: TableState(Progress(), None))
    table: JoinedTable | None = None
    plan: JoinPlan | None = None
    merge: MergePlan | None = None
    missing_sources: tuple[TableName, ...] = ()
    over_time: bool = False


def plan_next(job: JoinJob, observe: StepObserver = no_observer) -> PreparedJoin:
    """Plan the next batch of a joined table; nothing is written, and no engine is started.

    Raises ConfigError where it cannot be made of its sources, TableError where the lake has another table of its
    name, and SchemaConflict where the stored table cannot follow its declaration.
    """
    with observe("read_table"):
        states = {name: job.target.table_state(source) for name, source in job.sources.items()}
    missing = tuple(name for name, state in states.items() if state.schema is None or not state.progress.batch)
    if missing:
        return PreparedJoin(missing_sources=missing)
    with observe("decide"):
        sources = {name: _with_stored_columns(job.sources[name], state) for name, state in states.items()}
        joining = validate_joined(job.joined, sources)
        table = job.target.joined(joining)
        state = table.state()
        passed = JoinProgress.of(state.progress)
        if passed is None and state.progress.batch:
            raise TableError(
                f"{job.joined.name}: the lake has a table of that name, and it is not joined of others",
                found=f"it is at batch {state.progress.batch}",
                todo="Give the joined table another name, or drop that one.",
            )
        plan = plan_join(joining, passed, table.sources(passed), job.now())
        merge = None if plan is None else _merge_of(plan, state)
        return PreparedJoin(state=state, table=table, plan=plan, merge=merge, over_time=joining.over_time)


def _with_stored_columns(source: Dimension, state: TableState) -> Dimension:
    """Return a source with its stored columns, by the names that they get with its next batch."""
    return replace(source, schema=with_new_names(state.schema or source.schema, source.policies.renames))


def _merge_of(plan: JoinPlan, state: TableState) -> MergePlan:
    """Return the plan of a joined table as a `MergePlan`, with the changes of its columns.

    Raises SchemaConflict where the stored columns differ from the declared ones and cannot follow them.
    """
    dimension = plan.joining.dimension
    return MergePlan(
        dimension=dimension,
        evolution=Evolution(dimension.schema)
        if state.schema is None
        else _evolution(plan, state.schema, state.progress),
        batch=plan.batch,
        epoch=1,
        facts=BatchFacts(schema=dimension.schema),
        recalls=False,
        appends=False,
        creates=state.schema is None,
        folds=True,
        begun_at=plan.ran,
    )


def _evolution(plan: JoinPlan, stored: Schema, before: Progress) -> Evolution:
    dimension, options = plan.joining.dimension, options_of(plan.joining.dimension)
    evolution = evolve(stored, dimension.schema, DEFAULT_POLICIES, dimension.key)
    refused = [str(change) for change in evolution.refused]
    refused += [str(change) for change, _ in evolution.differences if change.kind not in (Kind.ADD, Kind.WIDEN)]
    if before.batch and before.key != dimension.key:
        refused.append(f"its key was {', '.join(before.key or ())} and is {', '.join(dimension.key)}")
    if before.batch and before.history != options:
        refused.append(f"its versions were kept with the options {before.history}, now {options}")
    if refused:
        raise SchemaConflict(
            f"{dimension.name}: the stored table differs from its declaration",
            found="; ".join(refused),
            todo="Nothing was changed. It is made of its sources: drop the table, and the next run makes it anew"
            + (_WITHOUT_PAST if dimension.history is not None and not plan.joining.over_time else "."),
        )
    return evolution


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
        own = JoinProgress.of(self.progress)
        return {} if own is None else own.passed

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
    own = JoinProgress.of(progress)
    return () if own is None else own.unshown.warnings(joined)


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
    """Return the progress of a batch; where keys are left unchanged, it passes no source further than before."""
    dimension, own = plan.joining.dimension, plan.progress
    if resolved.skipped_keys is not None:
        own = JoinProgress.of(before) or replace(own, passed={})
    return replace(
        before,
        batch=plan.batch,
        rows=before.rows + resolved.written - resolved.removed,
        current=None if dimension.history is None else (before.current or 0) + resolved.current,
        sequences=dimension.sequences,
        key=dimension.key,
        history=options_of(dimension),
        joined=replace(own, batch=plan.batch, unshown=resolved.omitted_rows).to_json(),
        counts=Counts(),
    )
