"""`lakeward plugins`: list installed plugins, start a new one, and trace hook calls."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from lakeward.core.errors import PluginError
from lakeward.entrypoints.plugin_project import scaffold
from lakeward.entrypoints.runtime.join_run import select_tables
from lakeward.entrypoints.startup.context import (
    DEFAULT_FILE,
    AsJson,
    Config,
    Debug,
    Log,
    Tables,
    open_settings,
    start_logging,
)
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped
from lakeward.plugins.manager import announced, load, registry_of
from lakeward.plugins.tracing import Call, Tracing

HELP = """List the sources, table formats and queues that are installed, and where each comes from.

Example: [bold]lakeward plugins[/]
"""

NEW = """Write the project of a new plugin: a source, a table format or a queue.

The project can be installed at once. Its test checks the laws of the conformance kit, and fails until the methods
are written; each method says what it must do. No file is overwritten.

Example: [bold]lakeward plugins new table parquet_manifest[/]
"""

TRACE = """Run, and show each call of a hook: which plugin answered, for what, and how long it took.

This is a run like [bold]lakeward run --once[/]: waiting changes are applied. Rows and secrets that a hook
receives are not shown.

Example: [bold]lakeward plugins trace shop.orders[/]
"""

Kind = Annotated[Literal["source", "table", "queue"], typer.Argument(help="The kind of plugin.")]
Name = Annotated[str, typer.Argument(help="The name of the plugin in settings, such as parquet_manifest.")]
To = Annotated[
    Path | None,
    typer.Option("--to", help="The folder to create for the project.", show_default="lakeward-NAME"),
]


def list_plugins(context: typer.Context, as_json: AsJson = False, debug: Debug = False) -> int:
    """List plugins, unless a subcommand follows."""
    if context.invoked_subcommand is not None:
        return 0
    registry = registry_of(load())
    adapters = [(factories.kind, name, factories.origin(name)) for factories in registry for name in factories]
    if as_json:
        listed = [{"kind": kind, "name": name, "module": module} for kind, name, module in adapters]
        documents.emit("plugins", {"plugins": listed, "exit_code": 0})
        return 0
    table = terminal.grid("kind", "name", "from")
    for row in adapters:
        table.add_row(*row)
    terminal.console().print(table)
    return 0


def new(kind: Kind, name: Name, to: To = None, as_json: AsJson = False, debug: Debug = False) -> int:
    """Write the project of a plugin; an installed plugin that is broken does not prevent it."""
    try:
        registry = registry_of(load())
    except PluginError:
        registry = registry_of(load(entry_points=False))
    project = scaffold.Project.named(kind, name, registry, announced())
    folder = to or Path(project.distribution)
    scaffold.write(project, folder)
    files = [*project.content()]
    if as_json:
        content = {"folder": str(folder), "name": project.name, "module": project.module, "files": files}
        documents.emit("plugins new", {**content, "exit_code": 0})
        return 0
    out = terminal.console()
    out.print(f"Wrote {escaped(str(folder))}: {', '.join(files)}.")
    out.print("Its test fails until its methods are written; each method says what it must do.")
    out.print(f"Next: cd {escaped(shlex.quote(str(folder)))} && pip install -e '.\\[test]' && pytest")
    return 0


def trace(
    tables: Tables = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    log: Log = "auto",
    debug: Debug = False,
) -> int:
    """Run tables and print the hook calls; if an error ends the run, print the calls so far."""
    from lakeward.entrypoints.commands import run  # noqa: PLC0415  # the other commands here need none of it

    run_id = start_logging(log, debug=debug)
    configured = open_settings(config, asks=True)
    manager = Tracing()
    load(manager=manager)
    try:
        result = run.run_once(configured, select_tables(configured, tables or ()), manager)
    except BaseException:
        if not as_json and manager.calls:
            _show(manager.calls)
        raise
    if as_json:
        calls = [asdict(call) for call in manager.calls]
        documents.emit("plugins trace", {"run": run_id, "calls": calls, **run.document(result)})
    else:
        run.show_all(result, is_chosen=bool(tables))
        _show(manager.calls)
    return result.code


def _show(calls: Sequence[Call]) -> None:
    table = terminal.grid("hook", "plugin", "about", "ms", "raised", right=("ms",))
    for call in calls:
        words = map(escaped, (call.hook, call.plugin, call.about))
        table.add_row(*words, f"{call.seconds * 1000:,.2f}", escaped(call.raised or ""))
    terminal.console().print(table)


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=HELP, invoke_without_command=True, rich_markup_mode="rich")
    group.callback()(list_plugins)
    group.command("new", help=NEW)(new)
    group.command("trace", help=TRACE)(trace)
    app.add_typer(group, name="plugins")
