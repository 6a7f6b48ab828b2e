"""`lakeward export`: write the rows of a table as plain Parquet into a folder, replaced atomically."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from lakeward.core.operations.read_rows import reading_of
from lakeward.core.ports import Selection
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.common.folder_replacement import place, replacing
from lakeward.entrypoints.runtime.join_run import job_of
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    container_of,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import plain

HELP = """Write the rows of a table as plain Parquet into a folder, replacing its content.

The rows are those of the current state of the table: for a history, all versions. A reader of the folder sees all
old files or all new ones, even if the command is interrupted. It may run at the same time as `lakeward run`, and
does not change the table.

Example: [bold]lakeward export shop.customer --to exports/customer[/]
"""

Table = Annotated[str, typer.Argument(help="The table, as schema.table.")]
To = Annotated[str, typer.Option("--to", help="The folder: a new one, or one of an earlier export.")]
Columns = Annotated[
    Literal["own", "all"],
    typer.Option("--columns", help="`own`: columns of the source and of versions; `all`: also `_lakeward_…`."),
]


def export(
    table: Table,
    to: To,
    columns: Columns = "own",
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Write the rows and replace the folder."""
    start_logging("off", debug=debug)
    folder = place(to)
    configured = open_settings(config)
    (name,) = configured.choose_any([table])
    with container_of(configured) as container:
        reading: Any = reading_of(job_of(container, name))
        with replacing(folder) as fresh:
            rows = reading.write(Selection(with_ours=columns == "all"), str(fresh))
    if as_json:
        content = {"table": str(name), "rows": rows, "to": str(folder), "columns": columns}
        documents.emit("export", {**content, "exit_code": 0})
        return 0
    terminal.console().print(plain(f"{format_count(rows, 'row')} of {name}: {folder}"), soft_wrap=True)
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export", help=HELP)(export)
