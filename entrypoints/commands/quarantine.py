"""`lakeward quarantine`: what could not be applied, and giving it up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from lakeward.core.errors import ConfigError
from lakeward.core.pipeline import Settlement, release
from lakeward.entrypoints import documents, view
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
from lakeward.entrypoints.locking import locked

HELP = """Rows that could not be applied: why, where they are from, and giving them up.

A row whose key is known holds the key: later changes of it wait, in order, until the row
is given up. Rows of other keys flow.
"""

LIST = """List what is in quarantine, table by table and reason by reason.

Example: [bold]lakeward quarantine list[/]
"""

SHOW = """Show the rows in quarantine of one table, or of one key: reason, file, row number and text.

Example: [bold]lakeward quarantine show shop.orders 9001[/]
"""

DISCARD = """Give up rows in quarantine. What waited behind them follows, in order, at once.

Name the key (for a key of several columns, one value after another), or one row by its
file and row number.

Example: [bold]lakeward quarantine discard shop.orders 9001[/]
Example: [bold]lakeward quarantine discard shop.orders --at 20261120-093000000.csv:88[/]
"""

Table = Annotated[str, typer.Argument(help="The table, as schema.table.")]
Key = Annotated[list[str] | None, typer.Argument(help="The key.", show_default="all")]
At = Annotated[str | None, typer.Option("--at", help="One row, as FILE:ROW.")]
Events = Annotated[int | None, typer.Option(min=1, help="Only the first so many rows.", show_default="all")]


def list_entries(
    tables: Tables = None, config: Config = DEFAULT_FILE, as_json: AsJson = False, debug: Debug = False
) -> int:
    """List by table and reason."""
    found = _entries(config, tables or (), debug=debug)
    code = 3 if any(entries for _, entries in found) else 0
    if as_json:
        listed = [_document(name, entry) for name, entries in found for entry in entries]
        documents.emit("quarantine list", {"entries": listed, "exit_code": code})
        return code
    table = view.grid("table", "reason", "rows", "keys", "waiting", "since", right=("rows", "keys", "waiting"))
    for name, entries in found:
        for reason in sorted({entry.reason for entry in entries}):
            some = [entry for entry in entries if entry.reason == reason]
            keys = {entry.key for entry in some if entry.key is not None}
            waits = sum({entry.key: entry.waits for entry in some}.values())
            since = f"{view.ago(min(entry.since for entry in some))}"
            numbers = (f"{len(some):,}", f"{len(keys):,}", f"{waits:,}")
            table.add_row(escape(str(name)), reason, *numbers, since)
    out = view.console()
    if not code:
        out.print("Nothing is in quarantine.")
        return 0
    out.print(table)
    first = next(name for name, entries in found if entries)
    out.print(f"Next: `lakeward quarantine show {escape(str(first))}`")
    return code


def show_entries(
    table: Table, key: Key = None, config: Config = DEFAULT_FILE, as_json: AsJson = False, debug: Debug = False
) -> int:
    """Show one by one."""
    ((name, every),) = _entries(config, [table], debug=debug)
    entries = _of_key(every, key)
    code = 3 if entries else 0
    if as_json:
        listed = [_document(name, entry) for entry in entries]
        documents.emit("quarantine show", {"entries": listed, "exit_code": code})
        return code
    out = view.console()
    if not entries:
        out.print("Nothing is in quarantine." if not key else "Nothing of that key is in quarantine.")
        return 0
    grid = view.grid("key", "since", "waits", "reason", "from", "as written", right=("waits",))
    for entry in entries:
        why = f"{entry.reason}: {escape(entry.detail)}"
        place = f"{escape(entry.object)}:{entry.row}"
        shown = escape(key_words(entry.key))
        grid.add_row(shown, view.ago(entry.since), f"{entry.waits:,}", why, place, Text(entry.text))
    out.print(grid)
    first = entries[0]
    example = key_words(first.key) if first.key is not None else f"--at {first.object}:{first.row}"
    out.print(f"Give it up: `lakeward quarantine discard {escape(str(name))} {escape(example)}`")
    return code


def discard(
    table: Table,
    key: Key = None,
    at: At = None,
    events: Events = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Give up."""
    if bool(key) == bool(at):
        raise ConfigError(
            "say which rows to give up",
            todo="Name a key, or one row with --at FILE:ROW; `quarantine show` lists them.",
        )
    start_logging(log, debug=debug)
    configured = open_settings(config)
    (name,) = configured.choose([table])
    with locked(configured.state), container_of(configured) as container:
        job = container.job(table=name)
        entries = job.opened.quarantine.entries(job.opened.table.standing().progress)
        chosen = _at(entries, at) if at else _of_key(entries, key)[:events]
        if not chosen:
            raise ConfigError(
                f"{name}: nothing of that is in quarantine", todo=f"`lakeward quarantine show {name}`"
            )
        report = release(job, Settlement(given_up=chosen))
    if as_json:
        given_up = [_document(name, entry) for entry in chosen]
        content = {"given_up": given_up, "progress": documents.progress(report.progress), "exit_code": 0}
        documents.emit("quarantine discard", content)
        return 0
    out = view.console()
    for entry in chosen:
        place = f"{escape(entry.object)}:{entry.row}"
        out.print(f"given up: {escape(key_words(entry.key))}  {place}  {escape(entry.text)}")
    released = report.counts.released
    settled = f"{released:,} {'row that waited is' if released == 1 else 'rows that waited are'} settled"
    out.print(f"{settled}; {report.written:,} rows written, {report.removed:,} removed")
    return 0


def _entries(config: Any, tables: Sequence[str], *, debug: bool) -> list[tuple[Any, Sequence[Any]]]:
    start_logging("off", debug=debug)
    configured = open_settings(config)
    with container_of(configured) as container:
        target = container.target()
        found = []
        for name in configured.choose(tables):
            opened = target.open(configured.dimension(name))
            found.append((name, opened.quarantine.entries(opened.table.standing().progress)))
        return found


def _of_key(entries: Sequence[Any], key: Sequence[str] | None) -> list[Any]:
    return [entry for entry in entries if not key or (entry.key and json.loads(entry.key) == list(key))]


def _at(entries: Sequence[Any], at: str) -> list[Any]:
    return [entry for entry in entries if f"{entry.object}:{entry.row}" == at]


def key_words(key: str | None) -> str:
    """Return a key as a person writes it."""
    return "–" if key is None else " ".join(str(part) for part in json.loads(key))


def _document(name: Any, entry: Any) -> dict[str, Any]:

    return {
        "table": str(name),
        "key": None if entry.key is None else json.loads(entry.key),
        "reason": entry.reason,
        "detail": entry.detail,
        "object": entry.object,
        "row": entry.row,
        "operation": entry.operation,
        "position": entry.position,
        "batch": entry.batch,
        "since": documents.time(entry.since),
        "text": entry.text,
        "waits": entry.waits,
    }


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")
    group.command("list", help=LIST)(list_entries)
    group.command("show", help=SHOW)(show_entries)
    group.command("discard", help=DISCARD)(discard)
    app.add_typer(group, name="quarantine")
