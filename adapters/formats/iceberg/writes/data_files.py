"""The data files of a snapshot of an Iceberg table, each with its delete files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from lakeward.adapters.formats.iceberg.java import Jvm

_PARQUET: Final = "parquet"
OF_POSITIONS: Final = "position-deletes"
"""Iceberg's name for the content of position delete files."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file: Iceberg's scan `task`, its format, its `rows`, and its `deletes` as Iceberg describes them.

    A description is what `ContentFileParser` writes, with names such as `file-path` and `content-offset`.
    """

    task: Any
    format: str
    size: int
    rows: int
    deletes: Sequence[Mapping[str, Any]]

    @property
    def is_simple(self) -> bool:
        """Whether it is a Parquet file whose rows are deleted by position only."""
        kinds = {delete["content"] for delete in self.deletes}
        return self.format == _PARQUET and kinds <= {OF_POSITIONS}


class DataFiles:
    """The data files of a snapshot by path. They are planned as far as they are asked for.

    `snapshot` is None for a table without one. A call to Java takes a tenth of a millisecond: one call for each
    file gets all that is needed of it.
    """

    def __init__(self, jvm: Jvm, table: Any, snapshot: Any) -> None:
        self._jvm = jvm
        self._files: dict[str, DataFile] = {}
        self._rest = _tasks(jvm, table, snapshot)

    def at_most(self, count: int) -> Mapping[str, DataFile] | None:
        """Return all files, or None if there are more than `count`."""
        self._take(islice(self._rest, count + 1 - len(self._files)))
        return None if len(self._files) > count else self._files

    def all(self) -> Mapping[str, DataFile]:
        """Return all files."""
        self._take(self._rest)
        return self._files

    def _take(self, tasks: Iterator[Any]) -> None:
        describe = self._jvm.iceberg.ScanTaskParser.toJson
        for task in tasks:
            described = json.loads(describe(task))
            file, deletes = described["data-file"], [_named(delete) for delete in described.get("delete-files", ())]
            size, rows = file["file-size-in-bytes"], file["record-count"]
            self._files[file["file-path"]] = DataFile(task, _named(file)["file-format"], size, rows, deletes)


def _named(file: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a file's description with its kinds in lower case: older Iceberg writes `POSITION_DELETES`."""
    return {**file, **{name: file[name].lower().replace("_", "-") for name in ("content", "file-format")}}


def _tasks(jvm: Jvm, table: Any, snapshot: Any) -> Iterator[Any]:
    if snapshot is not None:
        yield from jvm.iterate(table.newScan().useSnapshot(snapshot.snapshotId()).planFiles())
