"""Keeping a Delta table in shape, through Delta's own REORG, OPTIMIZE and VACUUM.

Their commits carry no progress: that is found behind them, as behind those of any other writer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.delta.java import Jvm, committing
from lakeward.adapters.spark.names import quoted
from lakeward.core.errors import ConfigError
from lakeward.core.ports import Care, Cared

if TYPE_CHECKING:
    from lakeward.adapters.delta.table import DeltaTable

_HOUR: Final = 3_600_000_000

_SIZE: Final = "spark.databricks.delta.optimize.{}FileSize"

_IS_SMALL: Final = 0.75
"""A file of less than this share of the size that is wanted is a small one, as with Iceberg."""

_DELETED: Final = "coalesce(deletionVector.cardinality, 0) / get_json_object(stats, '$.numRecords')"
_FILES: Final = ("path", "size", f"{_DELETED} AS deleted", "to_json(partitionValues) AS partition")


class DeltaMaintenance:
    """Care of one table; what stands beside it takes care of itself."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table

    def maintain(self, care: Care, *, is_dry: bool) -> Cared:
        """Write anew the files that are due for their deleted rows or their size; then remove what is old.

        Raises ConfigError for a number of versions that are to stay: VACUUM goes by time alone.
        """
        if care.keep_last > 1:
            raise ConfigError(
                f"{self.table.dimension.name}: `keep_last` is not for Delta tables",
                found=f"{care.keep_last} versions are to stay, whatever their age; VACUUM goes by their age alone",
                todo="Take it out of `maintain`, and let `snapshots` say for how long versions stay.",
            )
        if self.table.places.load(self.table.dimension.name) is None:
            return Cared()
        with committing(str(self.table.dimension.name)):
            jvm = Jvm(self.table.spark())
            every = DataFrame(jvm.snapshot(self.table.path).allFiles().toDF(), jvm.spark).selectExpr(*_FILES)
            worn, small = _worn(every, care), _small(every, care)
            due = worn.unionByName(small).distinct()
            files, size = due.selectExpr("count(*)", "coalesce(sum(size), 0)").collect()[0]
            if not is_dry:
                self._write_anew(jvm.spark, care, purges=not worn.isEmpty(), packs=not small.isEmpty())
            removed = self._vacuum(jvm, care, is_dry=is_dry)
        return Cared(files=int(files), bytes=int(size), orphans=removed)

    def _write_anew(self, spark: SparkSession, care: Care, *, purges: bool, packs: bool) -> None:
        name = f"delta.{quoted(self.table.path)}"
        if purges:
            spark.sql(f"REORG TABLE {name} APPLY (PURGE)").collect()
        if packs:
            sizes = {"max": care.file_size, "min": int(care.file_size * _IS_SMALL)}
            with _set(spark, {_SIZE.format(of): str(size) for of, size in sizes.items()}):
                spark.sql(f"OPTIMIZE {name}").collect()

    def _vacuum(self, jvm: Jvm, care: Care, *, is_dry: bool) -> tuple[str, ...]:
        """Remove the files that only versions older than the policy need, and those of nobody; return which.

        VACUUM tells the two not apart, so neither may be kept for ever; and what the table itself says it keeps
        (`delta.deletedFileRetentionDuration`) it keeps.
        """
        if care.keep is None or care.orphans is None:
            return ()
        kept = jvm.single(jvm.delta, "DeltaLog").tombstoneRetentionMillis(jvm.snapshot(self.table.path).metadata())
        hours = math.ceil(max(care.keep, care.orphans, int(kept) * 1000) / _HOUR)
        vacuum = f"VACUUM delta.{quoted(self.table.path)} RETAIN {hours} HOURS"
        due = sorted(str(row[0]) for row in jvm.spark.sql(f"{vacuum} DRY RUN").collect())
        if due and not is_dry:
            jvm.spark.sql(vacuum).collect()
        return tuple(due)


def _worn(files: DataFrame, care: Care) -> DataFrame:
    """Return the files with deleted rows: REORG takes all of them, once one has as many as the policy says."""
    if care.deleted is None or files.where(f"deleted > 0 AND deleted >= {care.deleted}").isEmpty():
        return files.limit(0)
    return files.where("deleted > 0")


def _small(files: DataFrame, care: Care) -> DataFrame:
    """Return the small files, once a partition has as many as the policy says; one alone stays as it is."""
    small = files.where(f"size < {int(care.file_size * _IS_SMALL)}")
    several = small.groupBy("partition").count().where("count > 1")
    if care.small is None or several.where(f"count >= {care.small}").isEmpty():
        return files.limit(0)
    return small.join(several.select("partition"), "partition", "left_semi").select(*files.columns)


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session settings while the context lasts."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
