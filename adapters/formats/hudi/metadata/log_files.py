"""Which logs of a Hudi table readers still have to merge, as its timeline tells; no Spark is needed.

Files of a table are in groups: rows in a file, and behind it logs of what changed. A compaction writes the rows of
a group anew, and begins it again (hudi.apache.org/tech-specs-1point0/#file-layout-hierarchy).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from lakeward.adapters.formats.hudi.metadata.timeline import Instant

_ROWS: Final = ".parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of files as it is read now: the file with its `rows`, so many `logs`, and the `changes` in them.

    `size` is that of all of them, in bytes. A group may have no file of rows yet. `name` begins the names of its
    files.
    """

    partition: str
    name: str = ""
    rows: int = 0
    logs: int = 0
    changes: int = 0
    size: int = 0

    @property
    def files(self) -> int:
        """How many files are read."""
        return self.logs + (self.rows > 0)

    @property
    def share(self) -> float:
        """How many of its rows logs may have replaced or deleted, of all; a group of logs alone is all changes."""
        return min(1.0, self.changes / self.rows) if self.rows else float(self.changes > 0)


def with_logs(instants: Iterable[Instant]) -> Sequence[Group]:
    """Return the groups of a table that have logs; the writes may be in any order."""
    return [group for group in groups_of(instants) if group.logs]


def groups_of(instants: Iterable[Instant]) -> Sequence[Group]:
    """Return all groups of a table; the writes may be in any order."""
    written: dict[tuple[str, str], list[tuple[Instant, Mapping[str, Any]]]] = {}
    replaced: set[tuple[str, str]] = set()
    for instant in instants:
        content = instant.content()
        for partition, files in (content.get("partitionToReplaceFileIds") or {}).items():
            replaced |= {(partition, file) for file in files}
        for partition, stat in _stats(content):
            written.setdefault((partition, stat["fileId"]), []).append((instant, stat))
    return [_group(*place, said) for place, said in written.items() if place not in replaced]


def _stats(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for partition, stats in (content.get("partitionToWriteStats") or {}).items():
        for stat in stats:
            yield partition, stat


def _group(partition: str, name: str, written: Sequence[tuple[Instant, Mapping[str, Any]]]) -> Group:
    """Return a group that these files were written to: the newest of rows, and the logs completed behind it."""
    whole = [(instant.requested, stat) for instant, stat in written if stat["path"].endswith(_ROWS)]
    begun, file = max(whole, key=lambda one: one[0], default=("", None))
    found = Group(partition=partition, name=name)
    if file is not None:
        found = replace(found, rows=file["numWrites"], size=file["fileSizeInBytes"])
    for instant, stat in written:
        if not stat["path"].endswith(_ROWS) and instant.completed > begun:
            found = replace(
                found,
                logs=found.logs + 1,
                changes=found.changes + stat["numWrites"] + stat["numDeletes"],
                size=found.size + stat["fileSizeInBytes"],
            )
    return found
