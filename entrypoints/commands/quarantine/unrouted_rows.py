"""`lakeward quarantine unrouted_rows`: rows that do not say of which table they are."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Annotated

import typer

from lakeward.core.errors import ConfigError
from lakeward.core.ports import UnroutedRow
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.runtime.locks.writer_lease import alone
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

HELP = """List rows that do not say of which table they are, as damaged ones of files of many tables.

Any table may lack such a row; no table waits for it. With --discard they are given up: what
they held is looked after by hand, or does not matter.

Example: [bold]lakeward quarantine strays --discard --file "cdc/CDC_TXN-20261121*"[/]
"""

Discard = Annotated[bool, typer.Option("--discard", help="Give them up.")]
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
    """List, or give up."""
    start_logging("off", debug=debug)
    configured = open_settings(config)
    with alone(configured) if discard else container_of(configured) as container:
        kept = container.unrouted_rows()
        if kept is None:
            raise ConfigError(
                f"the source {configured.settings.source['kind']!r} has no files of many tables",
                todo="Rows that a table could not apply: `lakeward quarantine list`.",
            )
        found = [
            unrouted_row
            for unrouted_row in kept.unrouted_rows()
            if file is None or fnmatch.fnmatchcase(unrouted_row.object, file)
        ]
        if discard:
            kept.discard(found)
    code = 3 if found and not discard else 0
    if as_json:
        listed = [_document(unrouted_row) for unrouted_row in found]
        documents.emit("quarantine strays", {"strays": listed, "discarded": discard, "exit_code": code})
        return code
    _show(found, discard=discard)
    return code


def _show(found: Sequence[UnroutedRow], *, discard: bool) -> None:
    out = terminal.console()
    if discard or not found:
        out.print(
            f"{format_count(len(found), 'row')} given up." if discard else "Every row says of which table it is."
        )
        return
    table = terminal.grid("file", "row", "since", "why", "as it was written", right=("row",))
    for unrouted_row in found:
        when, text = terminal.local_time(unrouted_row.since), escaped(unrouted_row.text)
        table.add_row(escaped(unrouted_row.object), f"{unrouted_row.row:,}", when, unrouted_row.why, text)
    out.print(table)
    out.print("Next: look after what they held, then `lakeward quarantine strays --discard`")


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
    group.command("strays", help=HELP)(unrouted_rows)
