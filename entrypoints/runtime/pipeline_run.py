"""Running a pipeline: tables side by side, none of them stopping another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from lakeward.core.dimension import TableName
from lakeward.core.errors import SetupError
from lakeward.core.ports import Notice
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.runtime.discovery_schedule import FILE as FULL_LOOK
from lakeward.entrypoints.runtime.discovery_schedule import FullLooks, digest_of
from lakeward.entrypoints.runtime.inbox import Inbox
from lakeward.entrypoints.runtime.join_run import JoinRun
from lakeward.entrypoints.runtime.reporting.logs import inherit_context
from lakeward.entrypoints.runtime.scheduler import Line, Take, Turn
from lakeward.entrypoints.runtime.stop_signal import ALERT, Stop
from lakeward.entrypoints.runtime.table_run import Observer, TableRun
from lakeward.entrypoints.runtime.worker import Turns
from lakeward.entrypoints.settings.configuration import Configured


def hands(container: Container) -> ThreadPoolExecutor:
    """Return threads to work on tables in, as many as the settings say."""
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
    """Bring tables up to date; one that fails keeps its place and stops no other.

    They are all looked at where a person `named` them, and the queue is left alone; else those of which it tells,
    and those that are due. A table that failed, or waits for a full load, is looked at by the next run, too. `runs`
    takes in what becomes of them.
    Raises SetupError where Spark cannot be started at all, and ConfigError for rules that it does not take.
    """
    check(container, tables, pool)
    runs = {} if runs is None else runs
    runs.update({str(table): TableRun(table) for table in tables})
    configured, now = container.configured(), container.runtime().now
    read_by = settings_digests(configured, runs)
    looks = FullLooks(configured.look_at_all_every, now, read_by, configured.state / FULL_LOOK)
    began, rest = now(), list[Notice]()
    if not named:
        looks.note(())
    with Inbox(container.queue(), runs) as inbox:
        line = line_of(container, Turns(container, runs, observer, stop, inbox), pool)
        is_full = looks.is_due
        notices = () if named else inbox.receive_all()
        is_full |= not inbox.answers
        rest += notices_for_others(runs if is_full else looks.due, notices)
        if container.registration() is not None and not named:
            looks.note((), {notice.table for notice in notices})  # a crash may come before they are registered
        line.join([*notices, *rest])
        while line.in_hand or (line.waiting and not stop.is_asked):
            if not stop.is_asked:
                line.begin()
            ended(line, runs.values())
    if not named:
        _note(looks, runs, began if is_full and rest and not stop.is_asked else None, is_whole=not stop.is_asked)
    return [run for run in runs.values() if run.is_begun]


def _note(looks: FullLooks, runs: Mapping[str, TableRun], began: int | None, *, is_whole: bool) -> None:
    """Note which tables were looked at, and which the next run must look at though no notice may come.

    In a run that was stopped, and is not `is_whole`, no table counts as looked at that did not before.
    """
    begun = {table: run for table, run in runs.items() if run.is_begun}
    again = [table for table, run in begun.items() if run.error is not None or run.must_be_looked_at]
    looks.note([*begun] if is_whole else (), again, began)


def settings_digests(configured: Configured, tables: Iterable[str]) -> Mapping[str, str]:
    """Return of each table a digest of the settings by which it is read."""
    own = {str(name): (str(configured.read[name]), table.source) for name, table in configured.tables.items()}
    return {table: digest_of([configured.settings.source, own.get(table)]) for table in tables}


def notices_for_others(tables: Collection[str], notices: Iterable[Notice]) -> Sequence[Notice]:
    """Return a notice for each table that has none among the notices of a queue."""
    known = {notice.table for notice in notices}
    return [Notice(table) for table in tables if table not in known]


def check(container: Container, tables: Sequence[TableName], pool: Executor) -> None:
    """Say what is wrong with the settings before any table is begun."""
    container.source(), container.target(), container.ledger(), container.statistics(), container.registration()
    # Rules may need Spark, and the thread that starts it must not be the one that signals come to: it would answer.
    pool.submit(container.rules, tables=tables).result()


def line_of(container: Container, take: Take, pool: Executor) -> Line:
    """Return the line of tables before so many hands as the settings say."""
    return Line(take, pool, container.configured().settings.pipeline.parallel)


def ended(
    line: Line, runs: Iterable[TableRun | JoinRun], seconds: float | None = None
) -> Sequence[tuple[str, Turn]]:
    """Wait until a turn ends, or so long, or until a signal may have to be answered.

    Raises SetupError where one finds that Spark cannot start: then none can.
    """
    found = line.ended(ALERT if seconds is None else min(seconds, ALERT))
    hopeless = next((run.error for run in runs if isinstance(run.error, SetupError)), None)
    if hopeless is not None:
        raise hopeless
    return found

