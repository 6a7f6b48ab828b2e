"""Worker that applies at most one batch of a table and reports the outcome."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from lakeward.core.errors import CommitConflict, LakewardError, SetupError
from lakeward.core.ledger.other_tables import OtherTables
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.counts import Counts
from lakeward.core.operations.small_files import is_due, merge_small_files
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job, Report
from lakeward.core.ports import Notice
from lakeward.core.reporting.alarms import alarms
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.runtime.inbox import Inbox
from lakeward.entrypoints.runtime.registration import Registrar
from lakeward.entrypoints.runtime.reporting.failures import forget_failure, keep_failure
from lakeward.entrypoints.runtime.reporting.logs import log_failure
from lakeward.entrypoints.runtime.scheduler import TableOutcome
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.runtime.table_run import Observer, TableRun
from lakeward.entrypoints.settings.models.maintenance import maintenance_policy
from lakeward.entrypoints.startup.process_memory import release_memory
from lakeward.plugins.manager import who_raised

log = structlog.get_logger()

_MANY_EVENTS: Final = 50_000
"""The events of a batch after which memory is released."""


@dataclass(slots=True)
class TableWorker:
    """Applies batches of tables, in any thread; `runs` holds the results by table name.

    An opened table stays open in `jobs` until it fails, so that its change log is read once. With
    `single_listing`, a table is done after the batch that has the last of the listed objects. With `merges`, its
    small files are merged after some batches. The notices of a table stay in `inbox` until their changes are
    committed.
    """

    container: Container
    runs: Mapping[str, TableRun]
    observer: Observer
    stop: Stop
    inbox: Inbox
    single_listing: bool = False
    merges: bool = False
    jobs: dict[str, Job[Any]] = field(default_factory=dict)
    registrar: Registrar = field(init=False)

    def __post_init__(self) -> None:
        self.registrar = Registrar(self.container)

    def __call__(self, table: str, notices: Sequence[Notice]) -> TableOutcome:
        """Apply the next batch of a table. An error is stored in its run and not raised."""
        run, began = self.runs[table], time.monotonic()
        structlog.contextvars.unbind_contextvars("batch")
        structlog.contextvars.bind_contextvars(table=table)
        try:
            outcome = self._apply(run, notices)
            account = self.container.ledger().account(table)
            run.awaited = account.awaited
            if account.failure is not None and not self.stop.is_asked:
                forget_failure(self.container, table)
        except Exception as error:  # noqa: BLE001  # the failure of one table stops no other
            outcome = self._record_failure(run, error)
        run.seconds += time.monotonic() - began
        if run.progress is not None:
            now = self.container.runtime().now()
            raised = alarms(table, run.progress.ahead, run.backwards, run.duplicate_objects, now, run.acked)
            run.alarms = (
                *raised,
                *(() if outcome is TableOutcome.FAILED else self.registrar(run.table, run.progress.batch)),
            )
        if outcome is not TableOutcome.MORE or self.stop.is_asked:
            self.observer.done(run)
            run.unreported.clear()
        self._end(outcome, notices)
        return outcome

    def _end(self, outcome: TableOutcome, notices: Sequence[Notice]) -> None:
        """Return notices that are not acknowledged to the queue: at once if the table failed, else later."""
        if outcome is TableOutcome.FAILED:
            self.inbox.give_back(notices)
        elif outcome is TableOutcome.DONE and not self.stop.is_asked:
            self.inbox.release(notices)

    def reopen(self) -> None:
        """Close all tables: another process may have written to them."""
        self.jobs.clear()

    def _apply(self, run: TableRun, notices: Sequence[Notice]) -> TableOutcome:
        reports: list[Report] = []
        if self.stop.is_asked:
            return TableOutcome.DONE
        run.is_begun = True
        job = replace(self._job(run), queue=self.inbox, notices=self.inbox.held(notices))
        if run.progress is not None:
            structlog.contextvars.bind_contextvars(batch=run.progress.batch + 1)

        @contextmanager
        def observe(step: str) -> Iterator[None]:
            self.observer.step(run.table, step)
            log.debug("step", step=step)
            yield

        def on_batch(report: Report) -> None:
            reports.append(report)
            run.add(report)
            run.committed = self.container.runtime().now()
            log.info("committed", commit=report.commit, way=report.way, **_nonzero_counts(report.counts))
            self.observer.batch(run.table, report)
            self._call_after_commit(report)

        def on_others(others: OtherTables) -> None:
            run.others = others

        def on_listed(selection: ObjectSelection) -> None:
            run.files_left_alone = selection.unrelated_files

        apply_changes(job, observe, on_batch, lambda: bool(reports) or self.stop.is_asked, on_others, on_listed)
        if reports and reports[-1].counts.read >= _MANY_EVENTS:
            release_memory()
        _clear_failure(run)
        if self.merges and reports and not self.stop.is_asked:
            self._merge(job, reports[-1].progress.batch)
        is_done = not reports or (self.single_listing and reports[-1].is_last)
        return TableOutcome.DONE if is_done else TableOutcome.MORE

    def _merge(self, job: Job[Any], batch: int) -> None:
        """Merge small files, if they are due after a batch. A failure is logged and fails no batch."""
        settings = self.container.configured().maintenance_of(job.dimension.name)
        policy = maintenance_policy(settings)
        if not is_due(batch, policy):
            return
        try:
            report = merge_small_files(job, policy)
        except CommitConflict as error:  # they are merged later
            log.debug("small files were not merged", error=error.what)
        except LakewardError as error:
            log.warning("small files were not merged", error=error.what, found=error.found, todo=error.todo)
        except Exception as error:  # the batch is committed, and the next one needs no merge
            log.warning("small files were not merged", error=repr(error), exc_info=error)
        else:
            if report.files:
                log.info("merged small files", files=report.files, bytes=report.bytes)

    def _job(self, run: TableRun) -> Job[Any]:
        table = str(run.table)
        run.acked = self.container.ledger().account(table).acknowledged
        if table not in self.jobs:
            job: Job[Any] = self.container.job(table=run.table)
            state = job.opened.table.state()
            run.progress, run.committed = state.progress, state.committed
            self.jobs[table] = job
        return self.jobs[table]

    def _record_failure(self, run: TableRun, error: BaseException) -> TableOutcome:
        self.jobs.pop(str(run.table), None)
        if self.stop.is_asked and isinstance(error, SetupError):  # the signal also ended the JVM while it started
            run.is_begun = run.batches > 0
            return TableOutcome.DONE
        error = self.container.spark().lost(str(run.table), error) or error
        is_known = run.error is not None and str(run.error) == str(error)
        run.error = error
        run.failures += 1
        run.failed_turns += 1
        log_failure(error, log.debug if is_known else log.error)
        keep_failure(self.container, str(run.table), error)
        return TableOutcome.FAILED

    def _call_after_commit(self, report: Report) -> None:
        hook = self.container.manager().hook.after_commit
        try:
            hook(report=report)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the failure of a plugin does not fail the table
            failed = log.bind(plugin=who_raised(error, hook))
            todo = "on the command line, --debug logs the stack trace"
            failed.warning("failed in after_commit", error=repr(error), todo=todo)
            failed.debug("its stack trace", exc_info=True)


def _clear_failure(run: TableRun) -> None:
    if run.error is not None:
        log.info("goes on", failures=run.failures)
    run.error, run.failures = None, 0


def _nonzero_counts(counts: Counts) -> dict[str, int]:
    return {name: value for name in counts.__slots__ if (value := getattr(counts, name))}
