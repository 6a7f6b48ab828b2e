"""Maintain a Delta table with Delta's own REORG, OPTIMIZE and VACUUM.

Their commits carry no progress: it is found in earlier commits, as after commits of other writers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.delta.java import Jvm, committing
from lakeward.adapters.formats.shared.operations.spark_settings import spark_settings
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.errors import ConfigError
from lakeward.core.ports import MaintenancePolicy, MaintenanceReport

if TYPE_CHECKING:
    from lakeward.adapters.formats.delta.table import DeltaTable

_HOUR: Final = 3_600_000_000
_DAY: Final = 24 * _HOUR

_RETENTION: Final = "delta.deletedFileRetentionDuration"

_SIZE: Final = "spark.databricks.delta.optimize.{}FileSize"

_IS_SMALL: Final = 0.75
"""A file smaller than this share of the target size is small, as with Iceberg."""

_DELETED: Final = "coalesce(deletionVector.cardinality, 0) / get_json_object(stats, '$.numRecords')"
_FILES: Final = ("path", "size", f"{_DELETED} AS deleted", "to_json(partitionValues) AS partition")


class DeltaMaintenance:
    """Maintenance of one table. Its side tables maintain themselves."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table

    def maintain(self, policy: MaintenancePolicy, *, is_dry: bool) -> MaintenanceReport:
        """Rewrite files that are due for their deleted rows or their size, then remove old files.

        Raises ConfigError for a number of versions to keep, since VACUUM goes by age only, and for an age of
        versions that is longer than the table remembers their files.
        """
        if policy.keep_last > 1:
            raise ConfigError(
                f"{self.table.dimension.name}: `keep_last` is not for Delta tables",
                found=f"{policy.keep_last} versions are to stay at any age; VACUUM goes by age alone",
                todo="Take it out of `maintain`, and let `snapshots` say for how long versions stay.",
            )
        if self.table.places.load(self.table.dimension.name) is None:
            return MaintenanceReport()
        with committing(str(self.table.dimension.name)):
            jvm = Jvm(self.table.spark())
            if _vacuums(policy) and not (is_dry and _RETENTION in self.table.options.properties):
                self._check_age(policy, self._retention(jvm))
            files_of_table = DataFrame(jvm.snapshot(self.table.path).allFiles().toDF(), jvm.spark).selectExpr(
                *_FILES
            )
            with_deletions, small = _with_deletions(files_of_table, policy), _small(files_of_table, policy)
            due = with_deletions.unionByName(small).distinct()
            files, size = due.selectExpr("count(*)", "coalesce(sum(size), 0)").collect()[0]
            if not is_dry and files:
                with self.table.places.apart(self.table.dimension.name):
                    self._rewrite_files(
                        jvm.spark, policy, purges=not with_deletions.isEmpty(), packs=not small.isEmpty()
                    )
            removed = self._vacuum(jvm, policy, is_dry=is_dry)
        return MaintenanceReport(files=int(files), bytes=int(size), orphans=removed)

    def _rewrite_files(self, spark: SparkSession, policy: MaintenancePolicy, *, purges: bool, packs: bool) -> None:
        name = f"delta.{quoted(self.table.path)}"
        if purges:
            spark.sql(f"REORG TABLE {name} APPLY (PURGE)").collect()
        if packs:
            sizes = {"max": policy.file_size, "min": int(policy.file_size * _IS_SMALL)}
            with spark_settings(spark, {_SIZE.format(of): str(size) for of, size in sizes.items()}):
                spark.sql(f"OPTIMIZE {name}").collect()

    def _retention(self, jvm: Jvm) -> int:
        """Return for how long the table keeps and remembers removed files, in microseconds."""
        metadata = jvm.snapshot(self.table.path).metadata()
        return int(jvm.single(jvm.delta, "DeltaLog").tombstoneRetentionMillis(metadata)) * 1000

    def _check_age(self, policy: MaintenancePolicy, retention: int) -> None:
        """Raise ConfigError for an age of versions beyond the retention of removed files.

        A checkpoint does not name files that were removed longer ago. Once such a file itself is as old, VACUUM
        removes it as unreferenced, whatever its RETAIN says.
        """
        keep = policy.keep or 0
        if keep <= retention:
            return
        days = math.ceil(keep / _DAY)
        raise ConfigError(
            f"{self.table.dimension.name}: `snapshots` is longer than the table remembers their files",
            found=f"snapshots of {keep / _DAY:g} days are to stay, and `{_RETENTION}` is "
            f"{retention / _DAY:g} days: VACUUM would take away files that they have",
            todo=f'Give the table `properties = {{ "{_RETENTION}" = "interval {days} days" }}`, or a shorter '
            "`snapshots` under `maintain`.",
        )

    def _vacuum(self, jvm: Jvm, policy: MaintenancePolicy, *, is_dry: bool) -> tuple[str, ...]:
        """Remove unreferenced files, and files that only versions older than the policy need; return their names.

        VACUUM does not distinguish the two, so both must have an age in the policy. The table's own retention
        (`delta.deletedFileRetentionDuration`) is respected.
        """
        if not _vacuums(policy):
            return ()
        hours = math.ceil(max(policy.keep or 0, policy.orphans or 0, self._retention(jvm)) / _HOUR)
        vacuum = f"VACUUM delta.{quoted(self.table.path)} RETAIN {hours} HOURS"
        due = sorted(str(row[0]) for row in jvm.spark.sql(f"{vacuum} DRY RUN").collect())
        if due and not is_dry:
            jvm.spark.sql(vacuum).collect()
        return tuple(due)


def _vacuums(policy: MaintenancePolicy) -> bool:
    """Return whether files are removed at all."""
    return policy.keep is not None and policy.orphans is not None


def _with_deletions(files: DataFrame, policy: MaintenancePolicy) -> DataFrame:
    """Return the files with deleted rows, if one of them has the policy's share: REORG takes all of them."""
    if policy.deleted is None or files.where(f"deleted > 0 AND deleted >= {policy.deleted}").isEmpty():
        return files.limit(0)
    return files.where("deleted > 0")


def _small(files: DataFrame, policy: MaintenancePolicy) -> DataFrame:
    """Return the small files, if a partition has as many as the policy says. A single one stays."""
    small = files.where(f"size < {int(policy.file_size * _IS_SMALL)}")
    partitions = small.groupBy("partition").count().where("count > 1")
    if policy.small is None or partitions.where(f"count >= {policy.small}").isEmpty():
        return files.limit(0)
    return small.join(partitions.select("partition"), "partition", "left_semi").select(*files.columns)
