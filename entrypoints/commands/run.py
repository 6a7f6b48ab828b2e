"""`lakeward run`: apply what waits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from lakeward.core.counts import Counts
from lakeward.entrypoints import catalogue, documents, view
from lakeward.entrypoints.context import (
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
from lakeward.entrypoints.findings import look, remember
from lakeward.entrypoints.locking import locked
from lakeward.entrypoints.printable import escaped
from lakeward.entrypoints.run import Stop, TableRun, run_tables

HELP = """Apply what waits, table by table, batch by batch, until nothing does.

Each batch becomes visible in one commit that also says how far the table is: stopped
anywhere, the next run goes on there. A table that fails keeps its place and stops no other.

Example: [bold]lakeward run --once shop.customer[/]
"""

Once = Annotated[bool, typer.Option("--once", help="End when nothing waits; there is no other way yet.")]


def run(
    tables: Tables = None,
    once: Once = True,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Run and report."""
    run_id = start_logging(log, debug=debug)
    configured = open_settings(config, asks=True)
    chosen = configured.choose(tables or ())
    out = view.console(stderr=True)
    stop = Stop(out.print)
    with locked(configured.state), container_of(configured) as container, view.Bars() as bars:
        remember(configured)
        catalogue.remember(configured)
        found = look(container, chosen)
        runs = run_tables(container, chosen, bars, stop)
    for run in runs:
        run.cautions = found.cautions.get(run.table, ())
    code = exit_code(runs)
    if stop.asked.is_set() and code in (0, 3):
        code = 75  # what was not begun waits for the next run
    if as_json:
        documents.emit(
            "run", {"run": run_id, **documents.table_runs(runs), **documents.findings(found), "exit_code": code}
        )
    else:
        show(runs, code)
        view.print_warnings(found.warnings)
        if not tables:
            view.print_unconfigured(found.unconfigured)
    return code


def exit_code(runs: Sequence[TableRun]) -> int:
    """Return 4 where a table failed (75 where each may be tried again), 3 where something waits or is alarmed."""
    failed = [run.error for run in runs if run.error is not None]
    if failed:
        return 75 if all(getattr(error, "retryable", False) for error in failed) else 4
    standing = [run.progress for run in runs if run.progress is not None]
    is_waiting = any(progress.held or progress.inexact_since for progress in standing)
    is_waiting |= any(run.awaited is not None and run.awaited.is_held_up for run in runs)
    return 3 if is_waiting or any(run.alarms for run in runs) else 0


def show(runs: Sequence[TableRun], code: int) -> None:
    """Print a line a table, the sum, and the next step."""
    out = view.console()
    table = view.grid("table", "batches", "files", "rows", "", "time", right=("batches", "files", "rows", "time"))
    for run in runs:
        files = sum(len(report.plan.facts.objects) for report in run.reports)
        words = view.count_words(run.counts) if run.reports else "nothing new"
        if run.error is not None:
            words = "[red]failed[/]" if not run.reports else f"{words} · then [red]failed[/]"
        progress = run.progress
        if progress is not None and progress.held:
            words += f" · [yellow]{progress.held:,} key(s) held[/]"
        if progress is not None and progress.inexact_since:
            words += f" · [yellow]inexact since {escaped(progress.inexact_since)}[/]"
        numbers = (f"{len(run.reports):,}", f"{files:,}", f"{run.counts.read:,}")
        table.add_row(escaped(str(run.table)), *numbers, words, f"{run.seconds:.1f} s")
    out.print(table)
    total = sum((run.counts for run in runs), Counts())
    if total.read:
        out.print(view.sum_words(total))
    for run in runs:
        for words in (*run.cautions, *view.quality_words(run.warnings)):
            out.print(f"[yellow]⚠[/] {escaped(str(run.table))}: {escaped(words)}")
        view.print_awaited(run.table, run.awaited)
    for run in runs:
        if run.error is not None:
            sys.stdout.flush()
            view.print_error(run.error)
        view.print_alarms(run.alarms)
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
