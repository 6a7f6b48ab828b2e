"""The queue of a pipeline without [queue]: every table is checked each time."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.core.ports import Notice
from lakeward.plugins import Options, Registry, Runtime, hookimpl


class Poll:
    """A queue that returns a notice for every configured table each time. Nothing needs to be acknowledged."""

    def __init__(self, tables: Sequence[str]) -> None:
        self.tables = tables

    def receive(self) -> Sequence[Notice]:
        """Return a notice for every table."""
        return [Notice(table) for table in self.tables]

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Do nothing: the next poll returns all tables again."""

    def give_back(self, notices: Sequence[Notice]) -> None:
        """Do nothing: the next poll returns all tables again."""

    def extend(self, notices: Sequence[Notice]) -> None:
        """Do nothing: no notice is ever hidden."""


def build(options: Options, runtime: Runtime) -> Poll:
    """Build the queue from the names of the configured tables."""
    return Poll(options["tables"])


@hookimpl
def register(registry: Registry) -> None:
    """Register the queue `poll`."""
    registry.queues.add("poll", build)
