"""`lakeward adopt`: continue a table that another job wrote, where that job stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from lakeward.core.ledger.objects import SourceObject
from lakeward.core.operations.adopt import AdoptionRequest, request_adoption
from lakeward.core.operations.adopt import adopt as take_over
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.common.decision import Table, Yes, asks, deciding
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Config, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Take over a table that another job wrote, and continue where that job stopped.

Stop the other job for good first. The whole table is checked before anything is written: its columns against
those of the source, its keys (unique, not NULL), and features of its format that lakeward cannot write. Existing
rows are kept. --from names the last file that the other job applied: the next run begins with the file after it.
If no file was applied, use --none. Without either, the table is only checked. In a table without a key, a file
that is applied again adds its rows a second time.

Example: [bold]lakeward adopt shop.orders --from 20261120-103100000.csv --dry-run[/]
"""

Last = Annotated[str | None, typer.Option("--from", help="The last file that the other job applied.")]
None_ = Annotated[bool, typer.Option("--none", help="The other job applied no file.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check, and show what would be done.")]


def adopt(
    table: Table,
    last: Last = None,
    none: None_ = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Check a table, or take it over."""
    if none and last is not None:
        raise typer.BadParameter(
            "--from and --none cannot be combined: give the last applied file, or --none if there is none"
        )
    is_told = none or last is not None
    with deciding(table, None, config, debug=debug) as (name, job, _, _):
        request = request_adoption(job, last)
        is_done = is_told and not dry_run
        if not as_json:
            _show(name, request, is_told=is_told)
        if is_done:
            if asks(yes=yes, as_json=as_json):
                typer.confirm("Continue?", abort=True)
            take_over(job, request)
    return _report_result(name, request, as_json=as_json, is_told=is_told, is_done=is_done)


def _show(table: str, request: AdoptionRequest, *, is_told: bool) -> None:
    """Print what was found, and which files were applied or wait."""
    out, foreign = terminal.console(), request.external
    size = f"{format_count(foreign.rows, 'row')} and {format_count(len(foreign.schema), 'column')}"
    out.print(f"{escaped(table)} has {size}, and can be adopted")
    if is_told:
        _list(
            "file was applied, and is not read again", "files were applied, and are not read again", request.applied
        )
        _list("file waits for the next run", "files wait for the next run", request.remaining)
    else:
        _list(
            "file was found; say with --from or --none whether it was applied",
            "files were found; say with --from or --none which of them were applied",
            request.remaining,
        )
    for caution in request.cautions:
        out.print(f"   {caution}")


def _list(singular: str, plural: str, items: Sequence[SourceObject]) -> None:
    if items:
        ends = items[0].name if len(items) == 1 else f"{items[0].name} to {items[-1].name}"
        terminal.console().print(f"   {format_count(len(items), singular, plural)}: {escaped(ends)}")


def _report_result(table: str, request: AdoptionRequest, *, as_json: bool, is_told: bool, is_done: bool) -> int:
    if as_json:
        content = {
            "table": table,
            "rows": request.external.rows,
            "columns": list(request.external.schema.names),
            "applied": [item.name for item in request.applied],
            "behind": [item.name for item in request.remaining],
            "warnings": list(request.cautions),
            "done": is_done,
        }
        documents.emit("adopt", {**content, "exit_code": 0})
        return 0
    if is_done:
        words = "Next: `lakeward run`"
    elif is_told:
        words = "Nothing was changed. Next: repeat the command without --dry-run"
    else:
        words = f"Nothing was changed. Next: `lakeward adopt {escaped(table)} --from FILE --dry-run`, or --none"
    terminal.console().print(words)
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("adopt", help=HELP)(adopt)
