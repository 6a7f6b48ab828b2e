"""Continuous operation: poll and apply batches in one process until a stop is requested."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from lakeward.core.dimension import TableName
from lakeward.core.errors import EngineLost, LakewardError, SetupError
from lakeward.core.ports import Notice
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.runtime.discovery_schedule import DiscoverySchedule
from lakeward.entrypoints.runtime.inbox import Inbox
from lakeward.entrypoints.runtime.join_run import JoinRun, JoinScheduler, TableSelection
from lakeward.entrypoints.runtime.pipeline_run import (
    check,
    finished_outcomes,
    make_scheduler,
    notices_for_others,
    settings_digests,
)
from lakeward.entrypoints.runtime.scheduler import TableOutcome, TableScheduler
from lakeward.entrypoints.runtime.settings_watch import SettingsWatch
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.runtime.table_run import Observer, TableRun
from lakeward.entrypoints.runtime.worker import TableWorker
from lakeward.entrypoints.settings.configuration import Configuration

log = structlog.get_logger()

LONGEST_DELAY: Final = 600.0
"""Greatest number of seconds between two attempts of a failing table, unless `poll` is longer."""

_SUMMARY_EVERY: Final = 3600.0
"""Seconds between two log lines that sum up the tables."""


def retry_delay(poll: float, failures: int) -> float:
    """Return the seconds until the next attempt of a table after so many failures in a row.

    The time starts at `poll` seconds and doubles with each failure, up to `LONGEST_DELAY`.

    >>> [retry_delay(10.0, failures) for failures in (1, 2, 3, 8)], retry_delay(1800.0, 5)
    ([10.0, 20.0, 40.0, 600.0], 1800.0)
    """
    return max(poll, min(poll * 2.0 ** (min(failures, 64) - 1), LONGEST_DELAY))


Idle = Callable[[float], bool]
"""Wait so many seconds, or until a stop is requested; return True if another process may have written."""

Review = Callable[[Sequence[TableRun], Sequence[JoinRun]], None]
"""Receive the runs of all tables that were begun and of the joined tables, between two batches."""

Measure = Callable[[Collection[TableRun], Collection[JoinRun], int], None]
"""Record metrics after each batch and with each poll: table runs, joined runs, number of waiting tables."""


@dataclass(slots=True)
class FollowLoop:
    """Polling loop: schedules the tables that have notices, and joined tables whose sources advanced.

    A failing table is retried after a delay that doubles with each failure in a row. The loop ends if `watch` finds
    changed settings of tables. `review` is called with each poll and before the loop waits.
    """

    scheduler: TableScheduler
    runs: Mapping[str, TableRun]
    join_scheduler: JoinScheduler
    receive: Callable[[], Iterable[Notice]]
    stop: Stop
    idle: Idle
    poll: float
    reopen: Callable[[], None]
    review: Review
    measure: Measure
    watch: SettingsWatch | None = None
    retry_at: dict[str, float] = field(default_factory=dict)

    def __call__(self) -> None:
        """Run until a stop is requested, settings change, or the JVM has exited; running batches are awaited.

        Raises SetupError if Spark cannot be started.
        """
        clock = self.stop.clock
        due, next_summary = clock(), clock() + _SUMMARY_EVERY
        while not (self.stop.is_asked or self._is_lost or self._is_outdated):
            now = clock()
            if now >= due:
                self._review()
                self._measure()
                self.scheduler.join(notice for notice in self.receive() if notice.table in self.runs)
                due = now + self.poll
            if now >= next_summary:
                self._log_summary()
                next_summary = now + _SUMMARY_EVERY
            self.scheduler.begin(partial(self._may_retry, now))
            if self.scheduler.running:
                self._settle(due - now)
                continue
            self._join()
            self._review()
            until = [
                due,
                *map(self._retry_at, self.scheduler.waiting),
                *([] if self.watch is None else [self.watch.due]),
            ]
            seconds = min(until) - clock()
            if seconds > 0 and self.idle(seconds):
                self.reopen()
        while self.scheduler.running:
            self._settle(None)

    def _retry_at(self, table: str) -> float:
        return self.retry_at.get(table, 0.0)

    def _may_retry(self, now: float, table: str) -> bool:
        return self._retry_at(table) <= now

    @property
    def _is_outdated(self) -> bool:
        return self.watch is not None and self.watch.is_changed()

    @property
    def _is_lost(self) -> bool:
        """True if the JVM has exited: no table can continue without it."""
        return any(isinstance(run.error, EngineLost) for run in self._every.values())

    @property
    def _every(self) -> Mapping[str, TableRun | JoinRun]:
        """The runs of all tables by name, including joined tables."""
        return {**self.runs, **{str(run.table): run for run in list(self.join_scheduler.runs.values())}}

    def _join(self) -> None:
        """Queue the joined tables that have a source with a new batch."""
        batches = {run.table: run.progress.batch for run in self.runs.values() if run.progress is not None}
        self.scheduler.join(Notice(str(table)) for table in self.join_scheduler.due_tables(batches))

    def _settle(self, seconds: float | None) -> None:
        outcomes, runs = finished_outcomes(self.scheduler, self._every.values(), seconds), self._every
        for table, outcome in outcomes:
            self.retry_at.pop(table, None)
            if outcome is TableOutcome.FAILED:
                self.retry_at[table] = self.stop.clock() + retry_delay(self.poll, runs[table].failures)
                if table in self.runs:  # retry even if the queue has no notice for it by then
                    self.scheduler.join([Notice(table)])
        if outcomes:
            self._join()
            self._measure()

    def _review(self) -> None:
        self.review(self._begun_runs, list(self.join_scheduler.runs.values()))

    def _measure(self) -> None:
        self.measure(self.runs.values(), self.join_scheduler.runs.values(), len(self.scheduler.waiting))

    @property
    def _begun_runs(self) -> Sequence[TableRun]:
        return [run for run in self.runs.values() if run.is_begun]

    def _log_summary(self) -> None:
        """Log a summary of the tables, so that a process that runs for days is visibly alive."""
        runs = self.runs.values()
        failing = [table for table, run in self._every.items() if run.error is not None]
        log.info(
            "following",
            tables=len(self.runs),
            batches=sum(run.batches for run in runs),
            rows=sum(run.counts.read for run in runs),
            failing=failing,
        )


@dataclass(frozen=True, slots=True)
class FollowResult:
    """Result of following a pipeline: the runs of its tables, and the last container and selection."""

    container: Container
    selection: TableSelection
    runs: Sequence[TableRun]
    joined: Sequence[JoinRun]


def follow_pipeline(
    container: Container,
    wanted: TableSelection,
    observer: Observer,
    stop: Stop,
    pool: Executor,
    idle: Idle,
    watch: SettingsWatch | None = None,
    begin: Callable[[Container, Sequence[TableName]], None] = lambda _container, _tables: None,
    review: Review = lambda _runs, _joined: None,
    measure: Measure = lambda _runs, _joined, _waiting: None,
) -> FollowResult:
    """Follow tables until a stop is requested; return the result.

    If `watch` finds changed settings of tables, running batches end and the loop restarts with a new container, as
    a new process would. `begin` is called before each start. New tables are followed, and removed ones are left
    out. Raises what `follow_tables` raises.
    """
    runs: dict[str, TableRun] = {}
    joins: dict[TableName, JoinRun] = {}
    now = wanted
    begin(container, now.tables)
    while True:
        join_scheduler = JoinScheduler(container, now.joined, stop, joins)
        collaborators = (observer, stop, pool, idle, join_scheduler, review, measure)
        follow_tables(container, now.tables, *collaborators, named=now.named, watch=watch, runs=runs)
        remade = None if watch is None or stop.is_asked else watch.take()
        if watch is None or remade is None:
            break
        tables = choose_again(remade.configured(), wanted)
        if not _is_accepted(remade, tables, pool, watch, container):
            continue
        container, now = remade, tables
        _leave_out(runs, joins, now)
        begin(container, now.tables)
    return FollowResult(container, now, [run for run in runs.values() if run.is_begun], [*joins.values()])


def _is_accepted(
    remade: Container, tables: TableSelection, pool: Executor, watch: SettingsWatch, before: Container
) -> bool:
    """Return whether changed settings can be used; otherwise those of the container `before` stay in use."""
    try:
        check(remade, tables.tables, pool)
    except SetupError:
        raise
    except LakewardError as error:
        watch.refuse(before, error)
        return False
    return True


def choose_again(configured: Configuration, wanted: TableSelection) -> TableSelection:
    """Return the selection under changed settings: all tables, or those named ones that are still configured."""
    if not wanted.named:
        return TableSelection([*configured.tables], [*configured.joined])
    joined = [name for name in configured.joined if name in wanted.joined]
    sources = [source for name in joined for source in configured.sources_of(name)]
    tables = [name for name in wanted.tables if name in configured.tables]
    return TableSelection([*dict.fromkeys((*tables, *sources))], joined, named=True)


def _leave_out(runs: Mapping[str, TableRun], joins: Mapping[TableName, JoinRun], now: TableSelection) -> None:
    """Clear errors and alarms of tables that are no longer followed; their counts stay in the sums."""
    for run in runs.values():
        if run.table not in now.tables:
            run.error, run.progress, run.awaited, run.alarms = None, None, None, ()
    for join in joins.values():
        if join.table not in now.joined:
            join.error, join.alarms = None, ()


def follow_tables(
    container: Container,
    tables: Sequence[TableName],
    observer: Observer,
    stop: Stop,
    pool: Executor,
    idle: Idle,
    join_scheduler: JoinScheduler,
    review: Review = lambda _runs, _joined: None,
    measure: Measure = lambda _runs, _joined, _waiting: None,
    *,
    named: bool = False,
    watch: SettingsWatch | None = None,
    runs: dict[str, TableRun] | None = None,
) -> list[TableRun]:
    """Follow tables until a stop is requested, or `watch` finds changed settings of tables.

    If an operator `named` the tables, all of them are examined with each poll and the queue is not used. `runs`
    holds earlier runs by table name and is updated. Return the runs of the tables that were begun. Raises
    SetupError if Spark cannot be started, and ConfigError for quality rules that Spark rejects.
    """
    check(container, tables, pool)
    runs = _runs_of(tables, {} if runs is None else runs)
    schedule = _schedule_of(container.configured(), runs, stop)
    with Inbox(container.queue(), runs) as inbox:
        worker = TableWorker(container, runs, observer, stop, inbox, single_listing=True, merges=True)
        workers = _Workers(worker, join_scheduler, schedule)
        loop = FollowLoop(
            scheduler=make_scheduler(container, workers.take, pool),
            runs=runs,
            join_scheduler=join_scheduler,
            receive=partial(notices_for_others, runs, ()) if named else NoticeReceiver(inbox, schedule, runs),
            stop=stop,
            idle=idle,
            poll=container.configured().poll,
            reopen=workers.reopen,
            review=review,
            measure=measure,
            watch=watch,
        )
        loop()
    return [run for run in runs.values() if run.is_begun]


def _schedule_of(configured: Configuration, runs: Mapping[str, TableRun], stop: Stop) -> DiscoverySchedule:
    digests = settings_digests(configured, runs)
    return DiscoverySchedule(configured.look_at_all_every, lambda: round(stop.clock() * 1_000_000), digests)


def _runs_of(tables: Sequence[TableName], earlier: dict[str, TableRun]) -> dict[str, TableRun]:
    """Return the runs of tables by name, and add new ones to the `earlier` runs."""
    return {
        str(table): earlier.setdefault(str(table), TableRun(table, reports=deque(maxlen=1))) for table in tables
    }


@dataclass(frozen=True, slots=True)
class _Workers:
    """The workers of tables and of joined tables, which share a scheduler."""

    worker: TableWorker
    join_scheduler: JoinScheduler
    schedule: DiscoverySchedule

    def take(self, table: str, notices: Sequence[Notice]) -> TableOutcome:
        """Apply a batch of a table, or update a joined table."""
        joined = next((name for name in self.join_scheduler.tables if str(name) == table), None)
        return self.worker(table, notices) if joined is None else self.join_scheduler.refresh(joined)

    def reopen(self) -> None:
        """Close all tables and make them due, since another process may have written to them."""
        self.schedule.forget()
        self.worker.reopen()
        self.join_scheduler.make_all_due()


@dataclass(frozen=True, slots=True)
class NoticeReceiver:
    """Receives the notices of the queue, and adds notices for tables that are due without one.

    All tables are due at first, at each full discovery, and while the queue does not answer. Tables of `runs` that
    wait for a full load or could not be registered are always due.
    """

    inbox: Inbox
    schedule: DiscoverySchedule
    runs: Mapping[str, TableRun]

    def __call__(self) -> Sequence[Notice]:
        """Return the notices of this poll."""
        began, notices = self.schedule.now(), self.inbox.receive()
        if self.inbox.answers and not self.schedule.is_due:
            due = [table for table, run in self.runs.items() if run.must_be_examined]
            return [*notices, *notices_for_others(due, notices)]
        self.schedule.note([*self.runs], began=began)
        return [*notices, *notices_for_others([*self.runs], notices)]
