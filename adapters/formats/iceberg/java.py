"""Iceberg's Java API, called through the session's JVM.

A commit made here carries rows, progress and the tag that keeps it from expiry in one transaction, whatever it adds
and removes, on every Spark line (`docs/decisions/0011`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, cast

from pyiceberg.exceptions import CommitFailedException
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.iceberg.metadata.catalog_errors import failures
from lakeward.adapters.formats.shared.operations.commit_failures import translating_commit_failures
from lakeward.adapters.spark.session.errors import causes, root_cause, was_made_meanwhile
from lakeward.adapters.spark.sql.names import quoted

_PACKAGE: Final = "org.apache.iceberg"
_LOST_RACE: Final = frozenset(
    f"{_PACKAGE}.exceptions.{name}"
    for name in ("CommitFailedException", "ValidationException", "AlreadyExistsException")
)
_UNKNOWN: Final = f"{_PACKAGE}.exceptions.CommitStateUnknownException"


class Jvm:
    """The calls into Iceberg's Java classes that lakeward needs."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.gateway = cast("Any", spark.sparkContext._gateway)  # PySpark has no public way to Java
        self.iceberg: Any = self.gateway.jvm.org.apache.iceberg

    def table(self, *name: str) -> Any:
        """Load a table as it is now."""
        return self.iceberg.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, quoted(*name))

    def single(self, name: str) -> Any:
        """Return the singleton of a class with a static `get()`, which py4j mistakes for another method."""
        loader = self.gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        class_ = self.gateway.jvm.java.lang.Class.forName(f"{_PACKAGE}.{name}", True, loader)
        no_types = self.gateway.new_array(self.gateway.jvm.java.lang.Class, 0)
        no_values = self.gateway.new_array(self.gateway.jvm.java.lang.Object, 0)
        return class_.getMethod("get", no_types).invoke(None, no_values)

    def type(self, ddl: str) -> Any:
        """Return Iceberg's type for a Spark type."""
        struct = self.gateway.jvm.org.apache.spark.sql.types.DataType.fromDDL(f"value {ddl}")
        return self.iceberg.spark.SparkSchemaUtil.convert(struct).findType("value")

    def list(self, items: Sequence[object]) -> Any:
        """Return a Java list of these items."""
        java_list = self.gateway.jvm.java.util.ArrayList()
        for item in items:
            java_list.add(item)
        return java_list

    def items(self, collection: Any) -> Iterator[Any]:
        """Iterate over a Java collection by index: the end of a Java iterator costs an exception."""
        return indexed(self.gateway.jvm.java.util.ArrayList(collection))

    def iterate(self, closeable: Any) -> Iterator[Any]:
        """Iterate over a CloseableIterable and close it."""
        items = closeable.iterator()
        try:
            while items.hasNext():
                yield items.next()
        finally:
            closeable.close()

    def stage(self, table: Any, frame: DataFrame) -> Sequence[Any]:
        """Write rows as data files of the table that no snapshot has yet, and return the files.

        Iceberg's own rewrite actions stage files in this way: the session knows the table under an id, and what is
        written to that id is kept without a commit.
        """
        identifier = str(uuid.uuid4())
        tables = self.single("spark.SparkTableCache")
        coordinator = self.iceberg.spark.FileRewriteCoordinator.get()
        tables.add(identifier, table)
        try:
            writer = frame.write.format("iceberg").mode("append")
            writer.option("check-nullability", "false")  # another engine may have made the key a required column
            writer.option("rewritten-file-scan-task-set-id", identifier).save(identifier)
            files = list(coordinator.fetchNewFiles(table, identifier))
        finally:
            tables.remove(identifier)
        coordinator.clearRewrite(table, identifier)
        return files

    def task(self, table: Any, file: Any) -> Any:
        """Return a scan task that reads all rows of a data file that no snapshot has yet."""
        no_deletes = self.gateway.new_array(self.iceberg.DeleteFile, 0)
        schema = self.iceberg.SchemaParser.toJson(table.schema())
        spec = self.iceberg.PartitionSpecParser.toJson(table.spec())
        all_rows = self.iceberg.expressions.ResidualEvaluator.unpartitioned(
            self.iceberg.expressions.Expressions.alwaysTrue()
        )
        return self.iceberg.BaseFileScanTask(file, no_deletes, schema, spec, all_rows)

    @contextmanager
    def reading(self, table: Any, tasks: Sequence[Any]) -> Iterator[DataFrame]:
        """Read exactly these files of a table, with deletes applied, while the context lasts."""
        identifier = str(uuid.uuid4())
        tables = self.single("spark.SparkTableCache")
        task_sets = self.iceberg.spark.ScanTaskSetManager.get()
        tables.add(identifier, table)
        task_sets.stageTasks(table, identifier, self.list(tasks))
        try:
            reader = self.spark.read.format("iceberg").option("scan-task-set-id", identifier)
            yield reader.load(identifier)
        finally:
            task_sets.removeTasks(table, identifier)
            tables.remove(identifier)


def indexed(items: Any) -> Iterator[Any]:
    """Iterate over a Java list by index: the end of a Java iterator costs an exception."""
    for index in range(items.size()):
        yield items.get(index)


def lost_race(error: BaseException) -> bool:
    """Return whether a commit was refused because of another writer: then nothing of it is in the table.

    The other writer may hold the file of the catalog: a commit is one statement, which does nothing if SQLite is
    busy.
    """
    if isinstance(error, CommitFailedException) or was_made_meanwhile(error):
        return True
    classes = {*causes(error)}
    return not _LOST_RACE.isdisjoint(classes) or (_UNKNOWN not in classes and _is_busy(error))


def _is_busy(error: BaseException) -> bool:
    """Return whether SQLite reports that another process holds its file; a catalog server may pass that on."""
    _, message = root_cause(error)
    return "SQLITE_BUSY" in message or "database is locked" in message


def committing(table_name: str) -> AbstractContextManager[None]:
    """Raise an error that people understand if a commit fails."""
    return translating_commit_failures(table_name, (CommitFailedException, *failures()), lost_race)
