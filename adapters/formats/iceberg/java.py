"""Iceberg's Java API, reached through the session's JVM.

A commit made here carries rows, progress and the tag that keeps it from expiry in one
transaction, whatever it adds and removes, on every Spark line
(`docs/decisions/0011`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, cast

from pyiceberg.exceptions import CommitFailedException
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.iceberg.metadata.catalog_errors import failures
from lakeward.adapters.formats.shared.operations.commit_failures import committing_by
from lakeward.adapters.spark.session.errors import causes, root_cause, was_made_meanwhile
from lakeward.adapters.spark.sql.names import quoted

_PACKAGE: Final = "org.apache.iceberg"
_LOST_RACE: Final = frozenset(
    f"{_PACKAGE}.exceptions.{name}"
    for name in ("CommitFailedException", "ValidationException", "AlreadyExistsException")
)
_UNKNOWN: Final = f"{_PACKAGE}.exceptions.CommitStateUnknownException"


class Jvm:
    """The few doors into Iceberg's Java classes that lakeward uses."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.gateway = cast("Any", spark.sparkContext._gateway)  # the only way to Java there is
        self.iceberg: Any = self.gateway.jvm.org.apache.iceberg

    def table(self, *name: str) -> Any:
        """Load a table, as it is now."""
        return self.iceberg.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, quoted(*name))

    def single(self, name: str) -> Any:
        """Return the one instance of a class that has a static `get()`, which py4j takes for another."""
        loader = self.gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        found = self.gateway.jvm.java.lang.Class.forName(f"{_PACKAGE}.{name}", True, loader)
        no_types = self.gateway.new_array(self.gateway.jvm.java.lang.Class, 0)
        no_values = self.gateway.new_array(self.gateway.jvm.java.lang.Object, 0)
        return found.getMethod("get", no_types).invoke(None, no_values)

    def type(self, ddl: str) -> Any:
        """Return Iceberg's type for one of Spark's."""
        found = self.gateway.jvm.org.apache.spark.sql.types.DataType.fromDDL(f"value {ddl}")
        return self.iceberg.spark.SparkSchemaUtil.convert(found).findType("value")

    def list(self, items: Sequence[object]) -> Any:
        """Return a Java list of these."""
        made = self.gateway.jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def items(self, collection: Any) -> Iterator[Any]:
        """Walk over a Java collection; by an iterator of Python's that would cost an exception."""
        return indexed(self.gateway.jvm.java.util.ArrayList(collection))

    def iterate(self, closeable: Any) -> Iterator[Any]:
        """Walk over a CloseableIterable and close it."""
        items = closeable.iterator()
        try:
            while items.hasNext():
                yield items.next()
        finally:
            closeable.close()

    def stage(self, table: Any, frame: DataFrame) -> Sequence[Any]:
        """Write rows as data files of the table that no snapshot has yet; return them.

        Iceberg's own actions stage what they rewrite in this manner: the table is known to
        the session under an id of its own, and what is written there is kept, not committed.
        """
        identifier = str(uuid.uuid4())
        tables = self.single("spark.SparkTableCache")
        staged = self.iceberg.spark.FileRewriteCoordinator.get()
        tables.add(identifier, table)
        try:
            writer = frame.write.format("iceberg").mode("append")
            writer.option("check-nullability", "false")  # another engine may have made the key a required column
            writer.option("rewritten-file-scan-task-set-id", identifier).save(identifier)
            files = list(staged.fetchNewFiles(table, identifier))
        finally:
            tables.remove(identifier)
        staged.clearRewrite(table, identifier)
        return files

    def task(self, table: Any, file: Any) -> Any:
        """Return what reads a data file of a table that no snapshot has yet: all of its rows."""
        no_deletes = self.gateway.new_array(self.iceberg.DeleteFile, 0)
        schema = self.iceberg.SchemaParser.toJson(table.schema())
        spec = self.iceberg.PartitionSpecParser.toJson(table.spec())
        every = self.iceberg.expressions.ResidualEvaluator.unpartitioned(
            self.iceberg.expressions.Expressions.alwaysTrue()
        )
        return self.iceberg.BaseFileScanTask(file, no_deletes, schema, spec, every)

    @contextmanager
    def reading(self, table: Any, tasks: Sequence[Any]) -> Iterator[DataFrame]:
        """Read exactly these files of a table, deletes applied, while the context lasts."""
        identifier = str(uuid.uuid4())
        tables = self.single("spark.SparkTableCache")
        chosen = self.iceberg.spark.ScanTaskSetManager.get()
        tables.add(identifier, table)
        chosen.stageTasks(table, identifier, self.list(tasks))
        try:
            reader = self.spark.read.format("iceberg").option("scan-task-set-id", identifier)
            yield reader.load(identifier)
        finally:
            chosen.removeTasks(table, identifier)
            tables.remove(identifier)


def indexed(items: Any) -> Iterator[Any]:
    """Walk over a Java list by index: asking an iterator for more than there is costs an exception."""
    for index in range(items.size()):
        yield items.get(index)


def lost_race(error: BaseException) -> bool:
    """Whether a commit was refused for what another writer did: then nothing of it is in the table.

    That writer may have the file of the catalog: the one statement of a commit that finds SQLite busy does nothing.
    """
    if isinstance(error, CommitFailedException) or was_made_meanwhile(error):
        return True
    classes = {*causes(error)}
    return not _LOST_RACE.isdisjoint(classes) or (_UNKNOWN not in classes and _is_busy(error))


def _is_busy(error: BaseException) -> bool:
    """Whether SQLite says that another has its file; a catalog that is asked over the network may say so, too."""
    _, message = root_cause(error)
    return "SQLITE_BUSY" in message or "database is locked" in message


def committing(what: str) -> AbstractContextManager[None]:
    """Say in a person's words why a commit failed, and whether it lost a race."""
    return committing_by(what, (CommitFailedException, *failures()), lost_race)
