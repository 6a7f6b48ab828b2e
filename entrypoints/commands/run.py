"""`lakeward run`: apply what waits."""

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
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.container import remake
from lakeward.entrypoints.runtime.follower import follow_pipeline
from lakeward.entrypoints.runtime.join_run import Chosen, Joining, JoinRun, chosen
from lakeward.entrypoints.runtime.locks.pipeline_lock import locked
from lakeward.entrypoints.runtime.locks.writer_lease import alone, of_follower, of_writer
from lakeward.entrypoints.runtime.pipeline_run import hands, run_tables
from lakeward.entrypoints.runtime.reporting.metrics import measuring
from lakeward.entrypoints.runtime.reporting.notifications import Notifying, notifying
from lakeward.entrypoints.runtime.reporting.status_writeback import write_back
from lakeward.entrypoints.runtime.settings_watch import SettingsWatch
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.settings.configuration import Configured
from lakeward.entrypoints.settings.models.maintenance import micros
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
from lakeward.entrypoints.startup.findings import Findings, layouts, look, remember
from lakeward.entrypoints.views import documents, error_groups, joined_tables, terminal
from lakeward.entrypoints.views.follow_output import Lines
from lakeward.entrypoints.views.safe_text import escaped

log = structlog.get_logger()

HELP = """Apply what waits, batch by batch, until nothing does; or follow the source, until it is stopped.

Each batch becomes visible in one commit that also says how far the table is: stopped
anywhere, the next run goes on there. A table that fails keeps its place and stops no other.
With --follow it is looked at again after a while, which doubles with each failure in a row.

Ctrl-C, SIGTERM and --max-minutes end a run after the commit in hand.

Example: [bold]lakeward run --once shop.customer[/]
Example: [bold]lakeward run --follow --log json[/]
"""

Once = Annotated[
    bool,
    typer.Option(
        "--once/--follow",
        help="End when nothing waits, or go on, looking again and again (`poll` under \\[pipeline]).",
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        "--max-minutes", min=0.0, help="With --follow: end after so many minutes, and the commit in hand."
    ),
]

Port = Annotated[
    int | None,
    typer.Option(
        "--metrics",
        metavar="PORT",
        min=0,
        max=65535,
        help="With --follow: let Prometheus read figures at this port of 127.0.0.1 (`address` under \\[metrics]).",
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
    """Run and report."""
    if once and max_minutes is not None:
        raise typer.BadParameter("--max-minutes is for --follow: a run that does not follow ends by itself.")
    if once and metrics is not None:
        raise typer.BadParameter("--metrics is for --follow: a run that does not follow ends before it is read.")
    run_id = start_logging(log, debug=debug, reports=once and not as_json)
    configured = open_settings(config, asks=True)
    wanted = chosen(configured, tables or ())
    way = _once if once else partial(_follow, place=config, port=metrics)
    ran = carry_out(configured, wanted, way, _end_of(max_minutes))
    if as_json:
        documents.emit("run", {"run": run_id, **document(ran)})
    else:
        show_all(ran, is_chosen=bool(tables))
    return ran.code


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that has ended: what became of the tables, what the source has, and the exit code.

    It `was_stopped` where a signal ended it before its time.
    """

    runs: Sequence[TableRun]
    joined: Sequence[JoinRun]
    found: Findings
    code: int
    was_stopped: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What became of the tables, by settings that may have changed on the way of one that `follows`."""

    configured: Configured
    runs: Sequence[TableRun]
    joined: Sequence[JoinRun]
    found: Findings
    follows: bool = False


Way: TypeAlias = Callable[[Configured, Chosen, Stop], Done]
"""How tables are run: once, or on and on."""


def carry_out(configured: Configured, wanted: Chosen, way: Way, until: float | None = None) -> Ran:
    """Run tables, until nothing waits or the run is asked to stop: by a signal, or at a time of the clock.

    One that follows ends because it is asked to, which is no reason of its own for an exit code.
    """
    stop = Stop(terminal.console(stderr=True).print, until=until)
    with stop.listening():
        done = way(configured, wanted, stop)
        code = exit_code(done.runs, done.joined) or (3 if done.found.unrouted_rows else 0)
        if not done.follows and stop.is_asked and code in (0, 3):
            code = 75  # what was not begun waits for the next run
    for run in done.runs:
        said = run.words_of_others(done.configured.read.get(run.table, run.table))
        run.cautions = (*done.found.cautions.get(run.table, ()), *said)
    return Ran(done.runs, done.joined, done.found, code, stop.was_asked)


def carry_out_once(
    configured: Configured, wanted: Chosen, manager: PluginManager | None = None, *, minutes: float | None = None
) -> Ran:
    """Run tables until nothing waits, or for so many minutes, with the plugins of a manager or of a new one."""
    return carry_out(configured, wanted, partial(_once, manager=manager), _end_of(minutes))


def _end_of(minutes: float | None) -> float | None:
    return None if minutes is None else time.monotonic() + 60 * minutes


def document(ran: Ran) -> Mapping[str, Any]:
    """Return a run as programs get it."""
    joined = {"joined": [documents.join_run(run) for run in ran.joined]}
    return {**documents.table_runs(ran.runs), **joined, **documents.findings(ran.found), "exit_code": ran.code}


def show_all(ran: Ran, *, is_chosen: bool) -> None:
    """Print a run, and of the source what nobody configured, unless tables were chosen."""
    show(ran.runs, ran.code, ran.joined)
    terminal.print_warnings(ran.found.warnings)
    if not is_chosen:
        terminal.print_unconfigured(ran.found.unconfigured)


def _once(configured: Configured, wanted: Chosen, stop: Stop, manager: PluginManager | None = None) -> Done:
    tables = wanted.tables
    with (
        alone(configured, manager) as container,
        terminal.Bars() as bars,
        measuring(container) as figures,
        notifying(container) as people,
    ):
        container.runtime().runs_once = True
        _before(configured, container, tables)
        with hands(container) as pool:
            joining, every = Joining(container, wanted.joined, stop), dict[str, TableRun]()
            figures.watch(every.values(), joining.runs.values())
            runs = run_tables(container, tables, bars, stop, pool, named=wanted.named, runs=every)
            joining.all(pool)
            found = _after(container, tables, runs, joining.runs.values(), people)  # what was read shows more
            figures.end(runs, joining.runs.values())
            found = found.with_cautions(layouts(container, tables))
            return Done(configured, runs, [*joining.runs.values()], found)


def _follow(configured: Configured, wanted: Chosen, stop: Stop, place: str, port: int | None = None) -> Done:
    """Follow, with the lock lent while nothing is in hand: other commands of the pipeline can have it then.

    Settings of the stores that the settings at a `place` name are read again from time to time.
    """
    with (
        locked(configured.state, "follow", "follows", "It goes on until it is stopped, with SIGTERM or Ctrl-C."),
        locked(configured.state) as lock,
        container_of(configured) as container,
        of_follower(container) as follows,
        of_writer(container) as tenure,
        measuring(container, port) as figures,
        notifying(container) as people,
    ):

        def begin(container: Any, tables: Sequence[TableName]) -> None:
            people.container = container
            found = _before(container.configured(), container, tables)
            for table, said in found.with_cautions(layouts(container, tables)).cautions.items():
                for words in said:
                    log.warning("caution", table=str(table), what=words)

        def idle(seconds: float) -> bool:
            def lend() -> bool:
                return lock.lend(stop.pause, seconds, lambda: stop.is_asked)

            if tenure is None or follows is None:
                return lend()
            follows.check()
            return tenure.lend(lend, stop.pause, lambda: stop.is_asked)

        with hands(container) as pool:
            watch = _watch(container, place, stop)
            looking = (watch, begin, people.review, figures.measure)
            ended = follow_pipeline(container, wanted, Lines(), stop, pool, idle, *looking)
            found = _after(ended.container, ended.chosen.tables, ended.runs, ended.joined, people)
            figures.end(ended.runs, ended.joined)
            return Done(ended.container.configured(), ended.runs, ended.joined, found, follows=True)


def _watch(container: Any, place: str, stop: Stop) -> SettingsWatch | None:
    """Return what reads the settings again, where they are in stores; a file alone counts until the next start."""
    said = container.configured().settings.settings
    if not said.stores and address(place) is None:
        return None
    return SettingsWatch(
        lambda: read_settings_of(place)[0], container, micros(said.read_every) / 1_000_000, stop.clock, remake
    )


def _after(
    container: Any,
    tables: Sequence[TableName],
    runs: Sequence[TableRun],
    joined: Iterable[JoinRun],
    people: Notifying,
) -> Findings:
    """Look at what the source has once tables are done, write down how they were left, and tell who is to know."""
    found = look(container, tables)
    told = people.tell(runs, joined, found.unrouted_rows)
    left = write_back(container, [run for run in runs if run.table in tables])
    return replace(found, warnings=(*found.warnings, *left, *told))


def _before(configured: Configured, container: Any, tables: Sequence[TableName]) -> Findings:
    """Write down what is asked once a run, and look at what the source has."""
    remember(configured)
    catalogue.remember(configured)
    return look(container, tables)


def exit_code(runs: Sequence[TableRun], joined: Sequence[JoinRun] = ()) -> int:
    """Return 4 where a table failed (75 where each may be tried again), 3 where something waits or is alarmed."""
    errors = [*(run.error for run in runs), *(run.error for run in joined)]
    failed = [error for error in errors if error is not None]
    if failed:
        return documents.failure_code(map(documents.error, failed))
    standing = [run.progress for run in runs if run.progress is not None]
    is_waiting = any(progress.held or progress.inexact_since for progress in standing)
    is_waiting |= any(run.awaited is not None and run.awaited.is_held_up for run in runs)
    is_alarmed = any(run.alarms for run in runs) or any(run.alarms for run in joined)
    return 3 if is_waiting or is_alarmed else 0


def show(runs: Sequence[TableRun], code: int, joined: Sequence[JoinRun] = ()) -> None:
    """Print a line a table, the sum, and the next step."""
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
        out.print("Next: mend what is said above, then `lakeward run`: what is done stays done")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run", help=HELP)(run)
