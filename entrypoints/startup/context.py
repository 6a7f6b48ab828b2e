"""Shared parts of the commands: options, logging, opening settings, and the container."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from pluggy import PluginManager

from lakeward.core.dimension import TableName
from lakeward.entrypoints.settings.configuration import FILE, Configuration, load

DEBUG: Final = "--debug"
AS_JSON: Final = "--json"

Config = Annotated[
    str,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="The settings file, or the address of a settings store, such as ssm:/lakeward/shop.",
        envvar="LAKEWARD_CONFIG",
        show_default=FILE,
    ),
]
AsJson = Annotated[bool, typer.Option(AS_JSON, help="Print one JSON document instead of text.")]
Debug = Annotated[bool, typer.Option(DEBUG, help="Log every step, and show the stack trace of an error.")]
Log = Annotated[
    Literal["auto", "text", "json", "off"],
    typer.Option(help="The log on standard error: `auto` logs warnings on a terminal, and all as text elsewhere."),
]
Tables = Annotated[list[str] | None, typer.Argument(help="Only these tables, as schema.table.", show_default="all")]

DEFAULT_FILE: Final = FILE

AT_END: Final = ExitStack()
"""Callbacks for the end of a command. They undo its effects, since the process may belong to another program."""


def start_logging(log: str, *, debug: bool, reports: bool = False) -> str:
    """Configure logging by the options, until the command ends; return the id of the run.

    With `reports` the command prints errors at its end, so text logs do not contain them.
    """
    from lakeward.entrypoints.runtime.reporting import logs  # noqa: PLC0415  # slow to import

    level = "debug" if debug else "info"
    if log == "auto" and sys.stderr.isatty() and not debug:
        level = "warning"
    elif log == "off":
        level = "critical"  # the command itself prints errors
    AT_END.callback(logs.restore_logging())
    reports = reports and log != "json" and not debug
    return logs.configure(as_json=log == "json", level=level, reports=reports)


def open_settings(file: Path | str, *, asks: bool = False) -> Configuration:
    """Load settings from a file or from the address of a store, and complete them from the source.

    With `asks` the catalogue of the source is queried; otherwise its stored answers are used.
    """
    return complete(load(file), asks=asks)


def complete(configured: Configuration, *, asks: bool = False) -> Configuration:
    """Return settings completed by the source, which has the tables for patterns, and by its catalogue."""
    if configured.stored_tables:
        configured = _without_refused(configured)
    if configured.patterns:
        from lakeward.entrypoints.startup.findings import find_tables  # noqa: PLC0415  # only with patterns

        configured = find_tables(configured)
    if configured.settings.catalogue is None:
        return configured
    from lakeward.entrypoints.startup import catalogue  # noqa: PLC0415

    return catalogue.query(configured) if asks else catalogue.with_stored_answers(configured)


def _without_refused(configured: Configuration) -> Configuration:
    """Return settings in which tables of stores that the source or the table format refuses fail alone."""
    from lakeward.entrypoints.container import Container  # noqa: PLC0415  # only with stores
    from lakeward.entrypoints.settings.refused_tables import find_tables_refused_by_adapters  # noqa: PLC0415

    return configured.with_refused(find_tables_refused_by_adapters(configured, Container(configured=configured)))


def choose_readable(configured: Configuration, wanted: Sequence[str]) -> tuple[Sequence[TableName], int]:
    """Return the named tables, or all with valid settings, and the exit code: 4 if tables were left out, else 0.

    Errors of tables that are left out are printed to standard error. A named table is never left out.
    """
    names = configured.choose(wanted)
    refused = {} if wanted else configured.refused
    if refused:
        from lakeward.entrypoints.views.error_groups import print_errors  # noqa: PLC0415  # only on errors

        print_errors(refused.items())
    return [name for name in names if name not in refused], 4 if refused else 0


@contextmanager
def container_of(configured: Configuration, manager: PluginManager | None = None) -> Iterator[Any]:
    """Build the container for the context, and stop Spark at its end if it was started.

    `manager` has the plugins; by default all installed plugins are loaded. Settings that only the source can check
    are checked at once, so that every command reports their errors.
    """
    from lakeward.entrypoints.container import Container  # noqa: PLC0415  # slow to import
    from lakeward.entrypoints.views.terminal import Download  # noqa: PLC0415

    container = Container(configured=configured, on_fetch=Download)
    if manager is not None:
        container.manager.override(manager)
    try:
        if configured.depends_on_source:
            container.source()
        yield container
    finally:
        container.spark().stop()


def user() -> str:
    """Return user and host of this process, for stored decisions."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        name = f"user {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
