"""`lakeward quarantine list`, `show` and `export`: list rows that could not be applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.quarantine import settlement, unrouted_rows
from lakeward.entrypoints.commands.quarantine.export_file import Format, export
from lakeward.entrypoints.commands.quarantine.selection import BY_KEY, FILTERS, Choice, choosing
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Tables,
    choose_readable,
    container_of,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.views import documents, quarantine_tables, terminal
from lakeward.entrypoints.views.quarantine_entries import COLUMNS, QuarantinedTable, document, read_quarantine
from lakeward.entrypoints.views.safe_text import escaped

HELP = """List, fix, replay and discard rows that could not be applied.

A row whose key is known holds the key: later changes of the key wait, in order, until the row
is fixed and replayed, or discarded. Changes of other keys are applied.
"""

LIST = """List the rows in quarantine by table and reason, with what can be done.

Example: [bold]lakeward quarantine list --since 2h[/]
"""

SHOW = """Show the rows in quarantine of one table, or of one key: reason, file, row number and text.

Example: [bold]lakeward quarantine show shop.orders 9001[/]
"""

EXPORT = """Write rows in quarantine with their texts to a file, or to standard output.

Example: [bold]lakeward quarantine export shop.orders --reason unreadable --to rows.jsonl[/]
"""

Table = Annotated[str, typer.Argument(help="The table, as schema.table.")]
Out = Annotated[Path | None, typer.Option("--to", help="The file to write.", show_default="standard output")]
Form = Annotated[Format, typer.Option("--format", help="One JSON document a line, or CSV.")]


@choosing(FILTERS)
def list_entries(
    chosen: Choice,
    tables: Tables = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List rows by table and reason; return 3 if there are any."""
    every, unreadable = _read(config, tables or (), debug=debug)
    tables_shown = [_filter(quarantine, chosen) for quarantine in every]
    rows = [(quarantine, entry) for quarantine in tables_shown for entry in quarantine.entries]
    incomplete = [(quarantine, entry) for quarantine in tables_shown for entry in quarantine.incomplete]
    code = unreadable or (3 if rows else 0)
    if as_json:
        content = {"waiting": _documents(incomplete[: chosen.limit]), "exit_code": code}
        documents.emit("quarantine list", {**_list_document(rows, chosen.limit), **content})
        return code
    out = terminal.console()
    if not rows:
        quarantine_tables.print_nothing(out, is_any=chosen.is_any)
    lines = quarantine_tables.grouped(rows)
    quarantine_tables.print_groups(out, lines[: chosen.limit])
    quarantine_tables.print_more(out, len(lines) - len(lines[: chosen.limit]))
    quarantine_tables.print_waiting_groups(
        out, [quarantine for quarantine in tables_shown if quarantine.incomplete]
    )
    # The next step names a table with quarantined rows before one with partial events only.
    with_rows = [quarantine.name for quarantine in tables_shown if quarantine.entries]
    with_parts = [quarantine.name for quarantine in tables_shown if quarantine.incomplete]
    if names := [*with_rows, *with_parts]:
        out.print(f"Next: `lakeward quarantine show {escaped(str(names[0]))}`")
    return code


@choosing({**BY_KEY, **FILTERS})
def show_entries(
    table: Table, chosen: Choice, config: Config = DEFAULT_FILE, as_json: AsJson = False, debug: Debug = False
) -> int:
    """Show rows one by one; return 3 if there are any."""
    (every,), _ = _read(config, [table], debug=debug)
    quarantine = _filter(every, chosen, by_hold=True)
    entries = sorted(quarantine.entries, key=lambda entry: not entry.is_held)
    code = 3 if entries else 0
    if as_json:
        rows = [(quarantine, entry) for entry in entries]
        waiting = [(quarantine, entry) for entry in quarantine.incomplete]
        content = {"waiting": _documents(waiting[: chosen.limit]), "exit_code": code}
        documents.emit("quarantine show", {**_list_document(rows, chosen.limit), **content})
        return code
    out, page = terminal.console(), entries[: chosen.limit]
    if not entries:
        quarantine_tables.print_nothing(out, is_any=chosen.is_any)
    quarantine_tables.print_entries(out, page)
    quarantine_tables.print_more(out, len(entries) - len(page))
    quarantine_tables.print_waiting(out, quarantine.incomplete[: chosen.limit])
    quarantine_tables.print_more(out, len(quarantine.incomplete) - len(quarantine.incomplete[: chosen.limit]))
    if page:
        quarantine_tables.print_next(out, quarantine, page)
    return code


@choosing({**BY_KEY, **FILTERS})
def export_entries(
    table: Table,
    chosen: Choice,
    to: Out = None,
    form: Form = "jsonl",
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Write rows to a file or to standard output."""
    (every,), _ = _read(config, [table], debug=debug)
    quarantine = _filter(every, chosen)
    listed = _list_document([(quarantine, entry) for entry in quarantine.entries], chosen.limit)
    entries, more = listed["entries"], listed["more"]
    if as_json and to is None:
        documents.emit("quarantine export", {**listed, "exit_code": 0})
        return 0
    export(entries, COLUMNS, to, form)
    if as_json:
        documents.emit("quarantine export", {"file": str(to), "rows": len(entries), "more": more, "exit_code": 0})
    elif to is not None or more:
        out = terminal.console(stderr=True)
        out.print(f"{format_count(len(entries), 'row')} written{'' if to is None else f' to {escaped(str(to))}'}.")
        quarantine_tables.print_more(out, more)
    return 0


def _list_document(rows: Sequence[tuple[QuarantinedTable, Any]], limit: int | None) -> dict[str, Any]:
    """Return the JSON documents of rows up to a limit, and the number of rows beyond it."""
    return {"entries": _documents(rows[:limit]), "more": len(rows) - len(rows[:limit])}


def _documents(rows: Sequence[tuple[QuarantinedTable, Any]]) -> list[dict[str, Any]]:
    return [document(quarantine.name, entry, quarantine.advice(entry)) for quarantine, entry in rows]


def _filter(quarantine: QuarantinedTable, chosen: Choice, *, by_hold: bool = False) -> QuarantinedTable:
    """Return the quarantine with only the rows that match the options."""
    entries = chosen(quarantine.entries, quarantine.dimension, by_hold=by_hold)
    return replace(quarantine, entries=entries, incomplete=chosen(quarantine.incomplete, quarantine.dimension))


def _read(config: str, tables: Sequence[str], *, debug: bool) -> tuple[list[QuarantinedTable], int]:
    """Read the quarantines of tables; return them with the exit code for tables whose settings are wrong."""
    start_logging("off", debug=debug)
    configured = open_settings(config)
    with container_of(configured) as container:
        names, code = choose_readable(configured, tables)
        return [read_quarantine(container.job(table=name), incomplete=True) for name in names], code


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")
    group.command("list", help=LIST)(list_entries)
    group.command("show", help=SHOW)(show_entries)
    settlement.add_to(group)
    group.command("export", help=EXPORT)(export_entries)
    unrouted_rows.add_to(group)
    app.add_typer(group, name="quarantine")
