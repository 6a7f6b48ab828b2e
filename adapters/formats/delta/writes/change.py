"""A change to a Delta table: staged file by file, then committed or discarded as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.delta.java import Jvm, lost_race
from lakeward.adapters.formats.delta.metadata.progress import SCHEMA
from lakeward.adapters.formats.delta.writes.data_files import DataFiles
from lakeward.adapters.formats.delta.writes.deletion_vectors import deletions
from lakeward.adapters.formats.delta.writes.new_files import write_deletions, write_rows
from lakeward.adapters.formats.delta.writes.schema_evolution import name_after, with_changes
from lakeward.adapters.formats.delta.writes.transaction import commit, operation_of, read_batch, with_columns
from lakeward.adapters.formats.shared.operations.commit_failures import not_as_planned
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.adapters.spark.sql.names import text
from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.ports import Commit
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import SchemaChange

_VECTOR: Final = {"filePath": "string", "deletionVectorId": "string"}
"""The columns that Delta's writer of deletion vectors needs for each file, besides row numbers."""


class Change:
    """Files that a commit adds and removes. They are written, and not visible before the commit.

    `snapshot` is the version that was read, with its `files`. Any commit since then is a conflict.
    """

    def __init__(
        self, jvm: Jvm, path: str, snapshot: Any, files: DataFiles | None = None, *, has_vectors: bool = False
    ) -> None:
        self.jvm = jvm
        self.files = files
        self.path = path
        self.snapshot = snapshot
        self.has_vectors = has_vectors
        self.log = jvm.log(path)
        self.transaction = self.log.startTransaction(jvm.none, jvm.some(snapshot))
        self.transaction.readWholeTable()
        self.batch = read_batch(jvm, self.transaction, snapshot)
        self.schema_changes: Sequence[SchemaChange] = ()
        self.added: list[Any] = []
        self.removed: list[Any] = []
        self.vectors: Sequence[Any] = []
        self.dropped_rows = 0
        self.deleted_rows = 0
        self.rewrites = False
        self.is_sent = False

    def evolve(self, changes: Sequence[SchemaChange]) -> None:
        """Change columns and types of the table; rows added from now on have them."""
        metadata = self.transaction.metadata()
        schema_before = metadata.schema()
        schema = self.jvm.root.org.apache.spark.sql.types.DataType.fromJson(
            with_changes(schema_before.json(), changes)
        )
        widened = self.jvm.single(self.jvm.delta, "TypeWideningMetadata")
        schema = widened.addTypeWideningMetadata(self.transaction, schema, schema_before)
        partitions = [name_after(name, changes) for name in self.jvm.items(metadata.partitionColumns())]
        with_columns(self.jvm, self.transaction, schema.json(), partitions)
        self.schema_changes = changes

    def add(self, rows: DataFrame) -> None:
        """Write new rows."""
        self.added += self.jvm.items(self.transaction.writeFiles(rows._jdf))

    def add_here(self, rows: pa.Table | None) -> bool:
        """Write new rows from this process, if they are in it; return whether they were written."""
        file = None if rows is None else write_rows(self.jvm, self.log, self.transaction, rows)
        self.added += [] if file is None else [file]
        return file is not None

    def read_added(self) -> DataFrame:
        """Return the new rows that were written."""
        return self._rows_of(self.added)

    def _rows_of(self, files: Sequence[Any]) -> DataFrame:
        frame = self.log.createDataFrame(self.snapshot, self.jvm.seq(files), False, self.jvm.none)
        return DataFrame(frame, self.jvm.spark)

    def delete(self, places: DataFrame) -> None:
        """Mark rows as deleted, given by file and row number.

        A new deletion vector replaces the old one of its file.
        """
        files = self._files(places)
        spark, actions = self.jvm.spark, self.jvm.delta.commands
        helper = self.jvm.single(actions, "DMLWithDeletionVectorsHelper")
        old = {url: file.deletionVector() for url, file in files.items()}
        rows = [(url, None if vector is None else str(vector.serializeToBase64())) for url, vector in old.items()]
        target = places.selectExpr(f"{FILE} AS filePath", f"{POS} AS rowIndexCol")
        target = target.join(F.broadcast(inline(spark, _VECTOR, rows)), "filePath")
        written = self._vectors_of(target)
        by_path = helper.generateCandidateFileMap(self.log.dataPath(), self.jvm.seq(files.values()))
        touched = helper.findFilesWithMatchingRows(self.transaction, by_path, written)
        self.vectors = [file.deletionVector() for file in self.jvm.items(written)]
        self.deleted_rows = sum(int(file.numberOfModifiedRows()) for file in self.jvm.items(touched))
        partitions = () if self.jvm.is_of_3_5 else (1,)  # of the log's files, which are few
        changed = helper.processUnmodifiedData(spark._jsparkSession, touched, self.snapshot, *partitions)
        self.removed += self.jvm.items(changed._1())

    def delete_here(self, places: pa.Table | None) -> bool:
        """Mark rows as deleted from this process, if it knows the files; return whether it did."""
        if places is None or self.files is None or self.files.by_url is None:
            return False
        deletions_ = deletions(self.files.table, self.files.by_url, places)
        if deletions_ is None:
            return False
        self.deleted_rows = sum(deletion.newly_deleted for deletion in deletions_)
        self.vectors, changed = write_deletions(self.jvm, self.log, deletions_)
        self.removed += changed
        return True

    def _vectors_of(self, target: DataFrame) -> Any:
        """Write the deletion vectors. Delta 3.3 asks its transaction for a prefix, Delta 4.4 is given one."""
        prefix = self.jvm.single(self.jvm.delta.util, "Utils").getRandomPrefixLength(self.transaction.metadata())
        where = self.transaction if self.jvm.is_of_3_5 else prefix
        writer = self.jvm.single(self.jvm.delta.commands, "DeletionVectorBitmapGenerator")
        return writer.buildDeletionVectors(self.jvm.spark._jsparkSession, target._jdf, self.log, where)

    def rewrite(self, places: DataFrame) -> DataFrame:
        """Remove the files that hold these rows; return all rows in them, with their column names of before."""
        files = list(self._files(places).values())
        rows = self._rows_of(files)
        self._remove(files, rows.count)
        self.rewrites = True
        return rows

    def drop_all(self, rows: int) -> None:
        """Drop every file of the table. `rows` is the number of its rows, for files without a count in the log."""
        self._remove(list(self.snapshot.allFiles().collect()), lambda: rows)

    def _remove(self, files: Sequence[Any], count: Callable[[], int]) -> None:
        self.removed += [file.remove() for file in files]
        counts = [_rows(file) for file in files]
        self.dropped_rows += count() if None in counts else sum(rows for rows in counts if rows)

    def _files(self, places: DataFrame) -> Mapping[str, Any]:
        """Return the files of these rows as the log has them, by the URLs that Spark writes.

        Other writers may encode paths otherwise, so files are searched by the last part of the path.
        """
        urls = {str(row[0]) for row in places.select(FILE).distinct().collect()}
        if not urls:
            return {}
        listed = ", ".join(text(unquote(url.rsplit("/", 1)[1])) for url in urls)
        named = f"url_decode(replace(substring_index(path, '/', -1), '+', '%2B')) IN ({listed})"
        files_by_url = {self._url(file): file for file in self.snapshot.allFiles().where(named).collect()}
        lacking = urls - files_by_url.keys()
        if lacking:
            raise TableError(
                f"{self.path}: a file of the table is not in its log as it was read",
                found=min(lacking),
                todo="Nothing was applied. Run again; where it stays so, please report it with the table's log.",
            )
        return {url: files_by_url[url] for url in urls}

    def _url(self, file: Any) -> str:
        places, paths = self.jvm.delta.util, self.jvm.root.org.apache.spark.paths
        absolute_path = self.jvm.single(places, "DeltaFileOperations").absolutePath(
            str(self.log.dataPath()), file.path()
        )
        return str(self.jvm.single(paths, "SparkPath").fromPath(absolute_path).urlEncoded())

    def check(self, table_name: str, batch: int, written: int, removed: int) -> None:
        """Compare the files with the planned rows. Raises ConservationError or CommitConflict before any commit."""
        if max(self.batch, 0) != batch - 1:
            raise CommitConflict(
                f"{table_name}: another process committed batch {self.batch} of the table",
                todo="Nothing of this batch was applied. Only one may write a table: run again when it is done.",
            )
        added = sum(_rows(file) or 0 for file in self.added)
        deleted = self.deleted_rows + self.dropped_rows
        is_exact = (added, deleted) == (written, removed)
        if added - deleted != written - removed or not (is_exact or self.rewrites):
            raise not_as_planned(table_name, (written, removed), (added, deleted))

    def commit(
        self, progress: Progress, written: int, removed: int, run_ids: Mapping[str, str] = MappingProxyType({})
    ) -> Commit:
        """Make the change visible with the progress and the ids of the run, in one version of the log."""
        properties = {f"lakeward.{name}": value for name, value in run_ids.items()}
        properties |= {SCHEMA: "; ".join(map(str, self.schema_changes))} if self.schema_changes else {}
        operation = operation_of(self.jvm, progress.batch, changes_columns=bool(self.schema_changes))
        self.is_sent = True
        version = commit(self.jvm, self.transaction, [*self.added, *self.removed], progress, properties, operation)
        return Commit(str(version), written, removed)

    def may_be_committed(self, error: BaseException) -> bool:
        """Return whether the log may have the commit, although it ended with an error: steps after it may fail."""
        committed = self.transaction.committed()
        is_committed = bool(committed if self.jvm.is_of_3_5 else committed.isDefined())
        return self.is_sent and (is_committed or not lost_race(error))

    def discard(self) -> None:
        """Delete the files that were written and will not be committed."""
        base = self.log.dataPath()
        paths = [self.jvm.root.org.apache.hadoop.fs.Path(base, unquote(str(f.path()))) for f in self.added]
        paths += [vector.absolutePath(base) for vector in self.vectors if vector.isOnDisk()]
        files = base.getFileSystem(self.log.newDeltaHadoopConf())
        for path in paths:
            files.delete(path, False)

    def drop_table(self) -> None:
        """Delete the folder of a table that has only the version that created it."""
        base = self.log.dataPath()
        if self.jvm.snapshot(self.path).version() == 0:
            base.getFileSystem(self.log.newDeltaHadoopConf()).delete(base, True)


def _rows(file: Any) -> int | None:
    """Return the number of rows left in a file, or None if the log does not say."""
    rows = file.numLogicalRecords()
    return int(rows.get()) if rows.isDefined() else None
