"""Joined tables in a run: each is updated to the state of its sources; a failure of one stops no other."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from lakeward.core.dimension import TableName
from lakeward.core.errors import SetupError
from lakeward.core.joined.refresh import JoinReport, plan_next, refresh
from lakeward.core.pipeline.job import Job
from lakeward.core.reporting.alarms import Alarm
from lakeward.entrypoints.runtime.registration import Registrar
from lakeward.entrypoints.runtime.reporting.failures import forget_failure, keep_failure
from lakeward.entrypoints.runtime.reporting.logs import log_failure
from lakeward.entrypoints.runtime.scheduler import TableOutcome
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.settings.configuration import Configuration

log = structlog.get_logger()


@dataclass(slots=True)
class JoinRun:
    """Result of a run for one joined table.

    `waits` lists sources that have no commit yet. `error` is the error of the last attempt, `failures` the number
    of failures in a row, `failed_turns` of all failed attempts. `seconds` is the time spent on the table.
    """

    table: TableName
    report: JoinReport | None = None
    batches: int = 0
    waits: Sequence[TableName] = ()
    error: BaseException | None = None
    failures: int = 0
    failed_turns: int = 0
    seconds: float = 0.0
    alarms: Sequence[Alarm] = ()


@dataclass(frozen=True, slots=True)
class TableSelection:
    """Tables and joined tables of a run; `named` is True if an operator named them."""

    tables: Sequence[TableName]
    joined: Sequence[TableName]
    named: bool = False


def select_tables(configured: Configuration, wanted: Iterable[str]) -> TableSelection:
    """Return the selection for the names `wanted`; no name selects all tables.

    A table selects the joined tables that it is a source of. A joined table selects its sources.
    Raises ConfigError for a name that is not configured.
    """
    chosen_names = configured.choose_any(wanted)
    names = chosen_names or [*configured.tables]
    named = [name for name in names if name in configured.joined]
    tables = [name for name in names if name not in named]
    joined = {*named, *joined_of(configured, tables)}
    sources = [source for name in named for source in configured.sources_of(name)]
    return TableSelection(
        [*dict.fromkeys((*tables, *sources))],
        [name for name in configured.joined if name in joined],
        named=bool(chosen_names),
    )


def joined_of(configured: Configuration, tables: Iterable[TableName]) -> Sequence[TableName]:
    """Return the joined tables that have at least one of these tables as a source."""
    wanted = set(tables)
    return [name for name in configured.joined if wanted.intersection(configured.sources_of(name))]


def job_of(container: Any, table: TableName) -> Job[Any]:
    """Return the job of a table. The job of a joined table is for inspection and maintenance only."""
    make = container.joined_maintenance if table in container.configured().joined else container.job
    job: Job[Any] = make(table=table)
    return job


@dataclass(slots=True)
class JoinScheduler:
    """Updates joined tables to the state of their sources; `runs` holds the results of those that were begun.

    `refresh` may be called from any thread. A table is due if a source has another batch than at the last call of
    `due_tables` (`source_batches`), if its last attempt failed, or if it could not be registered.
    """

    container: Any
    tables: Sequence[TableName]
    stop: Stop
    runs: dict[TableName, JoinRun] = field(default_factory=dict)
    source_batches: dict[TableName, Mapping[TableName, int | None]] = field(default_factory=dict)
    registrar: Registrar = field(init=False)

    def __post_init__(self) -> None:
        self.registrar = Registrar(self.container)

    def refresh_all(self, pool: Executor) -> None:
        """Update each table once.

        Raises SetupError if Spark cannot be started.
        """
        for _ in pool.map(self.refresh, self.tables):
            pass
        setup_errors = (run.error for run in self.runs.values() if isinstance(run.error, SetupError))
        if (error := next(setup_errors, None)) is not None:
            raise error

    def due_tables(self, batches: Mapping[TableName, int]) -> Sequence[TableName]:
        """Return the tables that are due, given the last known batch of each source."""
        sources_of, due = self.container.configured().sources_of, []
        for table in self.tables:
            batches_now = {name: batches.get(name) for name in sources_of(table)}
            if self.source_batches.get(table) != batches_now or self.registrar.is_due(table):
                self.source_batches[table] = batches_now
                due.append(table)
        return due

    def make_all_due(self) -> None:
        """Make all tables due: another process may have written to their sources."""
        self.source_batches.clear()

    def refresh(self, table: TableName) -> TableOutcome:
        """Update one table. An error is stored in its run and not raised."""
        if self.stop.is_asked:
            return TableOutcome.DONE
        run, began = self.runs.setdefault(table, JoinRun(table)), time.monotonic()
        structlog.contextvars.bind_contextvars(table=str(table))
        structlog.contextvars.unbind_contextvars("batch")
        try:
            self._refresh(run)
            run.alarms = self.registrar(table, None)
        except Exception as error:  # noqa: BLE001  # the failure of one table stops no other
            self._record_failure(run, self.container.spark().lost(str(table), error) or error)
        run.seconds += time.monotonic() - began
        return TableOutcome.DONE if run.error is None else TableOutcome.FAILED

    def _record_failure(self, run: JoinRun, error: BaseException) -> None:
        is_known = run.error is not None and str(run.error) == str(error)
        run.error = error
        run.failures += 1
        run.failed_turns += 1
        self.source_batches.pop(run.table, None)
        log_failure(error, log.debug if is_known else log.error)
        keep_failure(self.container, str(run.table), error)

    def _refresh(self, run: JoinRun) -> None:
        job = self.container.join_job(table=run.table)
        report = refresh(job, _log_step)
        error = None if report is None else report.error
        if error is None:
            if run.error is not None:
                log.info("goes on", failures=run.failures)
            run.error, run.failures = None, 0
            if self.container.ledger().account(str(run.table)).failure is not None:
                forget_failure(self.container, str(run.table))
        if report is None:
            run.waits = plan_next(job).missing_sources
            return
        run.report, run.batches, run.waits = report, run.batches + 1, ()
        log.info("joined", commit=report.commit, written=report.written, removed=report.removed)
        for caution in report.cautions:
            log.warning("caution", what=caution)
        if error is not None:
            raise error


@contextmanager
def _log_step(step: str) -> Iterator[None]:
    log.debug("step", step=step)
    yield
