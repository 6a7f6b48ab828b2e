"""The data files of a snapshot of an Iceberg table, with the deletes that are of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from lakeward.adapters.formats.iceberg.java import Jvm

_PARQUET: Final = "parquet"
OF_POSITIONS: Final = "position-deletes"
"""What Iceberg calls the content of a file that tells deleted rows by their positions."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file: Iceberg's scan `task` of it, and what that says of the file and its `deletes`.

    Of these it says what `ContentFileParser` writes, by names as `file-path` and `content-offset`.
    """

    task: Any
    format: str
    deletes: Sequence[Mapping[str, Any]]

    @property
    def is_simple(self) -> bool:
        """Whether it is of Parquet, and what was deleted of it is told by positions."""
        kinds = {delete["content"] for delete in self.deletes}
        return self.format == _PARQUET and kinds <= {OF_POSITIONS}


class DataFiles:
    """The data files of a snapshot, by their paths; planned as far as they are asked for.

    `snapshot` is None of a table that has none. Each call to Java takes a tenth of a millisecond: one call for each
    file says all that there is to know of it.
    """

    def __init__(self, jvm: Jvm, table: Any, snapshot: Any) -> None:
        self._jvm = jvm
        self._found: dict[str, DataFile] = {}
        self._rest = _tasks(jvm, table, snapshot)

    def at_most(self, count: int) -> Mapping[str, DataFile] | None:
        """Return all files, or None where they are more than so many."""
        self._take(islice(self._rest, count + 1 - len(self._found)))
        return None if len(self._found) > count else self._found

    def all(self) -> Mapping[str, DataFile]:
        """Return all files."""
        self._take(self._rest)
        return self._found

    def _take(self, tasks: Iterator[Any]) -> None:
        describe = self._jvm.iceberg.ScanTaskParser.toJson
        for task in tasks:
            described = json.loads(describe(task))
            file, deletes = described["data-file"], [_named(delete) for delete in described.get("delete-files", ())]
            self._found[file["file-path"]] = DataFile(task, _named(file)["file-format"], deletes)


def _named(file: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is said of a file, with its kinds in small letters: an older Iceberg has `POSITION_DELETES`."""
    return {**file, **{name: file[name].lower().replace("_", "-") for name in ("content", "file-format")}}


def _tasks(jvm: Jvm, table: Any, snapshot: Any) -> Iterator[Any]:
    if snapshot is not None:
        yield from jvm.iterate(table.newScan().useSnapshot(snapshot.snapshotId()).planFiles())
