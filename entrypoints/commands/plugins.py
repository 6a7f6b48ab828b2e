"""`lakeward plugins`: what is installed, and how to begin another."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from lakeward.entrypoints import documents, new_plugin, view
from lakeward.entrypoints.context import AsJson
from lakeward.entrypoints.printable import escaped
from lakeward.plugins.manager import load, registry_of

HELP = """List the sources, table formats and queues that are installed, and where each comes from.

Example: [bold]lakeward plugins[/]
"""

NEW = """Write the project of a new plugin: a source, a table format or a queue.

It can be installed at once, and has a test that holds it to the laws of the conformance kit. They are
red until its methods, which say what belongs there, are written. Nothing is ever overwritten.

Example: [bold]lakeward plugins new table parquet_manifest[/]
"""

Kind = Annotated[Literal["source", "table", "queue"], typer.Argument(help="What it is.")]
Name = Annotated[str, typer.Argument(help="What settings will call it, as parquet_manifest.")]
To = Annotated[
    Path | None,
    typer.Option("--to", help="The folder of the project, which is made.", show_default="lakeward-NAME"),
]


def list_plugins(context: typer.Context, as_json: AsJson = False) -> int:
    """List, unless a command follows."""
    if context.invoked_subcommand is not None:
        return 0
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


def new(kind: Kind, name: Name, to: To = None, as_json: AsJson = False) -> int:
    """Write, and say how to go on; a plugin that is installed and broken is no hindrance."""
    project = new_plugin.Project.called(kind, name, registry_of(load(entry_points=False)))
    folder = to or Path(project.distribution)
    new_plugin.write(project, folder)
    files = [*project.content()]
    if as_json:
        written = {"folder": str(folder), "name": project.name, "module": project.module, "files": files}
        documents.emit("plugins new", {**written, "exit_code": 0})
        return 0
    out = view.console()
    out.print(f"Wrote {escaped(str(folder))}: {', '.join(files)}.")
    out.print("Its laws are red until its methods are written; each says what belongs there.")
    out.print(f"Next: cd {escaped(shlex.quote(str(folder)))} && pip install -e '.\\[test]' && pytest")
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=HELP, invoke_without_command=True, rich_markup_mode="rich")
    group.callback()(list_plugins)
    group.command("new", help=NEW)(new)
    app.add_typer(group, name="plugins")
