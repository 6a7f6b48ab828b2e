"""`lakeward load-complete`: declare complete the full load that a table waits for."""

from __future__ import annotations

import typer

from lakeward.core.operations.reload import complete
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.common.decision import Table, Who, deciding
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Config, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

HELP = """Declare that the full load a table waits for is complete: the files that are there now are the whole load.

Use it after the end of the DMS task, for example in a script. If the next run finds other files,
the table keeps waiting.

Example: [bold]lakeward load-complete shop.orders[/]
"""


def load_complete(
    table: Table,
    by: Who = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Store the load completion and print it."""
    with deciding(table, by, config, debug=debug) as decision:
        completion, objects = complete(decision.job, by=decision.by, at=decision.at)
    names, size = [item.name for item in objects], sum(item.size for item in objects)
    if as_json:
        content = {"epoch": completion.epoch, "files": names, "bytes": size, "by": completion.by}
        at = documents.time(completion.at)
        documents.emit("load-complete", {"table": decision.table, **content, "at": at, "exit_code": 0})
        return 0
    out = terminal.console()
    files = f"{format_count(len(names), 'file')}, {format_count(size, 'byte')}"
    out.print(f"{escaped(decision.table)}: its full load has {files}, and is complete")
    out.print("Nothing was applied. Next: `lakeward run`")
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("load-complete", help=HELP)(load_complete)
