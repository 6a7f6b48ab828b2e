"""`lakeward load-complete`: say that a full load that a table waits for has ended."""

from __future__ import annotations

import typer

from lakeward.core.operations.reload import complete
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.common.decision import Table, Who, deciding
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Config, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Say that the full load that a table waits for is complete: what is there now is all of it.

It is for the end of the DMS task, in a script, say. Should the files be others when the next run
looks, the table goes on waiting.

Example: [bold]lakeward load-complete shop.orders[/]
"""


def load_complete(
    table: Table,
    by: Who = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Write that down."""
    with deciding(table, by, config, debug=debug) as made:
        word, objects = complete(made.job, by=made.by, at=made.at)
    names, size = [item.name for item in objects], sum(item.size for item in objects)
    if as_json:
        content = {"epoch": word.epoch, "files": names, "bytes": size, "by": word.by}
        documents.emit(
            "load-complete", {"table": made.table, **content, "at": documents.time(word.at), "exit_code": 0}
        )
        return 0
    out = terminal.console()
    files = f"{format_count(len(names), 'file')}, {format_count(size, 'byte')}"
    out.print(f"{escaped(made.table)}: its full load has {files}, and is complete")
    out.print("Nothing was applied. Next: `lakeward run`")
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("load-complete", help=HELP)(load_complete)
