"""Joined tables in a run: each is brought to where its sources are, once these are done; none stops another."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from lakeward.core.dimension import TableName
from lakeward.core.errors import EngineLost, SetupError
from lakeward.core.job import Job
from lakeward.core.joined.keeping import JoinReport, keep_up, plan_next
from lakeward.entrypoints.logs import log_failure
from lakeward.entrypoints.settings import Configured
from lakeward.entrypoints.stopping import Stop

log = structlog.get_logger()


@dataclass(slots=True)
class JoinRun:
    """What a run did to one joined table.

    It `waits` for sources that have no commit yet. `error` is that of the last time that it was tried.
    """

    table: TableName
    report: JoinReport | None = None
    batches: int = 0
    waits: Sequence[TableName] = ()
    error: BaseException | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Chosen:
    """Tables of the source, and those that are joined of them."""

    tables: Sequence[TableName]
    joined: Sequence[TableName]


def chosen(configured: Configured, wanted: Iterable[str]) -> Chosen:
    """Return what is meant by these names, or by none: all.

    With a table come the joined ones that it is a source of, with a joined one the tables that it is made of.
    Raises ConfigError for one that is not configured.
    """
    names = configured.choose_any(wanted) or [*configured.tables]
    named = [name for name in names if name in configured.joined]
    tables = [name for name in names if name not in named]
    joined = {*named, *joined_of(configured, tables)}
    sources = [source for name in named for source in configured.sources_of(name)]
    return Chosen(
        [*dict.fromkeys((*tables, *sources))],
        [name for name in configured.joined if name in joined],
    )


def joined_of(configured: Configured, tables: Iterable[TableName]) -> Sequence[TableName]:
    """Return the joined tables that some of these tables are sources of."""
    wanted = set(tables)
    return [name for name in configured.joined if wanted.intersection(configured.sources_of(name))]


def job_of(container: Any, table: TableName) -> Job[Any]:
    """Return the job of a table; of a joined one as it stands, to look at it or to take care of it."""
    make = container.joined_upkeep if table in container.configured().joined else container.job
    job: Job[Any] = make(table=table)
    return job


@dataclass(slots=True)
class Joining:
    """Brings joined tables to where their sources are; `runs` are what became of those that were begun.

    In one process a table is looked at again where a source of it has another batch than before, or it failed.
    """

    container: Any
    tables: Sequence[TableName]
    stop: Stop
    pool: Executor
    runs: dict[TableName, JoinRun] = field(default_factory=dict)
    passed: dict[TableName, Mapping[TableName, int]] = field(default_factory=dict)

    def __call__(self, batches: Mapping[TableName, int]) -> None:
        """Join; `batches` are those that the tables are at, as far as this process knows."""
        due = [table for table in self.tables if self._is_due(table, batches)]
        for _ in self.pool.map(self._join, due):
            pass
        for table in (one for one in due if one in self.runs):
            error = self.runs[table].error
            if isinstance(error, SetupError):
                raise error
            self.passed[table] = {} if error is not None else dict(batches)

    def _is_due(self, table: TableName, batches: Mapping[TableName, int]) -> bool:
        before = self.passed.get(table)
        sources = self.container.configured().sources_of(table)
        return before is None or any(before.get(name) != batches.get(name) for name in sources)

    def _join(self, table: TableName) -> None:
        if self.stop.is_asked:
            return
        run, began = self.runs.setdefault(table, JoinRun(table)), time.monotonic()
        structlog.contextvars.bind_contextvars(table=str(table))
        structlog.contextvars.unbind_contextvars("batch")
        try:
            self._keep_up(run)
        except Exception as error:  # noqa: BLE001  # a table's failure, whatever it is, stops no other
            failed = self.container.spark().lost(str(table), error) or error
            if isinstance(failed, EngineLost):
                self.stop.ask()  # nothing goes on without Java
            is_known = run.error is not None and str(run.error) == str(failed)
            run.error = failed
            log_failure(failed, log.debug if is_known else log.error)
        run.seconds += time.monotonic() - began

    def _keep_up(self, run: JoinRun) -> None:
        job = self.container.join_job(table=run.table)
        report = keep_up(job, _watch)
        run.error = None
        if report is None:
            run.waits = plan_next(job).lacking
            return
        run.report, run.batches, run.waits = report, run.batches + 1, ()
        log.info("joined", commit=report.commit, written=report.written, removed=report.removed)


def _watch(step: str) -> AbstractContextManager[None]:
    return _logged(step)


@contextmanager
def _logged(step: str) -> Iterator[None]:
    log.debug("step", step=step)
    yield
