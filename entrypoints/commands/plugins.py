"""`lakeward plugins`: what is installed."""

from __future__ import annotations

import typer

from lakeward.entrypoints import documents, view
from lakeward.entrypoints.context import AsJson
from lakeward.plugins.manager import load, registry_of

HELP = """List the sources, table formats and queues that are installed, and where each comes from.

Example: [bold]lakeward plugins[/]
"""


def plugins(as_json: AsJson = False) -> int:
    """List."""
    registry = registry_of(load())
    found = [(shelf.kind, name, shelf.origin(name)) for shelf in registry for name in shelf]
    if as_json:
        listed = [{"kind": kind, "name": name, "module": module} for kind, name, module in found]
        documents.emit("plugins", {"plugins": listed, "exit_code": 0})
        return 0
    table = view.grid("kind", "name", "from")
    for row in found:
        table.add_row(*row)
    view.console().print(table)
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plugins", help=HELP)(plugins)
