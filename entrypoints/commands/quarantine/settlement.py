"""`lakeward quarantine fix`, `replay` and `discard`: settle rows in quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.pipeline.job import Job, Report, Settlement
from lakeward.core.pipeline.release import find_readable, find_replayable, release, repair_row
from lakeward.core.ports import Entry
from lakeward.core.quarantine.repair import check_fixable
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.quarantine import fix_file
from lakeward.entrypoints.commands.quarantine.selection import BY_KEY, FILTERS, Choice, First, choosing
from lakeward.entrypoints.runtime.locks.writer_lease import exclusive_container
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Log,
    container_of,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.views import documents, quarantine_tables, terminal
from lakeward.entrypoints.views.quarantine_entries import QuarantinedTable, document, named, read_quarantine
from lakeward.entrypoints.views.safe_text import escaped

FIX = """Repair rows that hold their key: write them to a file, and read the corrected file back.

Without --from it writes a file with the cells of the rows, to be corrected. With --from it
checks each cell as cells of the source are checked, and stores the repaired rows until
`replay` applies them. Name the key, one row with --at, or some with the filters.

Example: [bold]lakeward quarantine fix shop.orders 9001[/]
Example: [bold]lakeward quarantine fix shop.orders --from shop.orders.fix.toml[/]
"""

REPLAY = """Apply repaired rows, and the changes that waited behind them, in order, in one commit.

Some rows can be applied without a repair: those with a changed column once the table may follow the
change, and those with an unfitting value, an unknown operation or a broken rule once the settings fit.

Example: [bold]lakeward quarantine replay shop.orders 9001[/]
"""

DISCARD = """Discard rows in quarantine, and apply the changes that waited behind them, in order.

Name the key (for a key of several columns, one value after another), one row by its
file and row number, or some with the filters.

Example: [bold]lakeward quarantine discard shop.orders 9001[/]
Example: [bold]lakeward quarantine discard shop.orders --at 20261120-093000000.csv:88[/]
"""

Table = Annotated[str, typer.Argument(help="The table, as schema.table.")]
From = Annotated[Path | None, typer.Option("--from", help="Read a file of repaired rows.")]
To = Annotated[Path | None, typer.Option("--to", help="The file to write.", show_default="TABLE.fix.toml")]


@choosing({**BY_KEY, **FILTERS})
def fix(
    table: Table,
    chosen: Choice,
    from_: From = None,
    to: To = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Write rows to a file, or read the corrected file back."""
    if from_ is not None and not (chosen.is_any and chosen.limit is None and to is None):
        raise ConfigError(
            "a selection of rows and --from cannot be combined",
            todo="Leave the selection out: with --from the file names the rows.",
        )
    if from_ is None:
        _refuse_any(chosen, "fix")
    with _job(table, config, log, debug=debug, reads=from_ is None) as job:
        quarantine = read_quarantine(job)
        if from_ is not None:
            return _read_back(job, quarantine, from_, as_json=as_json)
        return _write(job, quarantine, _select(quarantine, chosen), to, as_json=as_json)


def _write(
    job: Job[Any], quarantine: QuarantinedTable, entries: Sequence[Entry], to: Path | None, *, as_json: bool
) -> int:
    """Write the rows that can be fixed to a file; raises RepairError if none can be fixed."""
    name, rows = quarantine.name, quarantine.at_the_source()
    fixable = [entry for entry in entries if quarantine.is_fixable(entry)]
    for entry in fixable or entries[:1]:
        check_fixable(rows, entry)
    target = to or Path(f"{name.schema}.{name.table}.fix.toml")
    # Declared columns are those of the files; without them the columns of the table are used.
    read = job.dimension if len(job.dimension.schema) else quarantine.dimension
    fix_file.write(rows, [(entry, job.source.cells(read, entry)) for entry in fixable], target)
    if as_json:
        content = {"file": str(target), "entries": [document(name, entry) for entry in fixable], "exit_code": 0}
        documents.emit("quarantine fix", content)
        return 0
    out = terminal.console()
    out.print(f"Wrote {escaped(str(target))}: {format_count(len(fixable), 'row')} to correct.")
    if len(fixable) < len(entries):
        out.print(
            f"{format_count(len(entries) - len(fixable), 'row')} cannot be fixed; `quarantine show` says why."
        )
    command = f"lakeward quarantine fix {escaped(str(name))} --from {escaped(str(target))}"
    out.print(f"Next: correct the cells, then `{command}`")
    return 0


def _read_back(job: Job[Any], quarantine: QuarantinedTable, file: Path, *, as_json: bool) -> int:
    repaired = fix_file.match(fix_file.read(file, quarantine.dimension), quarantine.entries, str(quarantine.name))
    repair_row(job, repaired)
    if as_json:
        content = {"repaired": [document(quarantine.name, entry) for entry in repaired], "exit_code": 0}
        documents.emit("quarantine fix", content)
        return 0
    out = terminal.console()
    quarantine_tables.print_done(out, "repaired", repaired)
    out.print(f"Next: `lakeward quarantine replay {escaped(str(quarantine.name))}`")
    return 0


@choosing(BY_KEY)
def replay(
    table: Table,
    chosen: Choice,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Apply repaired rows, and rows that can be applied as written."""
    with _job(table, config, log, debug=debug) as job:
        quarantine = read_quarantine(job)
        entries = chosen(quarantine.entries, quarantine.dimension)
        readable = find_readable(job, entries)
        read = {entry.position for entry in readable}
        repaired = [*find_replayable(job, [entry for entry in entries if entry.position not in read]), *readable]
        if entries and not repaired:
            raise _nothing_to_replay(quarantine, entries)
        report = release(job, Settlement(repaired=repaired)) if repaired else None
    applied = {entry.position for entry in repaired}
    remaining = [entry for entry in entries if entry.position not in applied]
    more = len(remaining)
    code = _report_settlement("replay", "replayed", quarantine.name, repaired, report, as_json=as_json, more=more)
    if remaining and not as_json:
        terminal.console().print(f"Not replayed, {_UNDER_SETTINGS}: {_reasons(remaining)}.")
    return code


_UNDER_SETTINGS: Final = "not readable under the current settings"


def _nothing_to_replay(quarantine: QuarantinedTable, entries: Sequence[Entry]) -> ConfigError:
    """Return the error that no row can be replayed; it says what to do about the first row that can be fixed."""
    fixable = next((entry for entry in entries if quarantine.is_fixable(entry)), None)
    if fixable is not None:
        todo = f"`lakeward quarantine fix {quarantine.name} {named(fixable)}`"
    else:
        advice = quarantine.advice(entries[0])
        todo = f"{advice[0].upper()}{advice[1:]}. To discard it: `lakeward quarantine discard {quarantine.name} "
        todo += f"{named(entries[0])}`."
    return ConfigError(
        f"{quarantine.name}: no row can be replayed",
        found=f"{_UNDER_SETTINGS}: {_reasons(entries)}",
        todo=todo,
    )


def _reasons(entries: Sequence[Entry]) -> str:
    """Return the number of rows of each reason as text."""
    counted = Counter(entry.reason for entry in entries)
    return ", ".join(f"{rows:,} {reason}" for reason, rows in sorted(counted.items()))


@choosing({**BY_KEY, **FILTERS, "limit": First})
def discard(
    table: Table,
    chosen: Choice,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Discard rows."""
    _refuse_any(chosen, "discard")
    with _job(table, config, log, debug=debug) as job:
        quarantine = read_quarantine(job)
        discarded = _select(quarantine, chosen)
        report = release(job, Settlement(discarded=discarded))
    more = len(chosen(quarantine.entries, quarantine.dimension)) - len(discarded)
    return _report_settlement(
        "discard", "discarded", quarantine.name, discarded, report, as_json=as_json, more=more
    )


_FIELDS: Final = {"replay": "replayed", "discard": "given_up"}
"""The field of the JSON document with the settled rows, by command."""


def _report_settlement(
    command: Literal["replay", "discard"],
    word: str,
    name: TableName,
    entries: Sequence[Entry],
    report: Report | None,
    *,
    as_json: bool,
    more: int = 0,
) -> int:
    """Print what was done; without a report nothing was."""
    if as_json:
        progress = None if report is None else documents.progress(report.progress)
        content = {_FIELDS[command]: [document(name, entry) for entry in entries], "more": more}
        documents.emit(f"quarantine {command}", {**content, "progress": progress, "exit_code": 0})
        return 0
    out = terminal.console()
    if report is None:
        out.print("Nothing waits to be replayed.")
        return 0
    quarantine_tables.print_done(out, word, entries)
    if more:
        out.print(f"… and {format_count(more, 'more is', 'more are')} left.")
    released = report.counts.released
    sentence = f"{format_count(released, 'row that waited is', 'rows that waited are')} settled"
    out.print(f"{sentence}; {format_count(report.written, 'row')} written, {report.removed:,} removed")
    return 0


def _refuse_any(chosen: Choice, verb: str) -> None:
    if chosen.is_any:
        raise ConfigError(
            f"say which rows to {verb}",
            todo="Name a key, one row with --at FILE:ROW, or some with --reason, --file, --since, --before; "
            "`quarantine show` lists them.",
        )


def _select(quarantine: QuarantinedTable, chosen: Choice) -> list[Entry]:
    """Return the rows that match the options, up to the limit; raises ConfigError if none match."""
    entries = chosen(quarantine.entries, quarantine.dimension)[: chosen.limit]
    if not entries:
        raise ConfigError(
            f"{quarantine.name}: no row in quarantine matches",
            todo=f"`lakeward quarantine show {quarantine.name}`",
        )
    return entries


@contextmanager
def _job(table: str, config: str, log: str, *, debug: bool, reads: bool = False) -> Iterator[Job[Any]]:
    """Open the job of one table, with the lock of the pipeline unless it only `reads`."""
    start_logging(log, debug=debug)
    configured = open_settings(config)
    (name,) = configured.choose([table])
    with container_of(configured) if reads else exclusive_container(configured) as container:
        yield container.job(table=name)


def add_to(group: typer.Typer) -> None:
    """Add the commands to their group."""
    group.command("fix", help=FIX)(fix)
    group.command("replay", help=REPLAY)(replay)
    group.command("discard", help=DISCARD)(discard)
