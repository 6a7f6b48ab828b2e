"""`lakeward rollback`: take a table back to an earlier commit, rows and progress together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lakeward.core.operations.rollback import ask, roll_back, versions
from lakeward.core.ports import Acknowledgement, RollbackPreview, Version
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.common.decision import Table, Yes, asks, deciding
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Config, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Take a table back to an earlier commit: its rows, its progress, and what it remembers, together.

The next run applies the files behind it again, as they are then. Without --to it lists the commits that the
table can be taken back to. What a person did since is undone and is to be said again: rows that were mended or
given up, truncates, alarms that were let pass.

Example: [bold]lakeward rollback shop.orders --to 5781947118336215154 --dry-run[/]
"""

To = Annotated[str | None, typer.Option("--to", help="The commit, by the name that the list has.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what it would undo.")]


def rollback(
    table: Table,
    to: To = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List, or take back."""
    with deciding(table, None, config, debug=debug) as (name, job, _, _):
        if to is None:
            return _listed(name, versions(job), as_json=as_json)
        preview = ask(job, to)
        if not as_json:
            _show(name, preview)
        if not dry_run:
            if asks(yes=yes, as_json=as_json):
                typer.confirm("Go on?", abort=True)
            roll_back(job, preview)
    return _said(name, preview, as_json=as_json, is_done=not dry_run)


def _listed(table: str, found: Sequence[Version], *, as_json: bool) -> int:
    if as_json:
        documents.emit("rollback", {"table": table, "versions": [_document(one) for one in found], "exit_code": 0})
        return 0
    out = terminal.console()
    if not found:
        out.print(f"There is no commit before the last that {escaped(table)} can be taken back to.")
        return 0
    named = ("commit", "batch", "committed", "rows", "held", "last file")
    grid = terminal.grid(*named, right=("batch", "rows", "held"))
    for one in found:
        told = one.progress
        grid.add_row(
            one.name,
            f"{told.batch:,}",
            terminal.local_time(one.committed),
            f"{told.rows:,}",
            f"{told.held:,}",
            escaped(told.object or "–"),
        )
    out.print(grid)
    out.print(f"Next: `lakeward rollback {escaped(table)} --to COMMIT --dry-run`")
    return 0


def _document(version: Version) -> dict[str, Any]:
    return {
        "name": version.name,
        "batch": version.progress.batch,
        "committed": documents.time(version.committed),
        "rows": version.progress.rows,
        "held": version.progress.held,
        "object": version.progress.object,
    }


def _show(table: str, preview: RollbackPreview) -> None:
    """Say what it undoes, and what a person must say again."""
    out, told = terminal.console(), preview.version.progress
    files = {found.object.name for found in preview.objects}
    rows, batches = format_count(told.rows, "row"), format_count(preview.batches, "batch is", "batches are")
    out.print(f"{escaped(table)} goes back to batch {told.batch:,} with {rows}: {preview.version.name}")
    out.print(f"   {batches} undone; {format_count(len(files), 'file')} will be applied again")
    if preview.by_hand:
        out.print(
            f"   {preview.by_hand:,} of them had no file: truncates, or rows of the quarantine that were settled; "
            "say them again where they still hold"
        )
    if told.numbered is not None:
        found = f"surrogate numbers above {told.numbered:,}"
        out.print(f"   {found} will be given again: facts that have such ones must be loaded anew")
    for word in preview.words:
        said = (
            f"alarm {word.code} was let pass" if isinstance(word, Acknowledgement) else type(word).__name__.lower()
        )
        out.print(f"   forgotten: {said}, by {escaped(word.by)}")


def _said(table: str, preview: RollbackPreview, *, as_json: bool, is_done: bool) -> int:
    if as_json:
        content = {
            "version": _document(preview.version),
            "batches": preview.batches,
            "by_hand": preview.by_hand,
            "objects": list(dict.fromkeys(found.object.name for found in preview.objects)),
            "words": [{"kind": type(word).__name__.lower(), "by": word.by} for word in preview.words],
            "done": is_done,
        }
        documents.emit("rollback", {"table": table, **content, "exit_code": 0})
        return 0
    next_step = "Next: `lakeward run`" if is_done else "Nothing was changed. Next: the same without --dry-run"
    terminal.console().print(next_step)
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rollback", help=HELP)(rollback)
