"""`lakeward as-of`: show the rows of a history that were valid at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from lakeward.core.history import as_of
from lakeward.core.history.instants import value_of_instant
from lakeward.core.history.options import History
from lakeward.core.history.refusals import no_versions, refuse_other_history
from lakeward.core.operations.read_rows import nothing_yet, reading_of, valid_at
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import Sample
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.commands.common.folder_replacement import place, replacing
from lakeward.entrypoints.runtime.join_run import job_of
from lakeward.entrypoints.settings.models.history import instant_of
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
from lakeward.entrypoints.views.safe_text import escaped, plain

HELP = """Show the rows of a history that were valid at a time: from `valid_from` up to, and without, `valid_to`.

TIME has the type of these columns: a date (2026-11-05), a time (2026-11-05 or '2026-11-05 10:00', in UTC if it has
no offset; a day is its first instant), a number, or `now`. With --to all rows are written as Parquet into a folder,
whose content is replaced. With --sql the query for another engine is printed, and Spark is not started.

Example: [bold]lakeward as-of shop.customer 2026-11-05[/]
"""

_SAMPLE: Final = 20

Table = Annotated[str, typer.Argument(help="The table, as schema.table.")]
Time = Annotated[str, typer.Argument(help="The time at which the rows were valid.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=0, help="Show at most this many rows.", show_default=f"{_SAMPLE}")
]
To = Annotated[str | None, typer.Option("--to", help="The folder for all rows, as Parquet.")]
Known = Annotated[
    int | None,
    typer.Option(
        "--known",
        min=1,
        help="The rows as known after this batch; only for a history with `known`.",
        show_default="now",
    ),
]
Sql = Annotated[
    Literal["spark", "duckdb", "trino"] | None,
    typer.Option("--sql", help="Only print the query, in the SQL of this engine (`trino` for Athena)."),
]


def as_of_time(
    table: Table,
    time: Time,
    limit: Limit = None,
    to: To = None,
    known: Known = None,
    sql: Sql = None,
    config: Config = DEFAULT_FILE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show rows, write them to a folder, or print the query."""
    if to is not None and sql is not None:
        raise typer.BadParameter("--to writes rows, and --sql prints a query: give one of them")
    if limit is not None and (to is not None or sql is not None):
        raise typer.BadParameter("--limit is for the rows that are shown; it cannot be combined with --to or --sql")
    start_logging("off", debug=debug)
    folder = None if to is None else place(to)
    configured = open_settings(config)
    (name,) = configured.choose_any([table])
    with container_of(configured) as container:
        job = job_of(container, name)
        history = job.dimension.history
        if history is None:
            raise no_versions(name, "read as of a time")
        at = instant_of(time, history, container.runtime().now())
        wanted = valid_at(job, at, known)
        query = {
            "table": str(name),
            "at": documents.cell(value_of_instant(at, history.validity_columns.type)),
            "known": known,
        }
        if sql is not None:
            return _print_query(query, _query(job, history, at, known, sql), as_json=as_json)
        reading = reading_of(job)
        if folder is None:
            return _print_sample(query, reading.first(wanted, _SAMPLE if limit is None else limit), as_json=as_json)
        with replacing(folder) as fresh:
            rows = reading.write(wanted, str(fresh))
    return _print_written(query, rows, folder, as_json=as_json)


def _query(job: Job[Any], history: History, at: int, known: int | None, engine: str) -> str:
    """Return the query for the columns of the table; raises ConfigError if the table does not exist yet."""
    dialect = as_of.DIALECTS[engine]
    state = job.opened.table.state()
    refuse_other_history(job.dimension, state.progress)
    of = job.dimension
    if state.schema is None or not state.progress.batch:
        raise nothing_yet(of.name)
    # The settings may have a rename that no batch has applied yet.
    columns = history.schema(state.schema, of.key, of.policies.renames)
    listed = ", ".join(map(dialect.name, columns.names))
    name = ".".join(map(dialect.name, job.opened.parts or of.name))
    return f"SELECT {listed}\nFROM {name}\nWHERE {as_of.valid_at(history, at, known, dialect)}"


def _print_query(header: Mapping[str, Any], query: str, *, as_json: bool) -> int:
    if as_json:
        documents.emit("as-of", {**header, "sql": query, "exit_code": 0})
    else:
        for line in query.splitlines():
            terminal.console().print(plain(line), soft_wrap=True)
    return 0


def _print_written(header: Mapping[str, Any], rows: int, folder: Path, *, as_json: bool) -> int:
    if as_json:
        documents.emit("as-of", {**header, "rows": rows, "to": str(folder), "exit_code": 0})
    else:
        words = f"{format_count(rows, 'row')} of {header['table']} as of {_moment(header)}: {folder}"
        terminal.console().print(plain(words), soft_wrap=True)
    return 0


def _print_sample(header: Mapping[str, Any], sample: Sample, *, as_json: bool) -> int:
    if as_json:
        first = [{name: documents.cell(row[name]) for name in sample.columns} for row in sample.first]
        documents.emit("as-of", {**header, "rows": sample.rows, "first": first, "exit_code": 0})
        return 0
    out = terminal.console()
    if sample.first:
        grid = terminal.grid(*map(escaped, sample.columns))
        for row in sample.first:
            grid.add_row(*[plain(terminal.cell(row[name])) for name in sample.columns])
        out.print(grid)
    more = sample.rows - len(sample.first)
    out.print(
        plain(f"{format_count(sample.rows, 'row')} of {header['table']} as of {_moment(header)}"), soft_wrap=True
    )
    if more:
        out.print(f"… of which {format_count(more, 'is', 'are')} not shown; --to FOLDER writes them all.")
    return 0


def _moment(header: Mapping[str, Any]) -> str:
    return f"{header['at']}".replace("T", " ").replace("Z", " UTC")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("as-of", help=HELP)(as_of_time)
