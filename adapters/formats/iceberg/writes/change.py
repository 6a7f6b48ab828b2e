"""A change to an Iceberg table: staged file by file, then committed or discarded as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyroaring import BitMap64
from pyspark.sql import DataFrame

from lakeward.adapters.formats.iceberg.java import Jvm, indexed, lost_race
from lakeward.adapters.formats.iceberg.metadata.progress import PROPERTY, SCHEMA_PROPERTY, TAG
from lakeward.adapters.formats.iceberg.writes.data_files import DataFiles
from lakeward.adapters.formats.iceberg.writes.local_files import write_rows
from lakeward.adapters.formats.iceberg.writes.position_deletes import Deletion, deletions, write_deletes
from lakeward.adapters.formats.shared.operations.commit_failures import not_as_planned
from lakeward.adapters.formats.shared.rows.new_rows import remaining_rows
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.errors import CommitConflict
from lakeward.core.events import Position, SourceOrder
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import Kind, SchemaChange


class Change:
    """Files that a commit adds and removes. They are written, and not visible before the commit.

    `base` is the snapshot that was read, None for a table without one, and `files` are its data files. Raises
    CommitConflict if the table has another snapshot, now or before the commit. (Iceberg refreshes a table when a
    transaction begins and when it ends, but validates nothing against a commit without files.)
    """

    def __init__(self, jvm: Jvm, table: Any, io: FileIO, base: Any, files: DataFiles | None = None) -> None:
        self.jvm = jvm
        self.transaction = table.newTransaction()
        self.table = self.target = table
        self.io = io
        self.base = base
        self.files = files or DataFiles(jvm, table, base)
        self._refuse_others()
        self.schema_changes: Sequence[SchemaChange] = ()
        self.added: list[Any] = []
        self.deletions: list[Deletion] = []
        self.delete_files: list[Any] = []
        self.removed_files: list[Any] = []
        self.dropped: list[Any] = []
        self.dropped_rows = 0
        self.rewritten_rows = 0
        self.is_sent = False

    def _refuse_others(self) -> None:
        if number_of(self.base) != number_of(self.table.currentSnapshot()):
            raise CommitConflict(
                f"{self.table.name()}: another writer has committed to the table since it was read",
                todo="Nothing of this batch was applied. Run again when the other writer is done.",
            )

    def evolve(self, changes: Sequence[SchemaChange]) -> None:
        """Change columns and types of the table; rows added from now on have them."""
        self._rename({change.path: change.to for change in changes if change.to is not None})
        update = self.transaction.updateSchema()
        for change in changes:
            if change.after is None or change.kind is Kind.RENAME:
                continue
            type_, (*parent, name) = self.jvm.type(ddl(change.after)), change.names
            if change.kind is Kind.ADD:
                update.addColumn(".".join(parent) or None, name, type_)  # without a parent a name may have dots
            else:
                update.updateColumn(change.path, type_.asPrimitiveType())
        update.commit()
        self.target = self.transaction.table()
        self.schema_changes = changes

    def _rename(self, renames: Mapping[str, str]) -> None:
        """Rename columns, before all other changes. Their data is not touched."""
        if renames:
            update = self.transaction.updateSchema()
            for old, new in renames.items():
                update.renameColumn(old, new)
            update.commit()

    def add(self, rows: DataFrame) -> None:
        """Write new rows."""
        self.added += self.jvm.stage(self.target, rows)

    def add_here(self, rows: pa.Table | None) -> bool:
        """Write new rows from this process, if they are in it; return whether they were written."""
        file = None if rows is None else write_rows(self.jvm, self.target, self.io, rows)
        self.added += [] if file is None else [file]
        return file is not None

    def reading_added(self) -> AbstractContextManager[DataFrame]:
        """Read the new rows that were written, while the context lasts."""
        return self.jvm.reading(self.target, [self.jvm.task(self.target, file) for file in self.added])

    def delete_metadata(self) -> None:
        """Delete the metadata of a table that was dropped, and its folders if they are empty."""
        current, hadoop = self.table.operations().current(), self.jvm.gateway.jvm.org.apache.hadoop.fs
        for file in [current.metadataFileLocation(), *(old.file() for old in indexed(current.previousFiles()))]:
            self.table.io().deleteFile(file)
        for name in ("metadata", "data", ""):
            folder = hadoop.Path(f"{self.table.location()}/{name}".rstrip("/"))
            files = folder.getFileSystem(self.jvm.spark._jsparkSession.sessionState().newHadoopConf())
            if files.exists(folder) and not len(files.listStatus(folder)):
                files.delete(folder, False)

    def delete(self, positions: Mapping[str, BitMap64]) -> None:
        """Mark rows as deleted, given by their positions in each data file. A file without other rows goes."""
        self.deletions = deletions(self.jvm, str(self.table.name()), self.io, self.files.all(), positions)
        version = self.jvm.iceberg.TableUtil.formatVersion(self.table)
        partial_deletions = [deletion for deletion in self.deletions if not deletion.is_whole]
        self.delete_files += write_deletes(self.jvm, self.table, self.io, partial_deletions, version=version)

    def rewrite(self, files: Sequence[str], removed: DataFrame, plan: MergePlan, rows: DataFrame | None) -> None:
        """Rewrite these files without the rows whose keys are in `removed`, and with new `rows`."""
        tasks = self._tasks(files)
        self.removed_files = [task.file() for task in tasks.values()]
        with self.jvm.reading(self.table, list(tasks.values())) as old:
            remaining = remaining_rows(plan, old, removed)
            all_rows = remaining if rows is None else remaining.unionByName(rows, allowMissingColumns=True)
            self.added += self.jvm.stage(self.target, all_rows)
            live_rows = [self._live_rows(task) for task in tasks.values()]
            self.rewritten_rows = old.count() if None in live_rows else sum(n for n in live_rows if n)

    def drop_below(self, place: Position) -> Sequence[str]:
        """Drop the files whose rows all lie below a position, by their bounds; return their paths."""
        if self.base is None:
            return []
        scan, util = self.table.newScan().useSnapshot(self.base.snapshotId()).includeColumnStats(), self.jvm.iceberg
        columns = [self.table.schema().findField(name) for name in (names.EPOCH, names.SEQUENCE)]
        for task in self.jvm.iterate(scan.planFiles()):
            bounds = task.file().upperBounds() or {}
            ends = [
                util.types.Conversions.fromByteBuffer(column.type(), bounds[column.fieldId()])
                for column in columns
                if column.fieldId() in bounds
            ]
            rows = self._live_rows(task)
            if len(ends) == len(columns) and rows is not None and SourceOrder(*map(int, ends)) < place.source_order:
                self.dropped.append(task)
                self.dropped_rows += rows
        return [str(task.file().location()) for task in self.dropped]

    def drop_all(self, rows: int) -> None:
        """Drop every file of the table. `rows` is the number of its rows, for files whose counts are not exact."""
        if self.base is None:
            return
        self.dropped = [file.task for file in self.files.all().values()]
        live_rows = [self._live_rows(task) for task in self.dropped]
        self.dropped_rows = rows if None in live_rows else sum(count for count in live_rows if count)

    def _live_rows(self, task: Any) -> int | None:
        """Return the number of rows left in a data file, or None if only reading it can tell."""
        deletes, files = list(indexed(task.deletes())), self.jvm.iceberg.util.ContentFileUtil
        if not all(files.isFileScoped(delete) for delete in deletes):
            return None
        return int(task.file().recordCount() - sum(delete.recordCount() for delete in deletes))

    def _tasks(self, paths: Iterable[str]) -> Mapping[str, Any]:
        """Return the scan tasks of data files by their paths."""
        files = self.files.all()
        return {path: files[path].task for path in paths}

    def check(self, table_name: str, written: int, removed: int) -> None:
        """Compare the files with the planned rows. Raises ConservationError before any commit."""
        added = sum(file.recordCount() for file in self.added) - self.rewritten_rows
        deleted = sum(d.newly_deleted for d in self.deletions) + self.dropped_rows
        net = written - (removed - self.dropped_rows) if self.removed_files else written
        if added != net or (not self.removed_files and deleted != removed):
            raise not_as_planned(table_name, (written, removed), (added, deleted))

    def commit(
        self, progress: Progress, written: int, removed: int, run_ids: Mapping[str, str] = MappingProxyType({})
    ) -> Commit:
        """Make the change visible with the progress and the run's ids, and move the tag, in one transaction."""
        transaction = self.transaction
        update = self._update(transaction).set(PROPERTY, progress.to_json())
        for name, value in run_ids.items():
            update.set(f"lakeward.{name}", value)
        if self.schema_changes:
            update.set(SCHEMA_PROPERTY, "; ".join(map(str, self.schema_changes)))
        update.commit()
        snapshot = transaction.table().currentSnapshot().snapshotId()
        tags = transaction.manageSnapshots()
        if self.table.refs().containsKey(TAG):
            tags.replaceTag(TAG, snapshot).commit()
        else:
            tags.createTag(TAG, snapshot).commit()
        self.table.refresh()
        self._refuse_others()
        self.is_sent = True
        transaction.commitTransaction()
        return Commit(str(snapshot), written, removed)

    def _update(self, transaction: Any) -> Any:
        """Return the update that adds and removes files, valid only on the state that was read."""
        always = self.jvm.iceberg.expressions.Expressions.alwaysTrue()
        if self.removed_files:
            update = transaction.newOverwrite().conflictDetectionFilter(always)
            update = update.validateNoConflictingData().validateNoConflictingDeletes()
            for file in [*self.removed_files, *(task.file() for task in self.dropped)]:
                update.deleteFile(file)
            for file in self.added:
                update.addFile(file)
        else:
            update = self._row_delta(transaction.newRowDelta(), always)
        return update if self.base is None else update.validateFromSnapshot(self.base.snapshotId())

    def _row_delta(self, update: Any, always: Any) -> Any:
        """Fill an update that marks rows as deleted, drops files and adds others."""
        update = update.conflictDetectionFilter(always).validateDeletedFiles()
        update = update.validateNoConflictingDataFiles().validateNoConflictingDeleteFiles()
        update.validateDataFilesExist(
            self.jvm.list([deletion.path for deletion in self.deletions if not deletion.is_whole])
        )
        files = self.jvm.iceberg.util.ContentFileUtil
        for task in self.dropped:
            update.removeRows(task.file())
            for delete in indexed(task.deletes()):
                if files.isFileScoped(delete):  # other delete files cover further data files
                    update.removeDeletes(delete)
        for file in self.added:
            update.addRows(file)
        for file in self.delete_files:
            update.addDeletes(file)
        for deletion in self.deletions:
            if deletion.is_whole:
                update.removeRows(deletion.task.file())
            for replaced in deletion.replaced:
                update.removeDeletes(replaced)
        return update

    def may_be_committed(self, error: BaseException) -> bool:
        """Return whether the catalog may have the commit, although it ended with an error."""
        return self.is_sent and not lost_race(error)

    def discard(self) -> None:
        """Delete the files that were written and will not be committed."""
        for file in [*self.added, *self.delete_files]:
            self.table.io().deleteFile(file.location())


def number_of(snapshot: Any) -> int | None:
    """Return the id of a snapshot, or None if there is none."""
    return None if snapshot is None else int(snapshot.snapshotId())
