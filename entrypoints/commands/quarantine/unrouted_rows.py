"""`lakeward quarantine unrouted`: list and discard rows that name no table."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Annotated

import typer

from lakeward.core.errors import ConfigError
from lakeward.core.ports import UnroutedRow
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.runtime.locks.writer_lease import exclusive_container
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
from lakeward.entrypoints.views.safe_text import escaped

HELP = """List rows that name no table, such as damaged rows in files of several tables.

Any table may lack such a row, and no table waits for it. --discard removes them from the list, once their
changes are applied by hand or do not matter.

Example: [bold]lakeward quarantine unrouted --discard --file "cdc/CDC_TXN-20261121*"[/]
"""

Discard = Annotated[bool, typer.Option("--discard", help="Discard the rows.")]
File = Annotated[
    str | None, typer.Option(help="Only rows of this file; `*` stands for anything.", show_default="all")
]


def unrouted_rows(
    discard: Discard = False,
    file: File = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List or discard unrouted rows; return the exit code: 3 if rows are listed."""
    start_logging("off", debug=debug)
    configured = open_settings(config)
    with exclusive_container(configured) if discard else container_of(configured) as container:
        quarantine = container.unrouted_rows()
        if quarantine is None:
            raise ConfigError(
                f"the source {configured.settings.source['kind']!r} has no files of several tables",
                todo="`lakeward quarantine list` lists rows that a table could not apply.",
            )
        rows = [
            unrouted_row
            for unrouted_row in quarantine.unrouted_rows()
            if file is None or fnmatch.fnmatchcase(unrouted_row.object, file)
        ]
        if discard:
            quarantine.discard(rows)
    code = 3 if rows and not discard else 0
    if as_json:
        listed = [_document(unrouted_row) for unrouted_row in rows]
        content = {"unrouted_rows": listed, "discarded": discard, "exit_code": code}
        documents.emit("quarantine unrouted", content)
        return code
    _show(rows, discard=discard)
    return code


def _show(rows: Sequence[UnroutedRow], *, discard: bool) -> None:
    out = terminal.console()
    if discard or not rows:
        out.print(
            f"{format_count(len(rows), 'row')} discarded." if discard else "Every row names its table."
        )
        return
    table = terminal.grid("file", "row", "since", "why", "as it was written", right=("row",))
    for unrouted_row in rows:
        when, text = terminal.local_time(unrouted_row.since), escaped(unrouted_row.text)
        table.add_row(escaped(unrouted_row.object), f"{unrouted_row.row:,}", when, unrouted_row.why, text)
    out.print(table)
    out.print("Next: apply their changes by hand, then `lakeward quarantine unrouted --discard`")


def _document(unrouted_row: UnroutedRow) -> dict[str, object]:
    return {
        "object": unrouted_row.object,
        "row": unrouted_row.row,
        "why": unrouted_row.why,
        "text": unrouted_row.text,
        "since": documents.time(unrouted_row.since),
    }


def add_to(group: typer.Typer) -> None:
    """Add the command."""
    group.command("unrouted", help=HELP)(unrouted_rows)
