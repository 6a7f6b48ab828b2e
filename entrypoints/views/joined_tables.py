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
from lakeward.core.joined.declaration import Joined, JoinType, Source
from lakeward.core.joined.plan import JoinPlan, JoinProgress
from lakeward.core.joined.preparation import PreparedJoin, plan_next
from lakeward.core.joined.refresh import cautions
from lakeward.core.ports import TableState
from lakeward.core.reporting.failures import Failure
from lakeward.core.schema import Schema
from lakeward.entrypoints.runtime.join_run import JoinRun
from lakeward.entrypoints.runtime.reporting.logs import log_failure
from lakeward.entrypoints.settings.configuration import Configured
from lakeward.entrypoints.views import documents, error_groups, terminal
from lakeward.entrypoints.views.safe_text import escaped

log = structlog.get_logger()


def print_runs(joined: Sequence[JoinRun]) -> None:
    """Print one line per joined table, then errors and alarms."""
    if joined:
        terminal.console().print(runs(joined))
    terminal.print_findings({one.table: one.report.cautions for one in joined if one.report is not None}, ())
    sys.stdout.flush()
    error_groups.print_errors((one.table, one.error) for one in joined if one.error is not None)
    error_groups.print_alarms((one.table, alarm) for one in joined for alarm in one.alarms)


def runs(joined: Sequence[JoinRun]) -> Table:
    """Return a table with one line per joined table of a run."""
    table = terminal.grid(
        "joined table", "batch", "written", "removed", "", "time", right=("batch", "written", "removed", "time")
    )
    for run in joined:
        table.add_row(escaped(str(run.table)), *_numbers(run), _words(run), f"{run.seconds:.1f} s")
    return table


def _numbers(run: JoinRun) -> tuple[str, str, str]:
    report = run.report
    if report is None:
        return "–", "–", "–"
    return f"{report.progress.batch:,}", f"{report.written:,}", f"{report.removed:,}"


def _words(run: JoinRun) -> str:
    if run.error is not None:
        return "[red]failed[/]"
    if run.waits:
        return f"waits for the first batch of {escaped(', '.join(map(str, run.waits)))}"
    return "nothing new" if run.report is None else escaped(plan_words(run.report.plan))


def plan_words(plan: JoinPlan) -> str:
    """Return as text which source batches a batch of a joined table covers, or why it rebuilds all rows."""
    if plan.whole:
        return f"all rows rebuilt: {'; '.join(plan.whole)}"
    passed = plan.progress.passed
    return "keys touched by " + ", ".join(
        f"{name} {since + 1}–{passed[name].batch}" for name, since in plan.since.items()
    )


def lookups(joined: Joined) -> Sequence[str]:
    """Return as text which sources are looked up at a time, and the result for rows without a match."""
    found = {name: one for name, one in joined.sources.items() if one.at is not None or one.otherwise}
    return [f"{_which(joined, name)}; {_else(one)}" for name, one in found.items()]


def _which(joined: Joined, name: str) -> str:
    at = joined.sources[name].at
    return f"{name} as it is now" if at is None else f"{name} as it was at {joined.parent(name)}.{at}"


def _else(source: Source) -> str:
    if source.way is JoinType.INNER:
        return "a row that finds none waits for it"
    values = ", ".join(f"{own} {source.otherwise.get(own, 'NULL')}" for own in source.columns)
    return f"a row that finds none has {values}" if values else "a row that finds none stays"


def planned(
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
        found = plan_next(job)
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
        name = str(table) if found.table is None else found.table.name
        terminal.console().print(f"{escaped(str(table))}  → {escaped(name)} ({kind}, joined {mode})")
        for words in lookups(job.joined):
            terminal.console().print(f"   {escaped(words)}")
        terminal.console().print(f"   {escaped(planned_words(found, ahead))}")
    plan = None if found.plan is None else {"batch": found.plan.batch, **documents.join_plan(found.plan)}
    waits_for, names = list(map(str, found.missing_sources)), list(map(str, ahead))
    return {"table": str(table), "plan": plan, "waits_for": waits_for, "ahead": names}


def planned_words(found: PreparedJoin, ahead: Sequence[TableName] = ()) -> str:
    """Return as text what the next batch covers; the sources `ahead` have a batch that comes first."""
    if found.missing_sources:
        return f"waits for the first batch of {', '.join(map(str, found.missing_sources))}"
    words = [] if found.plan is None else [plan_words(found.plan)]
    if ahead and (found.plan is None or not found.plan.whole):
        touched = f"by the next batch of {', '.join(map(str, ahead))}"
        words.append(f"and {touched}" if words else f"keys touched {touched}")
    return ", ".join(words) or "nothing new in its sources"


@dataclass(frozen=True, slots=True)
class JoinedStatus:
    """Status of a joined table, or the error of reading it."""

    joined: Joined
    standing: TableState | None = None
    error: LakewardError | None = None
    failure: Failure | None = None

    @property
    def name(self) -> TableName:
        """The name of the joined table."""
        return self.joined.name

    @property
    def cautions(self) -> Sequence[str]:
        """Cautions about the table, by its last commit."""
        return () if self.standing is None else cautions(self.joined, self.standing.progress)

    @property
    def passed(self) -> Mapping[str, int]:
        """The last batch of each source that the table covers."""
        text = None if self.standing is None else self.standing.progress.joined
        return {} if text is None else {n: one.batch for n, one in JoinProgress.from_json(text).passed.items()}


def stands(container: Any, configured: Configured, tables: Sequence[TableName]) -> list[JoinedStatus]:
    """Return the status of joined tables, by their last commits."""
    target, found = container.target(), []
    for name in tables:
        joined = configured.joined[name]
        dimension = Dimension(name=name, schema=Schema(()), history=joined.history)
        try:
            standing = target.standing(dimension)
            found.append(JoinedStatus(joined, standing, failure=container.ledger().account(str(name)).failure))
        except LakewardError as error:
            found.append(JoinedStatus(joined, error=error))
    return found


def status(found: Sequence[JoinedStatus]) -> Table:
    """Return a table with one line per joined table: covered source batches, rows, batch, last commit."""
    table = terminal.grid("joined table", "has passed", "rows", "batch", "last commit", right=("rows", "batch"))
    for one in found:
        name, standing = escaped(str(one.name)), one.standing
        if standing is None or not standing.progress.batch:
            table.add_row(name, "[red]failed[/]" if one.error else "nothing joined yet", "–", "–", "–")
            continue
        passed = ", ".join(f"{source} {batch:,}" for source, batch in one.passed.items())
        committed = f"{terminal.ago(standing.committed)} ago" if standing.committed else "–"
        progress = standing.progress
        table.add_row(name, escaped(passed), f"{progress.rows:,}", f"{progress.batch:,}", committed)
    return table


def status_document(one: JoinedStatus) -> Mapping[str, Any]:
    """Return the JSON document of the status of a joined table."""
    if one.standing is None:
        return {"table": str(one.name), "error": None if one.error is None else documents.error(one.error)}
    return {
        "table": str(one.name),
        "exists": one.standing.schema is not None,
        "batch": one.standing.progress.batch,
        "rows": one.standing.progress.rows,
        "passed": dict(one.passed),
        "committed": documents.time(one.standing.committed),
        "warnings": list(one.cautions),
        "last_error": documents.failure(one.failure),
    }
