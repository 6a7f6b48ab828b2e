"""Options, lock, job and clock shared by the commands with which an operator decides about one table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lakeward.entrypoints.runtime.locks.writer_lease import exclusive_container
from lakeward.entrypoints.startup.context import open_settings, start_logging, user

if TYPE_CHECKING:
    from lakeward.core.pipeline.job import Job

Table = Annotated[str, typer.Argument(help="The table, as schema.table.")]
Why = Annotated[str | None, typer.Option("--reason", help="The reason, stored with the decision.")]
Who = Annotated[str | None, typer.Option("--by", help="Your name; by default the user of this process.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


class Decision(NamedTuple):
    """Table and job of a decision, name of the operator, and time in microseconds since 1970."""

    table: str
    job: Job[Any]
    by: str
    at: int


@contextmanager
def deciding(table: str, by: str | None, config: str, *, debug: bool) -> Iterator[Decision]:
    """Open the job of one table for a decision, while no run may write to it."""
    start_logging("off", debug=debug)
    configured = open_settings(config)
    (name,) = configured.choose([table])
    with exclusive_container(configured) as container:
        yield Decision(str(name), container.job(table=name), by or user(), container.runtime().now())


def asks(*, yes: bool, as_json: bool) -> bool:
    """Return True if a person at a terminal is to confirm."""
    return not (yes or as_json) and sys.stdin.isatty()
