"""Merge the small data files of an Iceberg table in this process, in a commit that changes no row.

Iceberg's own action runs Spark jobs, which take longer than the batches between which a run compacts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyiceberg.io import FileIO

from lakeward.adapters.formats.iceberg.java import Jvm, indexed, lost_race
from lakeward.adapters.formats.iceberg.writes.data_files import DataFile, DataFiles
from lakeward.adapters.formats.iceberg.writes.local_files import read_files, write_rows
from lakeward.adapters.formats.shared.operations.commit_failures import discarding_on_failure

_MOST_BYTES: Final = 64 * 1024**2
"""The most bytes of files that are merged in this process, as stored in them."""

_FORMAT: Final = 2
"""The format version of tables that are merged here. In version 3 rows have ids, which Iceberg's action keeps."""


def merge_files(
    jvm: Jvm, table: Any, io: FileIO, *, count: int, size: int, note: tuple[str, str]
) -> tuple[int, int] | None:
    """Merge the files of less than `size` bytes if they are at least `count`; return their number and bytes.

    `note` is a property of the snapshot. Returns None, and changes nothing, if only Spark can do it. Raises what
    a commit of the table raises.
    """
    snapshot = table.currentSnapshot()
    version = int(jvm.iceberg.TableUtil.formatVersion(table))
    if snapshot is None or version != _FORMAT or _is_partitioned(jvm, table):
        return None
    files = DataFiles(jvm, table, snapshot).all()
    small = {path: file for path, file in files.items() if file.size < size}
    total = sum(file.size for file in small.values())
    if len(small) < max(count, 2):
        return 0, 0
    if total > _MOST_BYTES:
        return None
    merge = _FileMerge(jvm, table, snapshot, [file.task for file in small.values()])
    with discarding_on_failure(str(table.name()), merge, "the catalog"):
        if not merge.write(io, small):
            return None
        merge.commit(note)
    return len(small), total


def _is_partitioned(jvm: Jvm, table: Any) -> bool:
    """Return whether files of the table have partitions, now or from before."""
    return any(spec.isPartitioned() for spec in jvm.items(table.specs().values()))


class _FileMerge:
    """A data file with the rows of others, which it replaces. It is not visible before the commit."""

    def __init__(self, jvm: Jvm, table: Any, snapshot: Any, tasks: Sequence[Any]) -> None:
        self.jvm = jvm
        self.table = table
        self.snapshot = snapshot
        self.tasks = tasks
        self.added: Any = None
        self.is_sent = False

    def write(self, io: FileIO, files: Mapping[str, DataFile]) -> bool:
        """Write the rows of the files that are not deleted; return whether this process could do it."""
        rows = read_files(self.jvm, self.table, files, io)
        if rows is None or not rows.num_rows:
            return False
        self.added = write_rows(self.jvm, self.table, io, rows)
        return self.added is not None

    def commit(self, note: tuple[str, str]) -> None:
        """Replace the files and their deletes by the new one, as they were in the snapshot that was read."""
        scoped = self.jvm.iceberg.util.ContentFileUtil.isFileScoped
        rewrite = self.table.newRewrite().validateFromSnapshot(self.snapshot.snapshotId())
        rewrite.dataSequenceNumber(self.snapshot.sequenceNumber())  # later deletes by value are of its rows, too
        for task in self.tasks:
            rewrite.deleteFile(task.file())
            for delete in indexed(task.deletes()):
                if scoped(delete):
                    rewrite.deleteFile(delete)
        rewrite.addFile(self.added)
        self.is_sent = True
        rewrite.set(*note).commit()

    def may_be_committed(self, error: BaseException) -> bool:
        """Return whether the catalog may have the commit, although it ended with an error."""
        return self.is_sent and not lost_race(error)

    def discard(self) -> None:
        """Delete the file that was written and will not be committed."""
        if self.added is not None:
            self.table.io().deleteFile(self.added.location())
