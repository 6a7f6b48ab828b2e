"""Commands as jobs of a platform, which take all arguments and options as `--key value`."""

from __future__ import annotations

import io
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, Final

import typer

from lakeward.core.errors import ConfigError, LakewardError
from lakeward.entrypoints.cli import application
from lakeward.entrypoints.startup.context import AT_END

RUN: Final = "run"
WITH_SPARK: Final = ("plan", "maintain", "verify", "ack", "truncate")
WITHOUT_SPARK: Final = ("status", "load-complete", "reload")
COMMANDS: Final = (RUN, *WITH_SPARK, *WITHOUT_SPARK)

_OF_JOBS: Final = ("config", "as_json", "log", "debug", "yes", "help")
"""Options that a job sets itself or does not need."""

_TRUE, _FALSE = ("", "true", "yes", "1"), ("false", "no", "0")


@dataclass(frozen=True, slots=True)
class JobParameter:
    """An argument or an option of a command: its key for a job, and how the command line writes it.

    `option` is its name there, None for an argument that has only a place; a list is separated by commas.
    """

    key: str
    option: str | None
    is_flag: bool
    is_list: bool
    is_required: bool

    def words(self, value: str) -> Sequence[str]:
        """Return the arguments on the command line; raises ConfigError for an invalid flag."""
        if self.is_flag:
            if value.lower() not in (*_TRUE, *_FALSE):
                raise ConfigError(f"--{self.key} is neither true nor false", found=repr(value))
            return [str(self.option)] if value.lower() in _TRUE else []
        values = [part.strip() for part in value.split(",") if part.strip()] if self.is_list else [value]
        return values if self.option is None else [f"{self.option}={part}" for part in values]


def parameters_of(command: str) -> Sequence[JobParameter]:
    """Return the parameters of a command as a job, in order; a key is the name in its help."""
    (definition,) = typer.main.get_group(application(command)).commands.values()
    return [_parameter(parameter) for parameter in definition.params if parameter.name not in _OF_JOBS]


def _parameter(parameter: Any) -> JobParameter:
    is_argument = parameter.param_type_name == "argument"
    key = (parameter.metavar or parameter.name).lower() if is_argument else parameter.opts[0].removeprefix("--")
    return JobParameter(
        key=key,
        option=None if is_argument else parameter.opts[0],
        is_flag=bool(getattr(parameter, "is_flag", False)),
        is_list=parameter.nargs == -1 or parameter.multiple,
        is_required=parameter.required,
    )


def add_parameters(parser: ArgumentParser, command: str) -> None:
    """Add the parameters of a command to the parser of a job; a flag may have no value."""
    for parameter in parameters_of(command):
        value: dict[str, Any] = {"nargs": "?", "const": "true"} if parameter.is_flag else {}
        parser.add_argument(
            f"--{parameter.key}", dest=f"of_command_{parameter.key}", required=parameter.is_required, **value
        )


def words_of(command: str, parsed: Namespace) -> Sequence[str]:
    """Return the arguments and options of a command for the command line, arguments last."""
    options, arguments = list[str](), list[str]()
    for parameter in parameters_of(command):
        value = getattr(parsed, f"of_command_{parameter.key}")
        if value is not None:
            (arguments if parameter.option is None else options).extend(parameter.words(value))
    return [*options, *(["--", *arguments] if arguments else [])]


def run_command(command: str, words: Sequence[str], settings: str) -> Mapping[str, Any]:
    """Carry a command out in this process, and return its document.

    Raises what the command does, and ConfigError for what it does not take.
    """
    printed = io.StringIO()
    app = application(command)
    log = ["--log=json"] if "log" in _names_of(app) else []
    with _own_end(), redirect_stdout(printed):
        try:
            app([command, "--json", f"--config={settings}", *log, *words], standalone_mode=False)
        except LakewardError:
            raise
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            message = error.format_message()
            raise ConfigError(f"the arguments of the job are wrong: {message}", todo="Nothing was done.") from error
    content: dict[str, Any] = json.loads(printed.getvalue())
    return {name: value for name, value in content.items() if name not in ("schema_version", "command")}


def _names_of(app: typer.Typer) -> Sequence[str]:
    (definition,) = typer.main.get_group(app).commands.values()
    return [str(parameter.name) for parameter in definition.params]


@contextmanager
def _own_end() -> Iterator[None]:
    """Run the end callbacks of the command only, and keep those of the job."""
    of_job = AT_END.pop_all()
    try:
        yield
    finally:
        AT_END.close()
        AT_END.push(of_job)
