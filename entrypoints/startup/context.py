"""What the commands have in common: their options, and opening the settings they name."""

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
from lakeward.entrypoints.settings.configuration import FILE, Configured, load

DEBUG: Final = "--debug"
AS_JSON: Final = "--json"

Config = Annotated[
    str,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="The settings file, or the address of a settings store, as ssm:/lakeward/shop.",
        envvar="LAKEWARD_CONFIG",
        show_default=FILE,
    ),
]
AsJson = Annotated[bool, typer.Option(AS_JSON, help="Print one JSON document instead of tables for people.")]
Debug = Annotated[bool, typer.Option(DEBUG, help="Show every step, and the stack trace of an error.")]
Log = Annotated[
    Literal["auto", "text", "json", "off"],
    typer.Option(help="What is logged to standard error: `auto` is warnings on a terminal, all as text elsewhere."),
]
Tables = Annotated[list[str] | None, typer.Argument(help="Only these tables, as schema.table.", show_default="all")]

DEFAULT_FILE: Final = FILE

AT_END: Final = ExitStack()
"""What a command undoes when it ends: the process may be another's, and go on."""


def start_logging(log: str, *, debug: bool, reports: bool = False) -> str:
    """Set up logging as the options say, until the command ends; return the id of the run.

    Of a command that `reports` what failed at its end, lines for people do not say it as well.
    """
    from lakeward.entrypoints.runtime.reporting import logs  # noqa: PLC0415  # structlog is imported by those who log

    level = "debug" if debug else "info"
    if log == "auto" and sys.stderr.isatty() and not debug:
        level = "warning"
    elif log == "off":
        level = "critical"  # what fails is said by the command itself
    AT_END.callback(logs.undoing())
    reports = reports and log != "json" and not debug
    return logs.configure(as_json=log == "json", level=level, reports=reports)


def open_settings(file: Path | str, *, asks: bool = False) -> Configured:
    """Load the settings file, or what a store has at an address; its patterns take the tables that the source has.

    One that `asks` asks the source's catalogue, where there is one; else what that said last counts.
    """
    return complete(load(file), asks=asks)


def complete(configured: Configured, *, asks: bool = False) -> Configured:
    """Return settings with what the source and its catalogue say."""
    if configured.alone:
        configured = _without_refused(configured)
    if configured.patterns:
        from lakeward.entrypoints.startup.findings import find_tables  # noqa: PLC0415  # where there are none it is not needed

        configured = find_tables(configured)
    if configured.settings.catalogue is None:
        return configured
    from lakeward.entrypoints.startup import catalogue  # noqa: PLC0415

    return catalogue.ask(configured) if asks else catalogue.recall(configured)


def _without_refused(configured: Configured) -> Configured:
    """Return settings with the tables of stores that their source or table format does not take failing alone."""
    from lakeward.entrypoints.container import Container  # noqa: PLC0415  # without stores it is not needed so early
    from lakeward.entrypoints.settings.refused_tables import find_tables_refused_by_adapters  # noqa: PLC0415

    return configured.with_refused(find_tables_refused_by_adapters(configured, Container(configured=configured)))


def choose_readable(configured: Configured, wanted: Sequence[str]) -> tuple[Sequence[TableName], int]:
    """Return the tables of these names, or all whose settings can be; and 4 where others were passed over, else 0.

    What is wrong with those is printed to standard error. One that is named is not passed over.
    """
    names = configured.choose(wanted)
    refused = {} if wanted else configured.refused
    if refused:
        from lakeward.entrypoints.views.error_groups import print_errors  # noqa: PLC0415  # where nothing fails it is not needed

        print_errors(refused.items())
    return [name for name in names if name not in refused], 4 if refused else 0


@contextmanager
def container_of(configured: Configured, manager: PluginManager | None = None) -> Iterator[Any]:
    """Put the parts together, with the plugins of a manager or of a new one; stop Spark if it was started.

    What is wrong with the settings is said at once, in every command, also where it takes the source to know it.
    """
    from lakeward.entrypoints.container import Container  # noqa: PLC0415  # what a command does not need it does not import
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
    """Return who runs this process, and where, for words that are kept."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        name = f"user {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
