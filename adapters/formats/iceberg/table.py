"""Iceberg tables: rows and progress of one dimension.

What the plan does to the rows is worked out by joins that stream the table's keys past
those of the batch. The commit is one transaction: new data files, deletes of the rows
they replace, and the progress, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.transforms import BucketTransform
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.iceberg import ddl
from lakeward.adapters.formats.iceberg.checks import MODES
from lakeward.adapters.formats.iceberg.java import Jvm, committing
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.metadata.columns import check_paths
from lakeward.adapters.formats.iceberg.metadata.progress import standing_of
from lakeward.adapters.formats.iceberg.operations.adoption import IcebergExternalTable
from lakeward.adapters.formats.iceberg.operations.layout import DEFAULT_MODE
from lakeward.adapters.formats.iceberg.operations.rollback import IcebergLine
from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.adapters.formats.iceberg.side_tables.change_log_versions import IcebergEarlier
from lakeward.adapters.formats.iceberg.side_tables.side_table import IcebergBeside
from lakeward.adapters.formats.iceberg.writes.change import Change
from lakeward.adapters.formats.iceberg.writes.data_files import DataFiles
from lakeward.adapters.formats.iceberg.writes.local_files import find_rows
from lakeward.adapters.formats.iceberg.writes.position_deletes import by_file, positions_in, runs
from lakeward.adapters.formats.iceberg.writes.staged_files import IcebergFiles
from lakeward.adapters.formats.shared.operations.commit_failures import staging
from lakeward.adapters.formats.shared.operations.rollback import KeepingEarlier
from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.resolution.resolver import Work, resolved_by
from lakeward.adapters.formats.shared.rows.new_rows import stored_rows, written
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.system_columns import check_names, of_source
from lakeward.adapters.formats.shared.rows.table_rows import Loaded
from lakeward.adapters.formats.shared.side_tables.keys import told_apart_by
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.session.compatibility import from_arrow, to_arrow
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict
from lakeward.core.merge.facts import Capability
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, TableState
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import Kind, with_new_names
from lakeward.plugins.registry import SMALL_BATCH


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A table as a snapshot has it, None where it has none yet; `java` is Iceberg's own, which goes on."""

    name: str
    java: Any
    snapshot: Any
    spark: SparkSession
    files: DataFiles
    io: Callable[[], FileIO]

    @property
    def is_written(self) -> bool:
        """Whether it has a snapshot."""
        return self.snapshot is not None

    def rows(self) -> DataFrame:
        """Return all rows, and where each lies."""
        reader = self.spark.read
        if self.is_written:
            reader = reader.option("versionAsOf", str(self.snapshot.snapshotId()))
        rows = reader.table(self.name)
        return rows.selectExpr("*", f"_file AS {FILE}", f"_pos AS {POS}")

    def find(self, keys: pa.Table, wanted: Sequence[str]) -> pa.Table | None:
        """Return these columns of the rows with some keys, and where each lies; None where Spark must read them."""
        return find_rows(Jvm(self.spark), self.java, self.snapshot, self.files, self.io(), keys, wanted)


class IcebergTable:
    """One table; what it remembers is `kept` in those that stand beside it."""

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
        make, earlier = (
            partial(IcebergBeside, catalog, dimension.name, spark),
            IcebergEarlier(catalog, dimension.name),
        )
        self.kept = KeepingEarlier(dimension, make, spark, earlier, small_batch)

    @property
    def dimension(self) -> Dimension:
        """The dimension, with the columns of the table where it is there."""
        return self.kept.dimension

    @property
    def name(self) -> tuple[str, str, str]:
        """The name of the table in Spark."""
        return (self.catalog.name, *self.catalog.identifier(self.dimension.name))

    def standing(self) -> TableState:
        """Return what the last commit of ours says, and take the columns from it."""
        found = of_source(standing_of(self.catalog, self.dimension.name), self.dimension)
        if found.schema is not None:
            self.kept.know(with_new_names(found.schema, self.dimension.policies.renames))
        return found

    def line(self) -> IcebergLine | None:
        """Return the snapshots that its state comes from, or None where it is not there."""
        table = self.catalog.load(self.dimension.name)
        return None if table is None else IcebergLine(self.dimension.name, table, self._java)

    def theirs(self) -> IcebergExternalTable | None:
        """Return it as it is, whoever wrote it, or None where it is not there."""
        table = self.catalog.load(self.dimension.name)
        return (
            None
            if table is None
            else IcebergExternalTable(Jvm(self.spark()), self.dimension.name, self.name, table)
        )

    def loaded(self) -> Loaded | None:
        """Return it as it is now, with the rows of whoever wrote it, or None where it is not there."""
        is_there = self.catalog.load(self.dimension.name) is not None
        return self._loaded(Jvm(self.spark())) if is_there else None

    def _java(self) -> tuple[Jvm, Any]:
        jvm = Jvm(self.spark())
        return jvm, jvm.table(*self.name)

    def as_of(self, name: str) -> DataFrame:
        """Return its rows as of a snapshot."""
        return self.spark().read.option("versionAsOf", name).table(quoted(*self.name))

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        """Work out rows and counts; nothing is written."""
        return self.work_out(plan, partial(resolved_by, self.kept, plan, frame))

    def work_out(self, plan: MergePlan, work: Work) -> MergeResult:
        """Work out rows of the table as it is; nothing is written."""
        with committing(str(self.dimension.name)):
            return work(*self.load_for(plan))

    def load_for(self, plan: MergePlan) -> tuple[Loaded | None, Partitions]:
        """Return the table as it is, None where it is not there yet; refuse what it could not be made with."""
        self.kept.know(plan.evolution.schema, {plan.batch: plan.evolution.added})
        jvm = Jvm(self.spark())
        check_names(self.dimension, ddl.RESERVED, "Iceberg")
        check_paths(self.dimension.name, plan.evolution.schema)
        self._refuse_wider_partitions(plan)
        if plan.creates:
            ddl.check_options(jvm, self.dimension.stored, self.options)
        with committing(str(self.dimension.name)):
            return None if plan.creates else self._loaded(jvm), Partitions()

    def stage(self, plan: MergePlan, table: Loaded | None) -> IcebergFiles:
        """Begin files for a commit of a plan; the table is made where it is not there yet."""
        with committing(str(self.dimension.name)):
            undo = None if table is not None else partial(self.catalog.drop_unwritten, self.dimension.name)
            return IcebergFiles(self._begun(plan, table), undo)

    def _refuse_wider_partitions(self, plan: MergePlan) -> None:
        """Refuse to widen a column that rows are partitioned by as they are: Iceberg cannot write to both kinds."""
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
        self.kept.change_log.batches.refuse_others()
        outcome: Outcome = resolved.detail
        what = str(self.dimension.name)
        with committing(what):
            change = outcome.staged or self._begun(plan, outcome.table)
            with staging(what, change, "the catalog"):
                self._stage(change, plan, resolved)
                change.check(what, resolved.written, resolved.removed)
                return change.commit(progress, resolved.written, resolved.removed, self.run_ids)

    def _begun(self, plan: MergePlan, table: Loaded | None) -> Change:
        """Begin a change of the table as it was read, with the columns that it has afterwards; make it first."""
        jvm = Jvm(self.spark())
        loaded = table if isinstance(table, _Snapshot) else self._made(jvm)
        if plan.batch == 1 and self.options.sort_by:  # a crash may have made the table and no more
            ddl.order(jvm, loaded.java, plan.stored, self.options.sort_by)
        change = Change(jvm, loaded.java, self.catalog.io(self.dimension.name), loaded.snapshot, loaded.files)
        if plan.changes and not plan.creates:
            change.evolve(plan.changes)
        return change

    def _loaded(self, jvm: Jvm) -> _Snapshot:
        table = jvm.table(*self.name)
        snapshot, io = table.currentSnapshot(), partial(self.catalog.io, self.dimension.name)
        return _Snapshot(quoted(*self.name), table, snapshot, jvm.spark, DataFiles(jvm, table, snapshot), io)

    def _made(self, jvm: Jvm) -> _Snapshot:
        """Make the table."""
        self.catalog.prepare(self.dimension.name)
        location = self.catalog.location(self.dimension.name)
        ddl.create_main(self.spark(), self.name, location, self.dimension, self.options)
        return self._loaded(jvm)

    def _stage(self, change: Change, plan: MergePlan, resolved: MergeResult) -> None:
        outcome: Outcome = resolved.detail
        if outcome.drops_all:
            change.drop_all(resolved.removed)
        if outcome.staged is not None:
            return
        if not outcome.drops_all and resolved.removed and outcome.removed is not None:
            if outcome.places is not None and not self._rewrites(change.table):
                change.delete(positions_in(outcome.places))
            elif self._remove(change, plan, resolved, in_spark(outcome.removed)):
                return
        if resolved.written and not change.add_here(stored_rows(plan, outcome)):
            change.add(written(plan, resolved))

    def _remove(self, change: Change, plan: MergePlan, resolved: MergeResult, removed: DataFrame) -> bool:
        """Stage the removal of rows by Spark; return whether what is written was staged with it."""
        outcome: Outcome = resolved.detail
        if outcome.drops_below is not None:
            dropped = change.drop_below(outcome.drops_below)
            whole = pa.table({FILE: pa.array(dropped, pa.string())})
            removed = removed.join(from_arrow(self.spark(), whole), FILE, "left_anti")
        if not self._rewrites(change.table):
            change.delete(dict(by_file(to_arrow(runs(removed)))))
            return False
        files = to_arrow(removed.select(FILE).distinct())[FILE].to_pylist()
        if files:
            gone = removed.selectExpr(*map(quoted, told_apart_by(plan.stored)))
            change.rewrite(files, gone, plan, written(plan, resolved) if resolved.written else None)
        return bool(files)

    def _rewrites(self, table: Any) -> bool:
        """Whether files of changed rows are written anew: as the settings name it, else as the table does."""
        if "write_mode" in self.options.model_fields_set:
            return self.options.write_mode == "copy-on-write"
        return str(table.properties().getOrDefault(MODES[-1], DEFAULT_MODE)) == "copy-on-write"
