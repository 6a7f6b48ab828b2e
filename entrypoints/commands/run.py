"""`lakeward run`: apply waiting changes, once or continuously."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeAlias

import structlog
import typer
from pluggy import PluginManager
from rich.console import Console

from lakeward.core.dimension import TableName
from lakeward.core.merge.counts import Counts
from lakeward.core.text.durations import micros_of
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.container import remake
from lakeward.entrypoints.runtime.follower import follow_pipeline
from lakeward.entrypoints.runtime.join_run import JoinRun, JoinScheduler, TableSelection, select_tables
from lakeward.entrypoints.runtime.locks.pipeline_lock import Lock, locked
from lakeward.entrypoints.runtime.locks.writer_lease import (
    WriterLease,
    exclusive_container,
    follower_lease,
    pipeline_lease,
)
from lakeward.entrypoints.runtime.pipeline_run import run_tables, worker_pool
from lakeward.entrypoints.runtime.reporting.metrics import measure_run
from lakeward.entrypoints.runtime.reporting.notifications import RunNotifications, notify_about_run
from lakeward.entrypoints.runtime.reporting.status_writeback import write_back
from lakeward.entrypoints.runtime.settings_watch import SettingsWatch
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.settings.stores import address, read_settings_of
from lakeward.entrypoints.startup import catalogue
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Log,
    Tables,
    container_of,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.startup.findings import Findings, inspect_source, layouts, store_tables
from lakeward.entrypoints.views import documents, error_groups, joined_tables, terminal
from lakeward.entrypoints.views.follow_output import FollowOutput
from lakeward.entrypoints.views.safe_text import escaped

log = structlog.get_logger()

HELP = """Apply waiting changes, batch by batch, until none wait; or follow the source until stopped.

Each batch becomes visible in one commit that also stores the progress of the table, so a run
that was stopped anywhere is continued by the next one. A table that fails stops no other. With
--follow it is tried again after a delay that doubles with each failure in a row.

Ctrl-C, SIGTERM and --max-minutes end a run after the current commit.

Example: [bold]lakeward run --once shop.customer[/]
Example: [bold]lakeward run --follow --log json[/]
"""

Once = Annotated[
    bool,
    typer.Option(
        "--once/--follow",
        help="End when nothing waits, or continue and poll the source (`poll` under \\[pipeline]).",
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        "--max-minutes",
        min=0.0,
        help="With --follow: end after this many minutes, when the current commit is done.",
    ),
]

Port = Annotated[
    int | None,
    typer.Option(
        "--metrics",
        metavar="PORT",
        min=0,
        max=65535,
        help="With --follow: serve metrics to Prometheus at this port of 127.0.0.1 (`address` under \\[metrics]).",
    ),
]


def run(
    tables: Tables = None,
    once: Once = True,
    max_minutes: Minutes = None,
    metrics: Port = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Run tables and print the result; return the exit code."""
    if once and max_minutes is not None:
        raise typer.BadParameter("--max-minutes is for --follow: a run that does not follow ends by itself.")
    if once and metrics is not None:
        raise typer.BadParameter(
            "--metrics is for --follow: a run that does not follow ends before its metrics are read."
        )
    run_id = start_logging(log, debug=debug, reports=once and not as_json)
    configured = open_settings(config, asks=True)
    wanted = select_tables(configured, tables or ())
    pipeline = _once if once else partial(_follow, place=config, port=metrics)
    result = run_until(configured, wanted, pipeline, _end_of(max_minutes))
    if as_json:
        documents.emit("run", {"run": run_id, **document(result)})
    else:
        show_all(result, is_chosen=bool(tables))
    return result.code


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run: the runs of tables and joined tables, findings about the source, and the exit code.

    `was_stopped` is True if a signal ended the run.
    """

    runs: Sequence[TableRun]
    joined: Sequence[JoinRun]
    findings: Findings
    code: int
    was_stopped: bool = False


@dataclass(frozen=True, slots=True)
class PipelineOutcome:
    """Runs of the tables, findings, and the last settings, which may have changed while a pipeline was followed."""

    configured: Configuration
    runs: Sequence[TableRun]
    joined: Sequence[JoinRun]
    findings: Findings
    follows: bool = False


PipelineFunction: TypeAlias = Callable[[Configuration, TableSelection, Stop], PipelineOutcome]
"""Runs tables once or follows them."""


def run_until(
    configured: Configuration, wanted: TableSelection, pipeline: PipelineFunction, until: float | None = None
) -> RunResult:
    """Run tables until `pipeline` returns or a stop is requested, by a signal or at the time `until`.

    `until` is in seconds of `time.monotonic`. A run that was stopped early has exit code 75, except one that
    follows, which always ends by a stop request.
    """
    stop = Stop(terminal.console(stderr=True).print, until=until)
    with stop.listening():
        outcome = pipeline(configured, wanted, stop)
        code = exit_code(outcome.runs, outcome.joined) or (3 if outcome.findings.unrouted_rows else 0)
        if not outcome.follows and stop.is_asked and code in (0, 3):
            code = 75  # tables that were not begun wait for the next run
    for run in outcome.runs:
        words = run.words_of_others(outcome.configured.source_names.get(run.table, run.table))
        run.cautions = (*outcome.findings.cautions.get(run.table, ()), *words)
    return RunResult(outcome.runs, outcome.joined, outcome.findings, code, stop.was_asked)


def run_once(
    configured: Configuration,
    wanted: TableSelection,
    manager: PluginManager | None = None,
    *,
    minutes: float | None = None,
) -> RunResult:
    """Run tables until nothing waits, at most for so many minutes; `manager` defaults to all installed plugins."""
    return run_until(configured, wanted, partial(_once, manager=manager), _end_of(minutes))


def _end_of(minutes: float | None) -> float | None:
    return None if minutes is None else time.monotonic() + 60 * minutes


def document(result: RunResult) -> Mapping[str, Any]:
    """Return the JSON document of a run, without its header."""
    joined = {"joined": [documents.join_run(run) for run in result.joined]}
    return {
        **documents.table_runs(result.runs),
        **joined,
        **documents.findings(result.findings),
        "exit_code": result.code,
    }


def show_all(result: RunResult, *, is_chosen: bool) -> None:
    """Print a run; unless tables were chosen, also print the unconfigured tables of the source."""
    show(result.runs, result.code, result.joined)
    terminal.print_warnings(result.findings.warnings)
    if not is_chosen:
        terminal.print_unconfigured(result.findings.unconfigured)


def _once(
    configured: Configuration, wanted: TableSelection, stop: Stop, manager: PluginManager | None = None
) -> PipelineOutcome:
    tables = wanted.tables
    with (
        exclusive_container(configured, manager) as container,
        terminal.Bars() as bars,
        measure_run(container) as figures,
        notify_about_run(container) as notifications,
    ):
        container.runtime().runs_once = True
        _before(configured, container, tables)
        with worker_pool(container) as pool:
            join_scheduler, every = JoinScheduler(container, wanted.joined, stop), dict[str, TableRun]()
            figures.watch(every.values(), join_scheduler.runs.values())
            runs = run_tables(container, tables, bars, stop, pool, named=wanted.named, runs=every)
            join_scheduler.refresh_all(pool)
            joined = join_scheduler.runs.values()
            findings = _after(
                container, tables, runs, joined, notifications
            )  # after the run, since reading finds more
            figures.end(runs, join_scheduler.runs.values())
            findings = findings.with_cautions(layouts(container, tables))
            return PipelineOutcome(configured, runs, [*join_scheduler.runs.values()], findings)


def _follow(
    configured: Configuration, wanted: TableSelection, stop: Stop, place: str, port: int | None = None
) -> PipelineOutcome:
    """Follow tables; the lock is released while no table runs, so that other commands can write.

    Settings stores that the settings at `place` name are read again from time to time.
    """
    with (
        locked(
            configured.state, "follow", "follows", "It goes on until it is stopped, with SIGTERM or Ctrl-C."
        ),
        locked(configured.state) as lock,
        container_of(configured) as container,
        follower_lease(container) as follower,
        pipeline_lease(container) as writer_lease,
        measure_run(container, port) as figures,
        notify_about_run(container) as notifications,
    ):

        def begin(container: Any, tables: Sequence[TableName]) -> None:
            notifications.container = container
            findings = _before(container.configured(), container, tables)
            for table, cautions in findings.with_cautions(layouts(container, tables)).cautions.items():
                for words in cautions:
                    log.warning("caution", table=str(table), what=words)

        idle = partial(_lend, lock, writer_lease, follower, stop)
        with worker_pool(container) as pool:
            watch = _watch(container, place, stop)
            observers = (watch, begin, notifications.review, figures.measure)
            outcome = follow_pipeline(container, wanted, FollowOutput(), stop, pool, idle, *observers)
            findings = _after(
                outcome.container, outcome.selection.tables, outcome.runs, outcome.joined, notifications
            )
            figures.end(outcome.runs, outcome.joined)
            return PipelineOutcome(
                outcome.container.configured(), outcome.runs, outcome.joined, findings, follows=True
            )


def _lend(
    lock: Lock, writer_lease: WriterLease | None, follower: WriterLease | None, stop: Stop, seconds: float
) -> bool:
    """Lend the lock and the lease to other processes for some seconds; return True if one may have written.

    Raises LockedError if this process has lost the lease of the follower.
    """

    def lend_lock() -> bool:
        return lock.lend(stop.pause, seconds, lambda: stop.is_asked)

    if writer_lease is None or follower is None:
        return lend_lock()
    follower.check()
    return writer_lease.lend(lend_lock, stop.pause, lambda: stop.is_asked)


def _watch(container: Any, place: str, stop: Stop) -> SettingsWatch | None:
    """Return a watch for settings in stores; None for settings in a file only, which are read at the start."""
    settings = container.configured().settings.settings
    if not settings.stores and address(place) is None:
        return None
    seconds = micros_of(settings.read_every) / 1_000_000
    return SettingsWatch(lambda: read_settings_of(place)[0], container, seconds, stop.clock, remake)


def _after(
    container: Any,
    tables: Sequence[TableName],
    runs: Sequence[TableRun],
    joined: Iterable[JoinRun],
    notifications: RunNotifications,
) -> Findings:
    """Inspect the source after a run, send notifications, and write the status of tables back; return findings."""
    findings = inspect_source(container, tables)
    failed_notifiers = notifications.tell(runs, joined, findings.unrouted_rows)
    failed_stores = write_back(container, [run for run in runs if run.table in tables])
    return replace(findings, warnings=(*findings.warnings, *failed_stores, *failed_notifiers))


def _before(configured: Configuration, container: Any, tables: Sequence[TableName]) -> Findings:
    """Store answers that are requested once per run, and inspect the source."""
    store_tables(configured)
    catalogue.store_answers(configured)
    return inspect_source(container, tables)


def exit_code(runs: Sequence[TableRun], joined: Sequence[JoinRun] = ()) -> int:
    """Return 4 if a table failed (75 if all errors are retryable), 3 if rows wait or an alarm is raised, else 0."""
    errors = [*(run.error for run in runs), *(run.error for run in joined)]
    failed = [error for error in errors if error is not None]
    if failed:
        return documents.failure_code(map(documents.error, failed))
    every_progress = [run.progress for run in runs if run.progress is not None]
    is_waiting = any(progress.held or progress.inexact_since for progress in every_progress)
    is_waiting |= any(run.awaited is not None and run.awaited.is_held_up for run in runs)
    is_alarmed = any(run.alarms for run in runs) or any(run.alarms for run in joined)
    return 3 if is_waiting or is_alarmed else 0


def show(runs: Sequence[TableRun], code: int, joined: Sequence[JoinRun] = ()) -> None:
    """Print one line per table, the sum, and the next step."""
    out = terminal.console()
    numbers = ("batches", "files", "rows")
    table = terminal.grid("table", *numbers, "", "time", right=(*numbers, "time"))
    for run in runs:
        words = terminal.count_words(run.counts) if run.batches else "nothing new"
        if run.error is not None:
            words = "[red]failed[/]" if not run.batches else f"{words} · then [red]failed[/]"
        progress = run.progress
        if progress is not None and progress.held:
            words += f" · [yellow]{format_count(progress.held, 'key')} held[/]"
        if progress is not None and progress.inexact_since:
            words += f" · [yellow]inexact since {escaped(progress.inexact_since)}[/]"
        numbers = (f"{run.batches:,}", f"{run.files:,}", f"{run.counts.read:,}")
        table.add_row(escaped(str(run.table)), *numbers, words, f"{run.seconds:.1f} s")
    out.print(table)
    total = sum((run.counts for run in runs), Counts())
    if total.read:
        out.print(terminal.sum_words(total))
    cautions = {run.table: (*run.all_cautions, *terminal.quality_words(run.warnings)) for run in runs}
    terminal.print_findings(cautions, ())
    for run in runs:
        terminal.print_awaited(run.table, run.awaited)
    sys.stdout.flush()
    error_groups.print_errors((run.table, run.error) for run in runs if run.error is not None)
    error_groups.print_alarms((run.table, alarm) for run in runs for alarm in run.alarms)
    joined_tables.print_runs(joined)
    _next(runs, code, out)


def _next(runs: Sequence[TableRun], code: int, out: Console) -> None:
    waiting = [
        run for run in runs if run.progress is not None and (run.progress.held or run.progress.inexact_since)
    ]
    if code == 3 and waiting:
        out.print(f"Next: `lakeward quarantine show {escaped(str(waiting[0].table))}`")
    elif code == 75:
        out.print("Next: `lakeward run` again")
    elif code == 4:
        out.print("Next: fix the errors above, then `lakeward run`: applied batches stay applied")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run", help=HELP)(run)
