"""What the commands share by which an operator decides something about one table: options, lock, job, clock."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lakeward.entrypoints.runtime.locks.writer_lease import alone
from lakeward.entrypoints.startup.context import open_settings, start_logging, user

if TYPE_CHECKING:
    from lakeward.core.pipeline.job import Job

Table = Annotated[str, typer.Argument(help="The table, as schema.table.")]
Why = Annotated[str | None, typer.Option("--reason", help="Why; for who asks later.")]
Who = Annotated[str | None, typer.Option("--by", help="Who; by default the user of this process.")]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing, on a terminal either.")]


class Decision(NamedTuple):
    """The table that is decided about, who decides, and when, in microseconds since 1970."""

    table: str
    job: Job[Any]
    by: str
    at: int


@contextmanager
def deciding(table: str, by: str | None, config: str, *, debug: bool) -> Iterator[Decision]:
    """Give one table of the settings to a decision, while no run may work on it."""
    start_logging("off", debug=debug)
    configured = open_settings(config)
    (name,) = configured.choose([table])
    with alone(configured) as container:
        yield Decision(str(name), container.job(table=name), by or user(), container.runtime().now())


def asks(*, yes: bool, as_json: bool) -> bool:
    """Whether a person is there to be asked, and wants to be."""
    return not (yes or as_json) and sys.stdin.isatty()
