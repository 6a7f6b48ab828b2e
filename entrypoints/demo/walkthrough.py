"""The demo from beginning to end, with output for each step."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lakeward.adapters.sources.dms.paths.file_names import read_name
from lakeward.adapters.spark.session.jars import fetch, locked
from lakeward.adapters.spark.session.java import check_java, check_spark
from lakeward.core import progress as core
from lakeward.core.merge.counts import Counts
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.demo.capture import Captured, capture
from lakeward.entrypoints.demo.folder import DATABASE, FILES_PER_BATCH, LAKE, LANDING, make_folder
from lakeward.entrypoints.demo.lakes import LAKES
from lakeward.entrypoints.demo.run_process import Committed, Run
from lakeward.entrypoints.demo.shop import LONGEST_PAUSE, TABLES, Shop
from lakeward.entrypoints.demo.verdict import Verdict, compare
from lakeward.entrypoints.runtime.locks import pipeline_lock
from lakeward.entrypoints.settings.configuration import FILE, Configuration, load
from lakeward.entrypoints.startup.context import container_of
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

_DIFFERENCES_SHOWN: Final = 5
_FAILED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of the demo."""

    folder: Path
    format: str
    transactions: int
    seed: int
    again: bool
    as_json: bool


def play(options: DemoOptions) -> int:
    """Play the demo; return 0 only if the lake equals the database."""
    check_spark()
    check_java()
    lake = LAKES[options.format](options.folder / LAKE)
    for jar in locked(lake.jars):
        fetch(jar, terminal.Download(jar.file, jar.size))
    make_folder(options.folder, options.format, again=options.again)
    out = terminal.console(stderr=options.as_json)
    opened = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=options.transactions * LONGEST_PAUSE)
    shop = Shop(options.folder / DATABASE, options.seed, opened)
    with closing(shop.database):
        captured = capture(shop, options.folder / LANDING, options.transactions)
        _print_captured(out, options, shop, captured)
        configured = load(options.folder / FILE)
        code, commits = _run_twice(out, options.folder, configured)
        if code:
            return code
        with closing(lake):
            verdicts = [compare(table, shop.database.rows(table), lake.rows(table)) for table in TABLES]
            readers = lake.examples()
    progress_by_table = _progress_by_table(configured)
    code = _FAILED if any(verdict.differences for verdict in verdicts) else 0
    _print_verdict(out, verdicts, sum((table.totals for table in progress_by_table.values()), Counts()))
    if options.as_json:
        documents.emit("demo", _document(options, captured, commits, verdicts, progress_by_table, code))
    elif not code:
        _print_readers(out, options.folder, readers)
    return code


# The runs.


def _run_twice(out: Console, folder: Path, configured: Configuration) -> tuple[int, int]:
    """Run, kill the run after a third of its commits, run again; return exit code and commits before the kill."""
    batches = _batches(folder)
    total = sum(batches.values())
    commits_before_kill = max(1, total // 3)
    out.print(f"`lakeward run --once`, {FILES_PER_BATCH} files a batch:")
    with _bar(out) as bar, Run(folder) as run:
        task = bar.add_task("starting Spark", total=total)
        commits = 0
        for commit in islice(run.commits(), commits_before_kill):
            commits += 1
            _print_commit(out, commit, batches)
            bar.update(task, description="committed", completed=commits)
        if commits < commits_before_kill:
            return _print_failure(out, run), commits
        run.kill()
    with pipeline_lock.locked(configured.state):
        reached = sum(progress.batch for progress in _progress_by_table(configured).values())
    kill_words = (
        f"[bold]Killed[/] (SIGKILL) in the middle: {reached} of {total} batches are in the lake, the lock is free."
    )
    out.print(f"{kill_words}\n`lakeward run --once` again:")
    with _bar(out) as bar, Run(folder) as run:
        task = bar.add_task("starting Spark", total=total, completed=reached)
        for commit in run.commits():
            _print_commit(out, commit, batches)
            bar.update(task, description="committed", advance=1)
        code = run.wait()
        return (_print_failure(out, run) if code else 0), commits


def _batches(folder: Path) -> Mapping[str, int]:
    """Return the number of batches of each table."""
    files = {str(table.name): len(_files(folder, table.name.table)) for table in TABLES}
    return {name: -(-number // FILES_PER_BATCH) for name, number in files.items()}


def _files(folder: Path, table: str) -> list[Path]:
    return list((folder / LANDING).glob(f"*/{table}/*"))


def _progress_by_table(configured: Configuration) -> Mapping[str, core.Progress]:
    """Return the progress of each table by its last commit."""
    with container_of(configured) as container:
        target = container.target()
        return {
            str(name): target.open(configured.dimension(name)).table.state().progress
            for name in configured.tables
        }


# Output for people.


def _bar(out: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=out,
        disable=not out.is_terminal,
        transient=True,
    )


def _print_captured(out: Console, options: DemoOptions, shop: Shop, captured: Captured) -> None:
    folder = escaped(str(options.folder))
    names = [read_name(path.name) for table in TABLES for path in _files(options.folder, table.name.table)]
    loads = sum(name is not None and name.is_load for name in names)
    out.print(
        f"A shop lived in {folder}/{DATABASE}: {len(TABLES)} tables, {shop.transactions:,} transactions, "
        f"{shop.rolled_back:,} of them rolled back."
    )
    out.print(f"What AWS DMS writes of it is in {folder}/{LANDING}, {len(names):,} files:")
    out.print(
        f"  full load  {captured.load_rows:,} rows in {loads:,} files, read while {captured.during_load:,} "
        "transactions went on"
    )
    out.print(
        f"  changes    {captured.changes:,} in {len(names) - loads:,} files · {captured.ties:,} times several of a "
        f"key at one commit time · {captured.inserted_again:,} keys inserted again after a delete"
    )


def _print_commit(out: Console, commit: Committed, batches: Mapping[str, int]) -> None:
    width = max(map(len, batches))
    of = f"batch {commit.batch} of {batches[commit.table]}"
    words = terminal.count_words(commit.counts)
    out.print(f"  {escaped(commit.table):<{width}}  {of}  {commit.counts.read:>4,} rows: {words}")


def _print_failure(out: Console, run: Run) -> int:
    """Print the output of a failed run, and return its exit code."""
    code = run.wait()
    for line in run.output:
        out.print(line, markup=False, soft_wrap=True)
    return code or _FAILED


def _print_verdict(out: Console, verdicts: Sequence[Verdict], counts: Counts) -> None:
    out.print(terminal.sum_words(counts))
    grid = terminal.grid("table", "in the database", "in the lake", "differences", right=_COLUMNS)
    for verdict in verdicts:
        numbers = (verdict.in_database, verdict.in_lake, len(verdict.differences))
        grid.add_row(escaped(str(verdict.table.name)), *(f"{number:,}" for number in numbers))
    out.print(grid)
    differences = [(verdict.table, d) for verdict in verdicts for d in verdict.differences]
    if not differences:
        rows = sum(verdict.in_database for verdict in verdicts)
        out.print(f"[bold green]The lake equals the database[/]: {rows:,} rows, compared cell by cell.")
        return
    rows_differ = format_count(len(differences), "row")
    out.print(f"[bold red]The lake differs from the database[/] in {rows_differ}. Please report it.")
    for table, d in differences[:_DIFFERENCES_SHOWN]:
        out.print(f"  {table.name} {d.key}\n    database {d.in_database}\n    lake     {d.in_lake}", markup=False)


_COLUMNS: Final = ("in the database", "in the lake", "differences")


def _print_readers(out: Console, folder: Path, readers: Mapping[str, Sequence[str]]) -> None:
    out.print(
        f"\nGo on: `cd {shlex.quote(str(folder))}`, then `lakeward status`, `lakeward plan`; settings in {FILE}."
    )
    for reader, lines in readers.items():
        out.print(f"\n{reader}:")
        out.print("\n".join(f"  {line}" for line in lines), markup=False, soft_wrap=True)


# The JSON document.


def _document(
    options: DemoOptions,
    captured: Captured,
    commits: int,
    verdicts: Sequence[Verdict],
    progress_by_table: Mapping[str, core.Progress],
    code: int,
) -> dict[str, Any]:
    return {
        "folder": str(options.folder),
        "format": options.format,
        "seed": options.seed,
        "transactions": options.transactions,
        "captured": asdict(captured),
        "commits_before_kill": commits,
        "tables": [
            {
                "table": str(verdict.table.name),
                "in_database": verdict.in_database,
                "in_lake": verdict.in_lake,
                "differences": len(verdict.differences),
                **documents.progress(progress_by_table[str(verdict.table.name)]),
            }
            for verdict in verdicts
        ],
        "exit_code": code,
    }
