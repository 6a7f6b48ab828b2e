"""Output about joined tables: results of a run, plans, and status."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from rich.table import Table

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import LakewardError, SetupError
from lakeward.core.joined.declaration import JoinDeclaration, JoinType, Source
from lakeward.core.joined.plan import OVER_TIME, JoinPlan, JoinProgress
from lakeward.core.joined.refresh import PreparedJoin, cautions, plan_next
from lakeward.core.ports import TableState
from lakeward.core.reporting.failures import Failure
from lakeward.core.schema import Schema
from lakeward.entrypoints.runtime.join_run import JoinRun
from lakeward.entrypoints.runtime.reporting.logs import log_failure
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.views import documents, error_groups, terminal
from lakeward.entrypoints.views.safe_text import escaped

log = structlog.get_logger()


def print_runs(joined: Sequence[JoinRun]) -> None:
    """Print one line per joined table, then errors and alarms."""
    if joined:
        terminal.console().print(runs_table(joined))
    terminal.print_findings({one.table: one.report.cautions for one in joined if one.report is not None}, ())
    sys.stdout.flush()
    error_groups.print_errors((one.table, one.error) for one in joined if one.error is not None)
    error_groups.print_alarms((one.table, alarm) for one in joined for alarm in one.alarms)


def runs_table(joined: Sequence[JoinRun]) -> Table:
    """Return a table with one line per joined table of a run."""
    table = terminal.grid(
        "joined table", "batch", "written", "removed", "", "time", right=("batch", "written", "removed", "time")
    )
    for run in joined:
        table.add_row(escaped(str(run.table)), *_numbers(run), _result_text(run), f"{run.seconds:.1f} s")
    return table


def _numbers(run: JoinRun) -> tuple[str, str, str]:
    report = run.report
    if report is None:
        return "–", "–", "–"
    return f"{report.progress.batch:,}", f"{report.written:,}", f"{report.removed:,}"


def _result_text(run: JoinRun) -> str:
    if run.error is not None:
        return "[red]failed[/]"
    if run.waits:
        return f"waits for the first batch of {escaped(', '.join(map(str, run.waits)))}"
    return "nothing new" if run.report is None else escaped(plan_text(run.report.plan))


def plan_text(plan: JoinPlan) -> str:
    """Return as text which source batches a batch of a joined table covers, or why it rebuilds all rows."""
    if plan.reasons:
        return f"all rows rebuilt: {'; '.join(plan.reasons)}"
    passed = plan.progress.passed
    return "keys touched by " + ", ".join(
        f"{name} {since + 1}–{passed[name].batch}" for name, since in plan.since.items()
    )


def lookups(joined: JoinDeclaration) -> Sequence[str]:
    """Return as text which sources are looked up at a time, and the result for rows without a match."""
    sources = {name: one for name, one in joined.sources.items() if one.at is not None or one.otherwise}
    return [f"{_lookup_text(joined, name)}; {_default_text(one)}" for name, one in sources.items()]


def _lookup_text(joined: JoinDeclaration, name: str) -> str:
    at = joined.sources[name].at
    return f"{name} as it is now" if at is None else f"{name} as it was at {joined.parent(name)}.{at}"


def _default_text(source: Source) -> str:
    if source.way is JoinType.INNER:
        return "a row without a match waits for one"
    values = ", ".join(f"{own} {source.otherwise.get(own, 'NULL')}" for own in source.columns)
    return f"a row without a match has {values}" if values else "a row without a match stays"


def plan_table(
    container: Any,
    table: TableName,
    kind: str,
    ahead: Sequence[TableName],
    errors: list[tuple[TableName, BaseException]],
    *,
    as_json: bool,
) -> dict[str, Any]:
    """Plan one joined table and return its JSON document; unless `as_json`, print it.

    The sources `ahead` have a batch that the same run would apply first. A table that cannot be planned is added to
    `errors`.
    """
    try:
        job = container.join_job(table=table)
        prepared = plan_next(job)
    except SetupError:
        raise
    except Exception as error:  # noqa: BLE001  # the failure of one table stops no other
        if not isinstance(error, LakewardError):
            log_failure(error, log.error)
        if not as_json:
            terminal.console().print(f"{escaped(str(table))}  → cannot be planned")
        errors.append((table, error))
        return {"table": str(table), "error": documents.error(error)}
    if not as_json:
        mode = "mirror" if job.joined.history is None else "history"
        name = str(table) if prepared.table is None else prepared.table.name
        terminal.console().print(f"{escaped(str(table))}  → {escaped(name)} ({kind}, joined {mode})")
        for text in lookups(job.joined):
            terminal.console().print(f"   {escaped(text)}")
        terminal.console().print(f"   {escaped(batch_text(prepared, ahead))}")
    plan = None if prepared.plan is None else {"batch": prepared.plan.batch, **documents.join_plan(prepared.plan)}
    waits_for, names = list(map(str, prepared.missing_sources)), list(map(str, ahead))
    return {"table": str(table), "plan": plan, "waits_for": waits_for, "ahead": names}


def batch_text(prepared: PreparedJoin, ahead: Sequence[TableName] = ()) -> str:
    """Return as text what the next batch covers; the sources `ahead` have a batch that comes first."""
    if prepared.missing_sources:
        return f"waits for the first batch of {', '.join(map(str, prepared.missing_sources))}"
    texts = [] if prepared.plan is None else [plan_text(prepared.plan)]
    if ahead and (prepared.plan is None or not prepared.plan.reasons):
        touched = f"by the next batch of {', '.join(map(str, ahead))}"
        begin = f"all rows rebuilt: {OVER_TIME}, touched" if prepared.over_time else "keys touched"
        texts.append(f"and {touched}" if texts else f"{begin} {touched}")
    return ", ".join(texts) or "nothing new in its sources"


@dataclass(frozen=True, slots=True)
class JoinedStatus:
    """Status of a joined table, or the error of reading it."""

    joined: JoinDeclaration
    state: TableState | None = None
    error: LakewardError | None = None
    failure: Failure | None = None

    @property
    def name(self) -> TableName:
        """The name of the joined table."""
        return self.joined.name

    @property
    def cautions(self) -> Sequence[str]:
        """Cautions about the table, by its last commit."""
        return () if self.state is None else cautions(self.joined, self.state.progress)

    @property
    def passed(self) -> Mapping[str, int]:
        """The last batch of each source that the table covers."""
        own = None if self.state is None else JoinProgress.of(self.state.progress)
        return {} if own is None else {name: one.batch for name, one in own.passed.items()}


def read_statuses(container: Any, configured: Configuration, tables: Sequence[TableName]) -> list[JoinedStatus]:
    """Return the status of joined tables, by their last commits."""
    target, statuses = container.target(), []
    for name in tables:
        joined = configured.joined[name]
        dimension = Dimension(name=name, schema=Schema(()), history=joined.history)
        try:
            state = target.table_state(dimension)
            statuses.append(JoinedStatus(joined, state, failure=container.ledger().account(str(name)).failure))
        except LakewardError as error:
            statuses.append(JoinedStatus(joined, error=error))
    return statuses


def status_table(statuses: Sequence[JoinedStatus]) -> Table:
    """Return a table with one line per joined table: covered source batches, rows, batch, last commit."""
    table = terminal.grid("joined table", "has passed", "rows", "batch", "last commit", right=("rows", "batch"))
    for one in statuses:
        name, state = escaped(str(one.name)), one.state
        if state is None or not state.progress.batch:
            table.add_row(name, "[red]failed[/]" if one.error else "nothing joined yet", "–", "–", "–")
            continue
        passed = ", ".join(f"{source} {batch:,}" for source, batch in one.passed.items())
        committed = f"{terminal.ago(state.committed)} ago" if state.committed else "–"
        progress = state.progress
        table.add_row(name, escaped(passed), f"{progress.rows:,}", f"{progress.batch:,}", committed)
    return table


def status_document(one: JoinedStatus) -> Mapping[str, Any]:
    """Return the JSON document of the status of a joined table."""
    if one.state is None:
        return {"table": str(one.name), "error": None if one.error is None else documents.error(one.error)}
    return {
        "table": str(one.name),
        "exists": one.state.schema is not None,
        "batch": one.state.progress.batch,
        "rows": one.state.progress.rows,
        "passed": dict(one.passed),
        "committed": documents.time(one.state.committed),
        "warnings": list(one.cautions),
        "last_error": documents.failure(one.failure),
    }
