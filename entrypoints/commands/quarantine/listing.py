"""`lakeward quarantine list`, `show` and `export`: rows that could not be applied."""

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
from lakeward.entrypoints.views.quarantine_entries import COLUMNS, Kept, document, kept_of
from lakeward.entrypoints.views.safe_text import escaped

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
    """List by table and reason."""
    every, passed_over = _kept(config, tables or (), debug=debug)
    found = [_chosen(kept, chosen) for kept in every]
    rows = [(kept, entry) for kept in found for entry in kept.entries]
    incomplete = [(kept, entry) for kept in found for entry in kept.incomplete]
    code = passed_over or (3 if rows else 0)
    if as_json:
        content = {"waiting": _documents(incomplete[: chosen.limit]), "exit_code": code}
        documents.emit("quarantine list", {**_listed(rows, chosen.limit), **content})
        return code
    out = terminal.console()
    if not rows:
        quarantine_tables.print_nothing(out, is_any=chosen.is_any)
    lines = quarantine_tables.grouped(rows)
    quarantine_tables.print_groups(out, lines[: chosen.limit])
    quarantine_tables.print_more(out, len(lines) - len(lines[: chosen.limit]))
    quarantine_tables.print_waiting_groups(out, [kept for kept in found if kept.incomplete])
    waits = sorted((kept for kept in found if kept.entries or kept.incomplete), key=lambda kept: not kept.entries)
    if named := [kept.name for kept in waits]:
        out.print(f"Next: `lakeward quarantine show {escaped(str(named[0]))}`")
    return code


@choosing({**BY_KEY, **FILTERS})
def show_entries(
    table: Table, chosen: Choice, config: Config = DEFAULT_FILE, as_json: AsJson = False, debug: Debug = False
) -> int:
    """Show one by one."""
    (every,), _ = _kept(config, [table], debug=debug)
    kept = _chosen(every, chosen, by_hold=True)
    found = sorted(kept.entries, key=lambda entry: not entry.is_held)
    code = 3 if found else 0
    if as_json:
        rows, waiting = [(kept, entry) for entry in found], [(kept, entry) for entry in kept.incomplete]
        content = {"waiting": _documents(waiting[: chosen.limit]), "exit_code": code}
        documents.emit("quarantine show", {**_listed(rows, chosen.limit), **content})
        return code
    out, shown = terminal.console(), found[: chosen.limit]
    if not found:
        quarantine_tables.print_nothing(out, is_any=chosen.is_any)
    quarantine_tables.print_entries(out, shown)
    quarantine_tables.print_more(out, len(found) - len(shown))
    quarantine_tables.print_waiting(out, kept.incomplete[: chosen.limit])
    quarantine_tables.print_more(out, len(kept.incomplete) - len(kept.incomplete[: chosen.limit]))
    if shown:
        quarantine_tables.print_next(out, kept, shown)
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
    """Write to a file."""
    (every,), _ = _kept(config, [table], debug=debug)
    kept = _chosen(every, chosen)
    listed = _listed([(kept, entry) for entry in kept.entries], chosen.limit)
    shown, more = listed["entries"], listed["more"]
    if as_json and to is None:
        documents.emit("quarantine export", {**listed, "exit_code": 0})
        return 0
    export(shown, COLUMNS, to, form)
    if as_json:
        documents.emit("quarantine export", {"file": str(to), "rows": len(shown), "more": more, "exit_code": 0})
    elif to is not None or more:
        out = terminal.console(stderr=True)
        out.print(f"{format_count(len(shown), 'row')} written{'' if to is None else f' to {escaped(str(to))}'}.")
        quarantine_tables.print_more(out, more)
    return 0


def _listed(rows: Sequence[tuple[Kept, Any]], limit: int | None) -> dict[str, Any]:
    """Return rows as programs get them, and how many a limit leaves out."""
    return {"entries": _documents(rows[:limit]), "more": len(rows) - len(rows[:limit])}


def _documents(rows: Sequence[tuple[Kept, Any]]) -> list[dict[str, Any]]:
    return [document(kept.name, entry, kept.advice(entry)) for kept, entry in rows]


def _chosen(kept: Kept, chosen: Choice, *, by_hold: bool = False) -> Kept:
    """Return what is meant of what is in quarantine."""
    entries = chosen(kept.entries, kept.dimension, by_hold=by_hold)
    return replace(kept, entries=entries, incomplete=chosen(kept.incomplete, kept.dimension))


def _kept(config: str, tables: Sequence[str], *, debug: bool) -> tuple[list[Kept], int]:
    start_logging("off", debug=debug)
    configured = open_settings(config)
    with container_of(configured) as container:
        names, code = choose_readable(configured, tables)
        return [kept_of(container.job(table=name), incomplete=True) for name in names], code


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")
    group.command("list", help=LIST)(list_entries)
    group.command("show", help=SHOW)(show_entries)
    settlement.add_to(group)
    group.command("export", help=EXPORT)(export_entries)
    unrouted_rows.add_to(group)
    app.add_typer(group, name="quarantine")
