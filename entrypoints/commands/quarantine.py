"""`lakeward quarantine`: what could not be applied, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.mending import check_fixable, is_fixable
from lakeward.core.pipeline import Job, Report, Settlement, as_it_stands, mend, release
from lakeward.core.ports import Entry
from lakeward.entrypoints import documents, entries_view, fixfile, view
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
from lakeward.entrypoints.entries import (
    COLUMNS,
    Before,
    Choice,
    File,
    Limit,
    Reasons,
    Since,
    choice,
    document,
    named,
)
from lakeward.entrypoints.exporting import Format, export
from lakeward.entrypoints.locking import locked

HELP = """Rows that could not be applied: why, where they are from, and what becomes of them.

A row whose key is known holds the key: later changes of it wait, in order, until the row
is fixed and replayed, or discarded. Rows of other keys flow.
"""

LIST = """List what is in quarantine, table by table and reason by reason, with what can be done.

Example: [bold]lakeward quarantine list --since 2h[/]
"""

SHOW = """Show the rows in quarantine of one table, or of one key: reason, file, row number and text.

Example: [bold]lakeward quarantine show shop.orders 9001[/]
"""

FIX = """Mend rows that hold their key: write them to a file, and take the file back.

Without --from it writes a file with the cells of the rows, for a person to correct. With
--from it checks each cell as a file of the source is checked, and keeps the rows, mended,
until `replay` applies them. Name the key, one row with --at, or some with the filters.

Example: [bold]lakeward quarantine fix shop.orders 9001[/]
Example: [bold]lakeward quarantine fix shop.orders --from shop.orders.fix.toml[/]
"""

REPLAY = """Apply mended rows, and what waited behind them, in order, in one commit.

Example: [bold]lakeward quarantine replay shop.orders 9001[/]
"""

DISCARD = """Give up rows in quarantine. What waited behind them follows, in order, at once.

Name the key (for a key of several columns, one value after another), one row by its
file and row number, or some with the filters.

Example: [bold]lakeward quarantine discard shop.orders 9001[/]
Example: [bold]lakeward quarantine discard shop.orders --at 20261120-093000000.csv:88[/]
"""

EXPORT = """Write rows in quarantine with their texts to a file, or to standard output.

Example: [bold]lakeward quarantine export shop.orders --reason unreadable --to rows.jsonl[/]
"""

Table = Annotated[str, typer.Argument(help="The table, as schema.table.")]
Key = Annotated[list[str] | None, typer.Argument(help="The key.", show_default="all")]
At = Annotated[str | None, typer.Option("--at", help="One row, as FILE:ROW.")]
First = Annotated[
    int | None,
    typer.Option("--limit", "--events", min=1, help="Only the first so many rows.", show_default="all"),
]
From = Annotated[Path | None, typer.Option("--from", help="Take back a file of mended rows.")]
To = Annotated[Path | None, typer.Option("--to", help="The file to write.", show_default="TABLE.fix.toml")]
Out = Annotated[Path | None, typer.Option("--to", help="The file to write.", show_default="standard output")]
Form = Annotated[Format, typer.Option("--format", help="One JSON document a line, or CSV.")]


def list_entries(
    tables: Tables = None,
    reason: Reasons = None,
    since: Since = None,
    before: Before = None,
    file: File = None,
    limit: Limit = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List by table and reason."""
    chosen = choice(reasons=reason, since=since, before=before, file=file, limit=limit)
    found = [
        (name, entry) for name, every in _entries(config, tables or (), debug=debug) for entry in chosen(every)
    ]
    code = 3 if found else 0
    if as_json:
        shown = [document(name, entry) for name, entry in found[:limit]]
        documents.emit("quarantine list", {"entries": shown, "more": len(found) - len(shown), "exit_code": code})
        return code
    out = view.console()
    if not found:
        out.print("Nothing is in quarantine." if chosen.is_any else "Nothing of that is in quarantine.")
        return 0
    groups: dict[tuple[TableName, bool, str], list[Entry]] = {}
    for name, entry in found:
        groups.setdefault((name, not entry.is_held, entry.reason), []).append(entry)
    lines = sorted(groups.items(), key=lambda item: (item[0][1], *item[0]))
    entries_view.print_groups(out, lines[:limit])
    entries_view.print_more(out, len(lines) - len(lines[:limit]))
    out.print(f"Next: `lakeward quarantine show {escape(str(found[0][0]))}`")
    return code


def show_entries(
    table: Table,
    key: Key = None,
    at: At = None,
    reason: Reasons = None,
    since: Since = None,
    before: Before = None,
    file: File = None,
    limit: Limit = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show one by one."""
    chosen = choice(key=key, at=at, reasons=reason, since=since, before=before, file=file, limit=limit)
    ((name, every),) = _entries(config, [table], debug=debug)
    found = sorted(chosen(every), key=lambda entry: not entry.is_held)
    shown = found[:limit]
    code = 3 if found else 0
    if as_json:
        content = {"entries": [document(name, entry) for entry in shown], "more": len(found) - len(shown)}
        documents.emit("quarantine show", {**content, "exit_code": code})
        return code
    out = view.console()
    if not found:
        out.print("Nothing is in quarantine." if chosen.is_any else "Nothing of that is in quarantine.")
        return 0
    entries_view.print_entries(out, shown)
    entries_view.print_more(out, len(found) - len(shown))
    entries_view.print_next(out, name, shown)
    return code


def fix(
    table: Table,
    key: Key = None,
    at: At = None,
    from_: From = None,
    to: To = None,
    reason: Reasons = None,
    since: Since = None,
    before: Before = None,
    file: File = None,
    limit: Limit = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Write a file, or take it back."""
    chosen = choice(key=key, at=at, reasons=reason, since=since, before=before, file=file, limit=limit)
    if from_ is not None and not (chosen.is_any and limit is None and to is None):
        raise ConfigError(
            "say which rows to mend, or which file to take back: not both",
            todo="With --from the file says which rows they are.",
        )
    if from_ is None:
        _refuse_any(chosen, "mend")
    with _job(table, config, log, debug=debug, reads=from_ is None) as (name, job):
        entries = job.opened.quarantine.entries(job.opened.table.standing().progress)
        if from_ is not None:
            return _take_back(name, job, entries, from_, as_json=as_json)
        return _write(name, job, _some(name, chosen, entries), to, as_json=as_json)


def _write(name: TableName, job: Job[Any], entries: Sequence[Entry], to: Path | None, *, as_json: bool) -> int:
    """Write rows to a file for a person; those that cannot be mended are left out, unless none can."""
    dimension = as_it_stands(job, job.opened.table.standing())
    fixable = [entry for entry in entries if is_fixable(entry)]
    for entry in fixable or entries[:1]:
        check_fixable(dimension, entry)
    target = to or Path(f"{name.schema}.{name.table}.fix.toml")
    fixfile.write(dimension, [(entry, job.source.cells(job.dimension, entry)) for entry in fixable], target)
    if as_json:
        content = {"file": str(target), "entries": [document(name, entry) for entry in fixable], "exit_code": 0}
        documents.emit("quarantine fix", content)
        return 0
    out = view.console()
    out.print(f"Wrote {escape(str(target))}: {len(fixable):,} row(s) to correct.")
    if len(fixable) < len(entries):
        out.print(
            f"{len(entries) - len(fixable):,} row(s) cannot be fixed; `quarantine show` says what can be done."
        )
    command = f"lakeward quarantine fix {escape(str(name))} --from {escape(str(target))}"
    out.print(f"Next: correct the cells, then `{command}`")
    return 0


def _take_back(name: TableName, job: Job[Any], entries: Sequence[Entry], file: Path, *, as_json: bool) -> int:
    rows = fixfile.read(file, as_it_stands(job, job.opened.table.standing()))
    mended = fixfile.match(rows, entries, str(name))
    mend(job, mended)
    if as_json:
        content = {"mended": [document(name, entry) for entry in mended], "exit_code": 0}
        documents.emit("quarantine fix", content)
        return 0
    out = view.console()
    entries_view.print_done(out, "mended", mended)
    out.print(f"Next: `lakeward quarantine replay {escape(str(name))}`")
    return 0


def replay(
    table: Table,
    key: Key = None,
    at: At = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Apply what is mended."""
    chosen = choice(key=key, at=at)
    with _job(table, config, log, debug=debug) as (name, job):
        entries = chosen(job.opened.quarantine.entries(job.opened.table.standing().progress))
        mended = [entry for entry in entries if entry.mended is not None]
        if entries and not mended:
            raise ConfigError(
                f"{name}: nothing of that is mended",
                found=f"{len(entries):,} row(s) are in quarantine as they were written",
                todo=f"`lakeward quarantine fix {name} {named(entries[0])}`",
            )
        report = release(job, Settlement(mended=mended)) if mended else None
    return _settled("replay", "replayed", name, mended, report, as_json=as_json)


def discard(
    table: Table,
    key: Key = None,
    at: At = None,
    reason: Reasons = None,
    since: Since = None,
    before: Before = None,
    file: File = None,
    limit: First = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Give up."""
    chosen = choice(key=key, at=at, reasons=reason, since=since, before=before, file=file, limit=limit)
    _refuse_any(chosen, "give up")
    with _job(table, config, log, debug=debug) as (name, job):
        every = job.opened.quarantine.entries(job.opened.table.standing().progress)
        given_up = _some(name, chosen, every)
        report = release(job, Settlement(given_up=given_up))
    more = len(chosen(every)) - len(given_up)
    return _settled("discard", "given up", name, given_up, report, as_json=as_json, more=more)


def export_entries(
    table: Table,
    key: Key = None,
    at: At = None,
    to: Out = None,
    form: Form = "jsonl",
    reason: Reasons = None,
    since: Since = None,
    before: Before = None,
    file: File = None,
    limit: Limit = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Write to a file."""
    chosen = choice(key=key, at=at, reasons=reason, since=since, before=before, file=file, limit=limit)
    ((name, every),) = _entries(config, [table], debug=debug)
    found = chosen(every)
    shown = [document(name, entry) for entry in found[:limit]]
    more = len(found) - len(shown)
    if as_json and to is None:
        documents.emit("quarantine export", {"entries": shown, "more": more, "exit_code": 0})
        return 0
    export(shown, COLUMNS, to, form)
    if as_json:
        documents.emit("quarantine export", {"file": str(to), "rows": len(shown), "more": more, "exit_code": 0})
    elif to is not None or more:
        out = view.console(stderr=True)
        out.print(f"{len(shown):,} row(s) written{'' if to is None else f' to {escape(str(to))}'}.")
        entries_view.print_more(out, more)
    return 0


def _settled(
    command: str,
    word: str,
    name: TableName,
    entries: Sequence[Entry],
    report: Report | None,
    *,
    as_json: bool,
    more: int = 0,
) -> int:
    """Say what was done; without a report nothing was."""
    if as_json:
        progress = None if report is None else documents.progress(report.progress)
        content = {word.replace(" ", "_"): [document(name, entry) for entry in entries], "more": more}
        documents.emit(f"quarantine {command}", {**content, "progress": progress, "exit_code": 0})
        return 0
    out = view.console()
    if report is None:
        out.print("Nothing waits to be replayed.")
        return 0
    entries_view.print_done(out, word, entries)
    if more:
        out.print(f"… and {more:,} more are left.")
    released = report.counts.released
    settled = f"{released:,} {'row that waited is' if released == 1 else 'rows that waited are'} settled"
    out.print(f"{settled}; {report.written:,} rows written, {report.removed:,} removed")
    return 0


def _refuse_any(chosen: Choice, verb: str) -> None:
    if chosen.is_any:
        raise ConfigError(
            f"say which rows to {verb}",
            todo="Name a key, one row with --at FILE:ROW, or some with --reason, --file, --since, --before; "
            "`quarantine show` lists them.",
        )


def _some(name: TableName, chosen: Choice, entries: Sequence[Entry]) -> list[Entry]:
    found = chosen(entries)[: chosen.limit]
    if not found:
        raise ConfigError(f"{name}: nothing of that is in quarantine", todo=f"`lakeward quarantine show {name}`")
    return found


@contextmanager
def _job(
    table: str, config: Path, log: str, *, debug: bool, reads: bool = False
) -> Iterator[tuple[TableName, Job[Any]]]:
    """Open the job of one table, alone unless it only `reads`."""
    start_logging(log, debug=debug)
    configured = open_settings(config)
    (name,) = configured.choose([table])
    with nullcontext() if reads else locked(configured.state), container_of(configured) as container:
        yield name, container.job(table=name)


def _entries(config: Path, tables: Sequence[str], *, debug: bool) -> list[tuple[TableName, Sequence[Entry]]]:
    start_logging("off", debug=debug)
    configured = open_settings(config)
    with container_of(configured) as container:
        target = container.target()
        found = []
        for name in configured.choose(tables):
            opened = target.open(configured.dimension(name))
            found.append((name, opened.quarantine.entries(opened.table.standing().progress)))
        return found


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")
    group.command("list", help=LIST)(list_entries)
    group.command("show", help=SHOW)(show_entries)
    group.command("fix", help=FIX)(fix)
    group.command("replay", help=REPLAY)(replay)
    group.command("discard", help=DISCARD)(discard)
    group.command("export", help=EXPORT)(export_entries)
    app.add_typer(group, name="quarantine")
