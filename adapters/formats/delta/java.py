"""Delta's own classes, called through the session's JVM.

A commit made here carries rows, deletes and progress in one version of the log (`docs/decisions/0012`). The classes
are those of the jar that the line pins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, cast

from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from lakeward.adapters.formats.delta.session import CATALOG, EXTENSION
from lakeward.adapters.formats.delta_rs import commit_failures
from lakeward.adapters.formats.shared.operations.commit_failures import translating_commit_failures
from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.session.errors import causes, was_made_meanwhile
from lakeward.core.errors import SetupError

_LOST_RACE: Final = tuple(
    f"io.delta.exceptions.{name}" for name in ("Concurrent", "MetadataChanged", "ProtocolChanged")
)


class Jvm:
    """The calls into Delta's Java and Scala classes that lakeward needs."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        gateway = cast("Any", spark.sparkContext._gateway)  # PySpark has no public way to Java
        self.root: Any = gateway.jvm
        self.delta: Any = gateway.jvm.org.apache.spark.sql.delta
        if EXTENSION not in str(spark.conf.get("spark.sql.extensions", "")):
            raise SetupError(
                "Spark was started without Delta Lake",
                found=f"`spark.sql.extensions` lacks {EXTENSION}",
                todo=f"Start it with that extension and `spark.sql.catalog.spark_catalog` = {CATALOG} "
                "(on Glue: --datalake-formats delta).",
            )

    @property
    def is_of_3_5(self) -> bool:
        """Whether it is the Delta of Spark 3.5, some of whose methods have other parameters."""
        return line() == "3.5"

    def single(self, package: Any, name: str) -> Any:
        """Return the instance of a Scala object."""
        return getattr(getattr(package, f"{name}$"), "MODULE$")

    def log(self, path: str) -> Any:
        """Return the log of a table."""
        return self.single(self.delta, "DeltaLog").forTable(self.spark._jsparkSession, path)

    def snapshot(self, path: str) -> Any:
        """Return the current snapshot of a table."""
        return self.log(path).update(False, self.none, self.none)

    def snapshot_at(self, path: str, version: int) -> Any:
        """Return the snapshot of a table at a version."""
        arguments = (
            [] if self.is_of_3_5 else [False]
        )  # whether to refuse a version older than the files that are kept
        return self.log(path).getSnapshotAt(version, self.none, self.none, *arguments)

    @property
    def none(self) -> Any:
        """Scala's None."""
        return self.root.scala.Option.empty()

    def some(self, value: Any) -> Any:
        """Return a value as a Scala Option."""
        return self.root.scala.Option.apply(value)

    def seq(self, items: Iterable[Any]) -> Any:
        """Return an immutable Scala Seq."""
        java_list = self.root.java.util.ArrayList()
        for item in items:
            java_list.add(item)
        return self.root.scala.collection.JavaConverters.asScalaBuffer(java_list).toSeq()

    def items(self, seq: Any) -> Sequence[Any]:
        """Return the items of a Scala Seq."""
        return list(self.root.scala.collection.JavaConverters.seqAsJavaList(seq))


def lost_race(error: BaseException) -> bool:
    """Return whether Delta refused a commit because of another writer: then nothing of it is in the table."""
    names = list(causes(error))
    is_raced = was_made_meanwhile(error) or commit_failures.lost_race(error)
    return is_raced or any(name.startswith(_LOST_RACE) for name in names)


def committing(table_name: str) -> AbstractContextManager[None]:
    """Raise an error that people understand if a commit fails."""
    return translating_commit_failures(table_name, (DeltaError,), lost_race)
