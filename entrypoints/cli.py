"""The command line `lakeward`: assembles the commands, prints errors, and sets exit codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import typer

from lakeward import __version__
from lakeward.core.errors import CommitConflict
from lakeward.entrypoints.startup.context import AS_JSON, AT_END, DEBUG
from lakeward.entrypoints.startup.process_memory import manage_memory
from lakeward.entrypoints.views import documents
from lakeward.entrypoints.views.terminal import print_error

COMMANDS: Final = (
    "init",
    "run",
    "plan",
    "status",
    "explain",
    "as-of",
    "export",
    "verify",
    "quarantine",
    "ack",
    "reload",
    "load-complete",
    "truncate",
    "rollback",
    "adopt",
    "maintain",
    "settings",
    "ledger",
    "plugins",
    "jars",
    "package",
    "deploy",
    "demo",
)

GROUPS: Final = ("quarantine", "settings", "ledger", "plugins", "jars", "package", "deploy")
"""Commands that have subcommands."""

_EPILOG: Final = (
    "Exit codes: 0 done · 1 your mistake, or something is missing · 2 wrong usage · 3 done, but something is held "
    "or inexact · 4 a table failed · 75 try again."
)


def _version(is_asked: bool) -> None:  # typer's form of a callback
    if is_asked:
        typer.echo(f"lakeward {__version__}")
        raise typer.Exit


def _main(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Print the version and end.", callback=_version, is_eager=True
    ),
) -> None:
    """Change data capture into lakehouse tables, on Spark: exact, restartable, provable."""
    context.call_on_close(AT_END.close)


def application(*names: str) -> typer.Typer:
    """Return the application with these commands, or with all; only the modules of these are imported."""
    app = typer.Typer(
        name="lakeward",
        help="Change data capture into lakehouse tables, on Spark: exact, restartable, provable.",
        epilog=_EPILOG,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    app.callback()(_main)
    for name in names or COMMANDS:
        import_module(f"lakeward.entrypoints.commands.{name.replace('-', '_')}").add_to(app)
    _let_flow(app)
    return app


def _let_flow(app: typer.Typer) -> None:
    """Join the lines of each paragraph of a help text, which the terminal wraps; examples keep their lines."""
    commands: list[Any] = [app.info, *app.registered_commands]
    for command in commands:
        if isinstance(command.help, str):
            command.help = re.sub(r"(?<!\n)\n(?!\n|Example: )", " ", command.help.strip())
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _let_flow(group.typer_instance)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    manage_memory()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = application(*[word for word in words[:1] if word in COMMANDS])(words, standalone_mode=False)
    except typer.Abort:
        return 130
    except Exception as error:
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # click's own: wrong usage
            return _report_usage_error(words, error)
        code = exit_code_of(error)
        _emit_error(words, documents.error(error), code)
        if DEBUG in words:
            raise
        print_error(error)
        return code
    return code if isinstance(code, int) else 0


def _report_usage_error(words: Sequence[str], error: Any) -> int:
    """Print a usage error, and return its exit code."""
    code = int(error.exit_code)
    what = {"kind": "UsageError", "what": error.format_message(), "found": None, "todo": None, "retryable": False}
    _emit_error(words, what, code)
    error.show()
    return code


def _emit_error(arguments: Sequence[str], error: Mapping[str, Any], code: int) -> None:
    """Write the JSON document of an error, if --json was given."""
    if AS_JSON in arguments:
        words = [word for word in arguments if not word.startswith("-")]
        command = words[: 2 if words[:1] in [[name] for name in GROUPS] else 1]
        documents.emit(" ".join(command), {"error": error, "exit_code": code})


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a command that this error ended."""
    return 75 if isinstance(error, CommitConflict) or getattr(error, "retryable", False) else 1


def run() -> None:
    """Entry point of the installed script."""
    sys.exit(main())


if __name__ == "__main__":
    run()
