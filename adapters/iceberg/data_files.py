"""The data files of a snapshot of an Iceberg table, with the deletes that are of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from lakeward.adapters.iceberg.java import Jvm


class DataFiles:
    """Iceberg's scan tasks of the data files of a snapshot, by their paths; planned as far as they are asked for.

    `snapshot` is None of a table that has none.
    """

    def __init__(self, jvm: Jvm, table: Any, snapshot: Any) -> None:
        self._found: dict[str, Any] = {}
        self._rest = _tasks(jvm, table, snapshot)

    def at_most(self, count: int) -> Mapping[str, Any] | None:
        """Return all files, or None where they are more than so many."""
        self._take(islice(self._rest, count + 1 - len(self._found)))
        return None if len(self._found) > count else self._found

    def all(self) -> Mapping[str, Any]:
        """Return all files."""
        self._take(self._rest)
        return self._found

    def _take(self, tasks: Iterator[Any]) -> None:
        self._found |= {str(task.file().location()): task for task in tasks}


def _tasks(jvm: Jvm, table: Any, snapshot: Any) -> Iterator[Any]:
    if snapshot is not None:
        yield from jvm.iterate(table.newScan().useSnapshot(snapshot.snapshotId()).planFiles())
