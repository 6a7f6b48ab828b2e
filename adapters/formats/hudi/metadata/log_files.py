"""The log files of a Hudi table that readers still have to merge, from its timeline, without Spark.

Files of a table are in groups: a file with rows, and logs with later changes. A compaction rewrites the rows of a
group and begins it again (hudi.apache.org/tech-specs-1point0/#file-layout-hierarchy).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from lakeward.adapters.formats.hudi.metadata.timeline import Instant

_ROWS: Final = ".parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of files as readers see it: the rows in its base file, the number of logs, and the changes in them.

    `size` is that of all its files, in bytes. A group may have no base file yet. `name` is the prefix of its files.
    """

    partition: str
    name: str = ""
    rows: int = 0
    logs: int = 0
    changes: int = 0
    size: int = 0

    @property
    def files(self) -> int:
        """How many files readers open."""
        return self.logs + (self.rows > 0)

    @property
    def share(self) -> float:
        """The share of its rows that logs may have replaced or deleted; a group of logs alone is all changes."""
        return min(1.0, self.changes / self.rows) if self.rows else float(self.changes > 0)


def with_logs(instants: Iterable[Instant]) -> Sequence[Group]:
    """Return the groups of a table that have logs. The writes may be in any order."""
    return [group for group in groups_of(instants) if group.logs]


def groups_of(instants: Iterable[Instant]) -> Sequence[Group]:
    """Return all groups of a table. The writes may be in any order."""
    written: dict[tuple[str, str], list[tuple[Instant, Mapping[str, Any]]]] = {}
    replaced: set[tuple[str, str]] = set()
    for instant in instants:
        content = instant.content()
        for partition, files in (content.get("partitionToReplaceFileIds") or {}).items():
            replaced |= {(partition, file) for file in files}
        for partition, stat in _stats(content):
            written.setdefault((partition, stat["fileId"]), []).append((instant, stat))
    return [_group(*place, writes) for place, writes in written.items() if place not in replaced]


def _stats(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for partition, stats in (content.get("partitionToWriteStats") or {}).items():
        for stat in stats:
            yield partition, stat


def _group(partition: str, name: str, written: Sequence[tuple[Instant, Mapping[str, Any]]]) -> Group:
    """Return a group that these files were written to: the newest base file, and the logs completed after it."""
    base_files = [(instant.requested, stat) for instant, stat in written if stat["path"].endswith(_ROWS)]
    base_requested, file = max(base_files, key=lambda item: item[0], default=("", None))
    group = Group(partition=partition, name=name)
    if file is not None:
        group = replace(group, rows=file["numWrites"], size=file["fileSizeInBytes"])
    for instant, stat in written:
        if not stat["path"].endswith(_ROWS) and instant.completed > base_requested:
            group = replace(
                group,
                logs=group.logs + 1,
                changes=group.changes + stat["numWrites"] + stat["numDeletes"],
                size=group.size + stat["fileSizeInBytes"],
            )
    return group
