"""Iceberg tables: rows and progress of one dimension.

Joins that stream the table's keys past those of the batch find out what a plan does to the rows. The commit is one
transaction: new data files, deletes of the rows that they replace, and the progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyiceberg.transforms import BucketTransform
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.iceberg import ddl
from lakeward.adapters.formats.iceberg.checks import MODES
from lakeward.adapters.formats.iceberg.java import Jvm, committing
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.columns import check_paths
from lakeward.adapters.formats.iceberg.metadata.progress import read_table_state
from lakeward.adapters.formats.iceberg.operations.adoption import IcebergExternalTable
from lakeward.adapters.formats.iceberg.operations.layout import DEFAULT_MODE
from lakeward.adapters.formats.iceberg.operations.rollback import IcebergLineage
from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.adapters.formats.iceberg.side_tables.change_log_versions import IcebergChangeLogVersions
from lakeward.adapters.formats.iceberg.side_tables.side_table import IcebergSideTable
from lakeward.adapters.formats.iceberg.snapshot import IcebergSnapshot
from lakeward.adapters.formats.iceberg.writes.change import Change
from lakeward.adapters.formats.iceberg.writes.data_files import DataFiles
from lakeward.adapters.formats.iceberg.writes.position_deletes import by_file, positions_in, runs
from lakeward.adapters.formats.iceberg.writes.staged_files import IcebergFiles
from lakeward.adapters.formats.shared.operations.commit_failures import discarding_on_failure
from lakeward.adapters.formats.shared.operations.rollback import RestorableSideTables
from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.resolver import Resolve, resolve_plan
from lakeward.adapters.formats.shared.rows.new_rows import rows_to_write, stored_rows
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.system_columns import check_names
from lakeward.adapters.formats.shared.rows.table_rows import TableSnapshot
from lakeward.adapters.formats.shared.side_tables.keys import identity_columns
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.merge.resolution import FILE
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict
from lakeward.core.merge.facts import Capability
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, TableState
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import Kind
from lakeward.plugins.registry import SMALL_BATCH


class IcebergTable:
    """One table. `side_tables` are its change log and quarantine."""

    capabilities: frozenset[Capability] = frozenset(Capability)

    def __init__(
        self,
        catalog: IcebergCatalog,
        dimension: Dimension,
        options: TableOptions,
        spark: Callable[[], SparkSession],
        small_batch: int = SMALL_BATCH,
        run_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.catalog = catalog
        self.options = options
        self.spark = spark
        self.run_ids = run_ids
        open_side_table, change_log_versions = (
            partial(IcebergSideTable, catalog, dimension.name, spark),
            IcebergChangeLogVersions(catalog, dimension.name),
        )
        self.side_tables = RestorableSideTables(dimension, open_side_table, spark, change_log_versions, small_batch)

    @property
    def dimension(self) -> Dimension:
        """The dimension, with the columns of the table if it exists."""
        return self.side_tables.dimension

    @property
    def name(self) -> tuple[str, str, str]:
        """The name of the table in Spark."""
        return (self.catalog.name, *self.catalog.identifier(self.dimension.name))

    def state(self) -> TableState:
        """Return the table state as of the last commit of ours, and use its columns from now on."""
        return self.side_tables.follow(read_table_state(self.catalog, self.dimension.name))

    def lineage(self) -> IcebergLineage | None:
        """Return the snapshots that its state comes from, or None if it does not exist."""
        table = self.catalog.load(self.dimension.name)
        return None if table is None else IcebergLineage(self.dimension.name, table, self._java)

    def external(self) -> IcebergExternalTable | None:
        """Return it as a table of any writer, or None if it does not exist."""
        table = self.catalog.load(self.dimension.name)
        return (
            None
            if table is None
            else IcebergExternalTable(Jvm(self.spark()), self.dimension.name, self.name, table)
        )

    def snapshot(self) -> TableSnapshot | None:
        """Return its current snapshot, of whichever writer, or None if it does not exist."""
        is_there = self.catalog.load(self.dimension.name) is not None
        return self._loaded(Jvm(self.spark())) if is_there else None

    def _java(self) -> tuple[Jvm, Any]:
        jvm = Jvm(self.spark())
        return jvm, jvm.table(*self.name)

    def as_of(self, name: str) -> DataFrame:
        """Return its rows as of a snapshot."""
        return self.spark().read.option("versionAsOf", name).table(quoted(*self.name))

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        """Resolve a batch: rows and counts. Nothing is written."""
        return self.resolve_with(plan, partial(resolve_plan, self.side_tables, plan, frame))

    def resolve_with(self, plan: MergePlan, work: Resolve) -> MergeResult:
        """Resolve a plan by a given function against the table as it is. Nothing is written."""
        with committing(str(self.dimension.name)):
            return work(*self.load_for(plan))

    def load_for(self, plan: MergePlan) -> tuple[TableSnapshot | None, Partitions]:
        """Return the current snapshot, None if the table does not exist yet, and its partitions.

        Raises ConfigError or SchemaConflict for what it could not be created with or changed to.
        """
        self.side_tables.set_schema(plan.evolution.schema, {plan.batch: plan.evolution.added})
        jvm = Jvm(self.spark())
        check_names(self.dimension, ddl.RESERVED, "Iceberg")
        check_paths(self.dimension.name, plan.evolution.schema)
        self._refuse_wider_partitions(plan)
        if plan.creates:
            ddl.check_all_options(jvm, self.dimension.stored, self.options)
        with committing(str(self.dimension.name)):
            return None if plan.creates else self._loaded(jvm), Partitions()

    def stage(self, plan: MergePlan, table: TableSnapshot | None) -> IcebergFiles:
        """Begin files for the commit of a plan. The table is created if it does not exist yet."""
        with committing(str(self.dimension.name)):
            undo = None if table is not None else partial(self.catalog.drop_unwritten, self.dimension.name)
            return IcebergFiles(self._begin_change(plan, table), undo)

    def _refuse_wider_partitions(self, plan: MergePlan) -> None:
        """Raise SchemaConflict for widening a partition column: Iceberg cannot write both kinds of values."""
        widened = {change.path: change for change in plan.evolution.changes if change.kind is Kind.WIDEN}
        table = self.catalog.load(self.dimension.name) if widened else None
        if table is None:
            return
        for part in table.spec().fields:
            name = table.schema().find_column_name(part.source_id)
            name = plan.evolution.renames.get(name or "", name)
            if name in widened and not isinstance(part.transform, BucketTransform):
                raise SchemaConflict(
                    f"{self.dimension.name}: a column that the table is partitioned by cannot become wider",
                    found=f"{widened[name]}, and the table is partitioned by {part.transform}({name})",
                    todo="Nothing of this batch was applied; other tables go on. Take that partition out "
                    "(`ALTER TABLE … DROP PARTITION FIELD …` in Spark), or load the table anew.",
                )

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one transaction."""
        self.side_tables.change_log.batches.refuse_others()
        detail: MergeDetail = resolved.detail
        table_name = str(self.dimension.name)
        with committing(table_name):
            change = detail.staged or self._begin_change(plan, detail.table)
            with discarding_on_failure(table_name, change, "the catalog"):
                self._stage(change, plan, resolved)
                change.check(table_name, resolved.written, resolved.removed)
                return change.commit(progress, resolved.written, resolved.removed, self.run_ids)

    def _begin_change(self, plan: MergePlan, table: TableSnapshot | None) -> Change:
        """Begin a change of the table as it was read, with the columns after the batch.

        The table is created if it does not exist yet.
        """
        jvm = Jvm(self.spark())
        loaded = table if isinstance(table, IcebergSnapshot) else self._create_table(jvm)
        if plan.batch == 1 and self.options.sort_by:  # a crash may have come right after the creation
            ddl.order(jvm, loaded.java, plan.stored, self.options.sort_by)
        change = Change(jvm, loaded.java, self.catalog.io(self.dimension.name), loaded.snapshot, loaded.files)
        if plan.changes and not plan.creates:
            change.evolve(plan.changes)
        return change

    def _loaded(self, jvm: Jvm) -> IcebergSnapshot:
        table = jvm.table(*self.name)
        snapshot, io = table.currentSnapshot(), partial(self.catalog.io, self.dimension.name)
        return IcebergSnapshot(quoted(*self.name), table, snapshot, jvm.spark, DataFiles(jvm, table, snapshot), io)

    def _create_table(self, jvm: Jvm) -> IcebergSnapshot:
        """Create the table."""
        self.catalog.prepare(self.dimension.name)
        location = self.catalog.location(self.dimension.name)
        ddl.create_main(self.spark(), self.name, location, self.dimension, self.options)
        return self._loaded(jvm)

    def _stage(self, change: Change, plan: MergePlan, resolved: MergeResult) -> None:
        detail: MergeDetail = resolved.detail
        if detail.drops_all:
            change.drop_all(resolved.removed)
        if detail.staged is not None:
            return
        if not detail.drops_all and resolved.removed and detail.removed is not None:
            if detail.places is not None and not self._rewrites(change.table):
                change.delete(positions_in(detail.places))
            elif self._remove(change, plan, resolved, in_spark(detail.removed)):
                return
        if resolved.written and not change.add_here(stored_rows(plan, detail)):
            change.add(rows_to_write(plan, resolved))

    def _remove(self, change: Change, plan: MergePlan, resolved: MergeResult, removed: DataFrame) -> bool:
        """Stage the removal of rows by Spark; return whether the rows to write were staged as well."""
        detail: MergeDetail = resolved.detail
        if detail.drops_below is not None:
            dropped = change.drop_below(detail.drops_below)
            dropped_files = pa.table({FILE: pa.array(dropped, pa.string())})
            removed = removed.join(from_arrow(self.spark(), dropped_files), FILE, "left_anti")
        if not self._rewrites(change.table):
            change.delete(dict(by_file(to_arrow(runs(removed)))))
            return False
        files = to_arrow(removed.select(FILE).distinct())[FILE].to_pylist()
        if files:
            removed_keys = removed.selectExpr(*map(quoted, identity_columns(plan.stored)))
            change.rewrite(files, removed_keys, plan, rows_to_write(plan, resolved) if resolved.written else None)
        return bool(files)

    def _rewrites(self, table: Any) -> bool:
        """Return whether files of changed rows are rewritten: by the setting, else by the table's property."""
        if "write_mode" in self.options.model_fields_set:
            return self.options.write_mode == "copy-on-write"
        return str(table.properties().getOrDefault(MODES[-1], DEFAULT_MODE)) == "copy-on-write"
