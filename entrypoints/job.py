"""A command as a job of a platform: its arguments, the session that is there, a report, and how it ends.

`entrypoints.glue` and `entrypoints.emr` are the scripts; docs/how-to/aws/jobs.md is their page.
"""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import structlog

from lakeward.adapters.aws.s3.access import bucket_and_key, find_access, is_url, normal_url
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.text.suggestions import nearest
from lakeward.entrypoints.cli import exit_code_of
from lakeward.entrypoints.commands import run as running
from lakeward.entrypoints.job_command import (
    COMMANDS,
    RUN,
    WITHOUT_SPARK,
    add_parameters,
    run_command,
    words_of,
)
from lakeward.entrypoints.runtime.join_run import select_tables
from lakeward.entrypoints.runtime.reporting.logs import RUN_IDS, bind_run_ids
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.startup.context import AT_END, container_of, open_settings, start_logging
from lakeward.entrypoints.startup.process_memory import manage_memory
from lakeward.entrypoints.views import documents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()


class JobFailed(Exception):
    """The job failed. The text says what is wrong, what was found, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Arguments of a job: a `command` and its parameters.

    A run has `tables`, or the tables that read `object` (a URL), or all tables if neither is given. Another command
    has `words`, its arguments on the command line. `formats` are the table formats of the platform (None: unknown).
    """

    settings: str
    command: str = RUN
    words: Sequence[str] = ()
    tables: Sequence[str] = ()
    object: str | None = None
    report: str | None = None
    max_minutes: float | None = None
    formats: Collection[str] | None = None
    run_ids: Mapping[str, str]


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"the arguments of the job are wrong: {message}", todo=_TODO)


_TODO: Final = "docs/how-to/aws/jobs.md lists what a job takes. Nothing was run."


def read_arguments(arguments: Sequence[str], reserved: Collection[str] = ()) -> Request:
    """Read `--key value` and `--key=value`; raises ConfigError for keys that are neither ours nor `reserved`."""
    command = _command_of(arguments)
    parser = _Parser(allow_abbrev=False, add_help=False, usage="")
    parser.add_argument("--command")
    parser.add_argument("--settings", required=True)
    parser.add_argument("--report")
    parser.add_argument("--datalake-formats")
    if command == RUN:
        parser.add_argument("--tables", default="")
        parser.add_argument("--object")
        parser.add_argument("--max-minutes", type=_minutes)
    else:
        parser.set_defaults(tables="", object=None, max_minutes=None)
        add_parameters(parser, command)
    for name in RUN_IDS:
        parser.add_argument(f"--{name}")
    parsed, others = parser.parse_known_args(list(arguments))
    _refuse_unknown(others, reserved)
    formats = parsed.datalake_formats
    if parsed.object is not None and parsed.tables:
        raise ConfigError("--object and --tables do not go together: tables follow from the object", todo=_TODO)
    return Request(
        settings=parsed.settings,
        command=command,
        words=() if command == RUN else words_of(command, parsed),
        tables=[name.strip() for name in parsed.tables.split(",") if name.strip()],
        object=parsed.object,
        report=parsed.report,
        max_minutes=parsed.max_minutes,
        formats=None if formats is None else {name.strip().lower() for name in formats.split(",")},
        run_ids={name: value for name in RUN_IDS if (value := getattr(parsed, name)) is not None},
    )


def _command_of(arguments: Sequence[str]) -> str:
    """Return the command of a job; raises ConfigError for a command that cannot run as a job."""
    parser = _Parser(allow_abbrev=False, add_help=False, usage="")
    parser.add_argument("--command", default=RUN)
    command = str(parser.parse_known_args(list(arguments))[0].command)
    if command not in COMMANDS:
        raise ConfigError(
            f"there is no job for the command {command!r}",
            found=f"jobs are of {', '.join(COMMANDS)}",
            todo=nearest(command, COMMANDS) or _TODO,
        )
    return command


def _report_of(arguments: Sequence[str]) -> str | None:
    """Return the place of the report, even if other arguments are wrong."""
    parser = _Parser(allow_abbrev=False, add_help=False, usage="")
    parser.add_argument("--report")
    try:
        report: str | None = parser.parse_known_args(list(arguments))[0].report
    except ConfigError:  # it has no value
        return None
    return report


_OF_PIP: Final = "python-modules-installer-option"
"""The key of Glue whose value is options itself, as `--no-index`."""


def _refuse_unknown(words: Sequence[str], reserved: Collection[str]) -> None:
    """Raise ConfigError for a word that is neither a reserved key nor the value behind one."""
    takes_value = takes_options = False
    for word in words:
        key, has_value, _ = word.removeprefix("--").partition("=")
        if takes_options:
            takes_value = takes_options = False
        elif word.startswith("--") and key in reserved:
            takes_value = not has_value
            takes_options = takes_value and key == _OF_PIP
        elif takes_value and not word.startswith("--"):
            takes_value = False
        else:
            name = f"--{key}" if word.startswith("--") else word
            raise ConfigError(f"unknown argument {name}", todo=_TODO)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a number of minutes above 0")
    return minutes


def run(arguments: Sequence[str], reserved: Collection[str] = ()) -> dict[str, Any]:
    """Run tables once, or another command, by the arguments of a job; return its JSON document.

    The last log line has a summary, and `--report` the whole document. Raises JobFailed if a table failed, nothing
    could be run, a signal stopped the run, or the report cannot be written. Held keys and inexact tables (exit code
    3) do not fail a job, nor does a run that `--max-minutes` ended (75, without an error). Findings of `verify` do.
    """
    manage_memory()
    run_id = start_logging("json", debug=False)
    request, errors = None, list[str]()
    try:
        try:
            request = read_arguments(arguments, reserved)
            bind_run_ids(request.run_ids)
            content = _run_request(request)
        except LakewardError as error:
            content = {"error": documents.error(error), "exit_code": exit_code_of(error)}
        ids = {} if request is None else request.run_ids
        command = RUN if request is None else request.command
        report = _report_of(arguments) if request is None else request.report
        structlog.contextvars.bind_contextvars(run=run_id, **ids)
        document = documents.json_values(command, {"run": run_id, **ids, **content})
        errors += _errors(document)
        if report is not None:
            errors += _write(report, json.dumps(document, indent=2, ensure_ascii=False))
        log.info("ended", exit_code=document["exit_code"], tables=_applied_counts(document), errors=errors)
    finally:
        AT_END.close()
    if errors:
        raise JobFailed("\n".join(errors))
    return document


def _run_request(request: Request) -> Mapping[str, Any]:
    from lakeward.adapters.spark.session.spark_session import using_session  # noqa: PLC0415  # a wrong argument needs no Spark

    if request.command in WITHOUT_SPARK:
        return run_command(request.command, request.words, request.settings)
    configured = _open(request)
    with using_session(_session(configured)):
        if request.command != RUN:
            return run_command(request.command, request.words, request.settings)
        tables = request.tables if request.object is None else tables_that_read(configured, request.object)
        wanted = select_tables(configured, tables)
        result = running.run_once(configured, wanted, minutes=request.max_minutes)
    for words in result.findings.warnings:
        log.warning("caution", what=words)
    return {**running.document(result), "was_stopped": result.was_stopped}


def tables_that_read(configured: Configuration, url: str) -> Sequence[str]:
    """Return the tables that read an object; raises ConfigError if none does."""
    with container_of(configured) as container:
        tables: Sequence[str] = container.tables_at()(url)
    if not tables:
        raise ConfigError(
            f"no table reads {url}",
            found="no table of the settings has this bucket and folder, or the table does not read such files",
            todo="Nothing was run. Correct --object, which is a URL as s3://bucket/folder/file.parquet, or leave "
            "it out: all tables are run then.",
        )
    return tables


def _open(request: Request) -> Configuration:
    """Return the settings of a file or a store; relative paths of a store are relative to the current folder."""
    configured = open_settings(request.settings, asks=True)
    kind = configured.settings.target["kind"]
    if request.formats is not None and kind not in request.formats:
        raise ConfigError(
            f"the tables are of the kind {kind!r}, and the job was not started with it",
            found=f"--datalake-formats is {', '.join(sorted(request.formats))}",
            todo=f"Start the job with --datalake-formats {kind}.",
        )
    return configured


def _session(configured: Configuration) -> SparkSession:
    """Return the Spark session of the platform; a new one is started with the static options of table formats."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # slow to import

    with container_of(configured) as container:
        container.source(), container.target()
        settings = container.runtime().settings
    builder = SparkSession.builder.appName(f"lakeward {configured.settings.pipeline.name}")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _write(place: str, text: str) -> Sequence[str]:
    """Write a report to a file or an object of S3; return a sentence if that failed."""
    try:
        if is_url(place):
            access = find_access()
            from lakeward.adapters.aws.s3.error_messages import explain_s3_errors  # noqa: PLC0415  # it imports boto3

            bucket, key = bucket_and_key(normal_url(place))
            with explain_s3_errors(place):
                access.client.put_object(Bucket=bucket, Key=key, Body=text.encode(), ContentType="application/json")
        else:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            Path(place).write_text(text, "utf-8")
    except (LakewardError, OSError) as error:
        return [f"The report {place} could not be written: {error}"]
    return []


def _applied_counts(document: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the number of applied events of each table of a run."""
    return {table["table"]: table["counts"]["applied"] for table in document.get("tables", ()) if "counts" in table}


def _errors(document: Mapping[str, Any]) -> Sequence[str]:
    """Return the text with which the job fails: the error of the whole, of tables, or of the exit code."""
    errors = [document.get("error"), *map(_error_of, document.get("tables", ()))]
    errors += map(_error_of, document.get("joined", ()))
    words = [". ".join(str(part) for part in (e["what"], e["found"], e["todo"]) if part) for e in errors if e]
    command, code = document["command"], document["exit_code"]
    if command == RUN:
        stopped = ["A signal stopped the run: what was not begun waits for the next one."]
        return [*words, *(stopped if document.get("was_stopped") else [])]
    if code == 0 or (code == 3 and command != "verify"):
        return []
    return words or [f"`lakeward {command}` ended with {code}: the report has what it found."]


def _error_of(table: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the error of a table, or the error that ended its last run."""
    error: Mapping[str, Any] | None = table.get("error") or table.get("last_error")
    return error
