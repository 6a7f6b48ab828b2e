"""`lakeward rollback`: return a table to an earlier commit, rows and progress together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lakeward.core.operations.rollback import preview_rollback, roll_back, versions
from lakeward.core.ports import Acknowledgement, RollbackPreview, Version
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.common.decision import Table, Yes, asks, deciding
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Config, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Return a table to an earlier commit: its rows, its progress and its change log, together.

The next run applies the later files again, as they are then. Without --to the commits that the table can be
returned to are listed. Decisions made since are undone and must be repeated: repaired or discarded rows,
truncates, and acknowledged alarms.

Example: [bold]lakeward rollback shop.orders --to 5781947118336215154 --dry-run[/]
"""

To = Annotated[str | None, typer.Option("--to", help="The commit, by its name in the list.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be undone.")]


def rollback(
    table: Table,
    to: To = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List commits, or roll the table back."""
    with deciding(table, None, config, debug=debug) as (name, job, _, _):
        if to is None:
            return _list_versions(name, versions(job), as_json=as_json)
        preview = preview_rollback(job, to)
        if not as_json:
            _show(name, preview)
        if not dry_run:
            if asks(yes=yes, as_json=as_json):
                typer.confirm("Continue?", abort=True)
            roll_back(job, preview)
    return _report_result(name, preview, as_json=as_json, is_done=not dry_run)


def _list_versions(table: str, versions: Sequence[Version], *, as_json: bool) -> int:
    if as_json:
        documents.emit(
            "rollback", {"table": table, "versions": [_document(version) for version in versions], "exit_code": 0}
        )
        return 0
    out = terminal.console()
    if not versions:
        out.print(f"{escaped(table)} has no earlier commit that it can be returned to.")
        return 0
    headers = ("commit", "batch", "committed", "rows", "held", "last file")
    grid = terminal.grid(*headers, right=("batch", "rows", "held"))
    for version in versions:
        progress = version.progress
        grid.add_row(
            version.name,
            f"{progress.batch:,}",
            terminal.local_time(version.committed),
            f"{progress.rows:,}",
            f"{progress.held:,}",
            escaped(progress.object or "–"),
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
    """Print what the rollback undoes, and which decisions must be repeated."""
    out, progress = terminal.console(), preview.version.progress
    files = {file.object.name for file in preview.objects}
    rows, batches = format_count(progress.rows, "row"), format_count(preview.batches, "batch is", "batches are")
    out.print(f"{escaped(table)} goes back to batch {progress.batch:,} with {rows}: {preview.version.name}")
    out.print(f"   {batches} undone; {format_count(len(files), 'file')} will be applied again")
    if preview.by_hand:
        out.print(
            f"   {preview.by_hand:,} of them had no file: truncates, or settled rows of the quarantine; "
            "repeat them if they are still needed"
        )
    if progress.numbered is not None:
        numbers = f"surrogate numbers above {progress.numbered:,}"
        out.print(f"   {numbers} will be assigned again: facts that refer to them must be reloaded")
    for word in preview.decisions:
        decision = (
            f"acknowledgement of {word.code}" if isinstance(word, Acknowledgement) else type(word).__name__.lower()
        )
        out.print(f"   undone: {decision}, by {escaped(word.by)}")


def _report_result(table: str, preview: RollbackPreview, *, as_json: bool, is_done: bool) -> int:
    if as_json:
        content = {
            "version": _document(preview.version),
            "batches": preview.batches,
            "by_hand": preview.by_hand,
            "objects": list(dict.fromkeys(file.object.name for file in preview.objects)),
            "words": [{"kind": type(word).__name__.lower(), "by": word.by} for word in preview.decisions],
            "done": is_done,
        }
        documents.emit("rollback", {"table": table, **content, "exit_code": 0})
        return 0
    unchanged = "Nothing was changed. Next: repeat the command without --dry-run"
    terminal.console().print("Next: `lakeward run`" if is_done else unchanged)
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rollback", help=HELP)(rollback)
