"""One run of a pipeline: tables are processed in parallel, and the failure of one stops no other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from lakeward.core.dimension import TableName
from lakeward.core.errors import SetupError
from lakeward.core.ports import Notice
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.runtime.discovery_schedule import FILE as FULL_DISCOVERY
from lakeward.entrypoints.runtime.discovery_schedule import DiscoverySchedule, digest_of
from lakeward.entrypoints.runtime.inbox import Inbox
from lakeward.entrypoints.runtime.join_run import JoinRun
from lakeward.entrypoints.runtime.reporting.logs import inherit_context
from lakeward.entrypoints.runtime.scheduler import TableOutcome, TableScheduler, Take
from lakeward.entrypoints.runtime.stop_signal import ALERT, Stop
from lakeward.entrypoints.runtime.table_run import Observer, TableRun
from lakeward.entrypoints.runtime.worker import TableWorker
from lakeward.entrypoints.settings.configuration import Configuration


def worker_pool(container: Container) -> ThreadPoolExecutor:
    """Return a thread pool for tables, with `parallel` threads of the settings."""
    parallel = container.configured().settings.pipeline.parallel
    return ThreadPoolExecutor(parallel, "table", initializer=inherit_context())


def run_tables(
    container: Container,
    tables: Sequence[TableName],
    observer: Observer,
    stop: Stop,
    pool: Executor,
    *,
    named: bool = False,
    runs: dict[str, TableRun] | None = None,
) -> list[TableRun]:
    """Apply all waiting changes of tables; return the runs of the tables that were begun.

    If an operator `named` the tables, all are examined and the queue is not used. Otherwise those with a notice and
    those that are due are examined. A table that failed or waits for a full load is due in the next run. `runs`
    receives the runs by table name.
    Raises SetupError if Spark cannot be started, and ConfigError for quality rules that Spark rejects.
    """
    check(container, tables, pool)
    runs = {} if runs is None else runs
    runs.update({str(table): TableRun(table) for table in tables})
    configured, now = container.configured(), container.runtime().now
    digests = settings_digests(configured, runs)
    schedule = DiscoverySchedule(configured.look_at_all_every, now, digests, configured.state / FULL_DISCOVERY)
    began, unannounced = now(), list[Notice]()
    if not named:
        schedule.note(())
    with Inbox(container.queue(), runs) as inbox:
        scheduler = make_scheduler(container, TableWorker(container, runs, observer, stop, inbox), pool)
        is_full = schedule.is_due
        notices = () if named else inbox.receive_all()
        is_full |= not inbox.answers
        unannounced += notices_for_others(runs if is_full else schedule.due, notices)
        if container.registration() is not None and not named:
            schedule.note((), {notice.table for notice in notices})  # a crash may come before they are registered
        scheduler.join([*notices, *unannounced])
        _run_until_idle(scheduler, runs, stop)
    if not named:
        full_since = began if is_full and unannounced and not stop.is_asked else None
        _note(schedule, runs, full_since, is_whole=not stop.is_asked)
    return [run for run in runs.values() if run.is_begun]


def _run_until_idle(scheduler: TableScheduler, runs: Mapping[str, TableRun], stop: Stop) -> None:
    """Run the tables of the scheduler until none waits; after a stop request, only those that are running."""
    while scheduler.running or (scheduler.waiting and not stop.is_asked):
        if not stop.is_asked:
            scheduler.begin()
        finished_outcomes(scheduler, runs.values())


def _note(schedule: DiscoverySchedule, runs: Mapping[str, TableRun], began: int | None, *, is_whole: bool) -> None:
    """Note which tables were examined, and which are due in the next run without a notice.

    A run that was stopped (`is_whole` is False) notes no table as examined.
    """
    begun = {table: run for table, run in runs.items() if run.is_begun}
    retried = [table for table, run in begun.items() if run.error is not None or run.must_be_examined]
    schedule.note([*begun] if is_whole else (), retried, began)


def settings_digests(configured: Configuration, tables: Iterable[str]) -> Mapping[str, str]:
    """Return for each table a digest of the settings by which it is read."""
    own = {
        str(name): (str(configured.source_names[name]), table.source) for name, table in configured.tables.items()
    }
    return {table: digest_of([configured.settings.source, own.get(table)]) for table in tables}


def notices_for_others(tables: Collection[str], notices: Iterable[Notice]) -> Sequence[Notice]:
    """Return a notice for each table that has none among the notices of a queue."""
    with_notice = {notice.table for notice in notices}
    return [Notice(table) for table in tables if table not in with_notice]


def check(container: Container, tables: Sequence[TableName], pool: Executor) -> None:
    """Build source, target, stores and rules, so that wrong settings raise before any table is begun."""
    container.source(), container.target(), container.ledger(), container.statistics(), container.registration()
    # Rules may start Spark. In the main thread a SparkContext would install a SIGINT handler of its own.
    pool.submit(container.rules, tables=tables).result()


def make_scheduler(container: Container, take: Take, pool: Executor) -> TableScheduler:
    """Return a scheduler with as many workers as `parallel` of the settings."""
    return TableScheduler(take, pool, container.configured().settings.pipeline.parallel)


def finished_outcomes(
    scheduler: TableScheduler, runs: Iterable[TableRun | JoinRun], seconds: float | None = None
) -> Sequence[tuple[str, TableOutcome]]:
    """Return the tables whose batch has ended, with their outcomes; wait at most `seconds` or `ALERT`.

    Raises SetupError if a table found that Spark cannot be started.
    """
    finished = scheduler.finished(ALERT if seconds is None else min(seconds, ALERT))
    hopeless = next((run.error for run in runs if isinstance(run.error, SetupError)), None)
    if hopeless is not None:
        raise hopeless
    return finished

