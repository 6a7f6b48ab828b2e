"""`lakeward truncate`: apply a truncate of the source that no file records."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.core.operations.truncate import truncate_at
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.common.decision import Table, Who, Why, Yes, asks, deciding
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Config, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Remove the rows of a table that was truncated at its source, in one commit. In a history they end.

DMS records no TRUNCATE: it deletes the files of the table. Give its time with --at: `now`, the time of the
commit (UTC, if no zone is given), or the first file of changes after it. Rows that were changed later stay;
changes from before it have no effect if they arrive late.

Example: [bold]lakeward truncate shop.orders --at now[/]
Example: [bold]lakeward truncate shop.orders --at 2026-11-21T10:00:00Z --yes[/]
"""

At = Annotated[str, typer.Option("--at", help="`now`, a time, or the first file of changes after the truncate.")]


def truncate(
    table: Table,
    at: At,
    reason: Why = None,
    by: Who = None,
    yes: Yes = False,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Truncate the table and print the result."""
    with deciding(table, by, config, debug=debug) as (name, job, operator, now):
        if asks(yes=yes, as_json=as_json):
            verb = "End" if job.dimension.keeps_ended else "Remove"
            typer.confirm(f"{verb} the rows of {name} that were there at {at}?", abort=True)
        report = truncate_at(job, at, by=operator, reason=reason, at=now)
    if as_json:
        content = {"batch": report.progress.batch, "commit": report.commit, "removed": report.removed}
        documents.emit("truncate", {"table": name, **content, "rows": report.progress.rows, "exit_code": 0})
        return 0
    rows, current = report.progress.rows, report.progress.current
    sentence = f"{format_count(report.removed, 'row')} removed, {format_count(rows, 'is', 'are')} left"
    if current is not None:
        unit = "stored rows" if job.dimension.is_soft else "versions"
        sentence = (
            f"older rows have ended, {format_count(current, 'row is', 'rows are')} current, of {rows:,} {unit}"
        )
    terminal.console().print(f"{escaped(name)}: {sentence}. Next: `lakeward run`")
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("truncate", help=HELP)(truncate)
