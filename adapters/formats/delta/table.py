"""Delta tables: rows and progress of one dimension.

Joins that stream the table's keys past those of the batch find out what a plan does to the rows. The commit is one
version of the log: new data files, deletion vectors or removed files for the rows that they replace, and the
progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.formats.delta import ddl
from lakeward.adapters.formats.delta.checks import check_options, check_renames
from lakeward.adapters.formats.delta.java import Jvm, committing
from lakeward.adapters.formats.delta.metadata.progress import read_table_state
from lakeward.adapters.formats.delta.operations.adoption import DeltaExternalTable
from lakeward.adapters.formats.delta.operations.rollback import DeltaLineage, oldest_batch
from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.adapters.formats.delta.snapshot import DeltaSnapshot
from lakeward.adapters.formats.delta.writes.change import Change
from lakeward.adapters.formats.delta.writes.data_files import DataFiles
from lakeward.adapters.formats.delta.writes.schema_evolution import name_after, properties_for
from lakeward.adapters.formats.delta.writes.staged_files import DeltaFiles
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.side_table_factory import open_side_tables
from lakeward.adapters.formats.shared.operations.commit_failures import another_writer, discarding_on_failure
from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.resolver import Resolve, resolve_plan
from lakeward.adapters.formats.shared.rows.new_rows import remaining_rows, rows_to_write, stored_rows
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.system_columns import check_names
from lakeward.adapters.formats.shared.rows.table_rows import TableSnapshot
from lakeward.adapters.formats.shared.side_tables.keys import identity_columns
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.merge.facts import Capability
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, TableState
from lakeward.core.progress import Progress
from lakeward.plugins.registry import SMALL_BATCH


class DeltaTable:
    """One table. `side_tables` are its change log and quarantine."""

    capabilities: frozenset[Capability] = frozenset(Capability)

    def __init__(
        self,
        places: Places,
        dimension: Dimension,
        options: TableOptions,
        spark: Callable[[], SparkSession],
        small_batch: int = SMALL_BATCH,
        run_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.places = places
        self.options = options
        self.spark = spark
        self.run_ids = run_ids
        self.path = places.of(dimension.name)
        oldest = partial(oldest_batch, places, dimension.name)
        self.side_tables = open_side_tables(places, dimension, spark, small_batch, oldest)

    @property
    def dimension(self) -> Dimension:
        """The dimension, with the columns of the table if it exists."""
        return self.side_tables.dimension

    def state(self) -> TableState:
        """Return the table state as of the last commit of ours, and use its columns from now on."""
        return self.side_tables.follow(read_table_state(self.places, self.dimension.name))

    def lineage(self) -> DeltaLineage | None:
        """Return the commits that its state comes from, or None if it does not exist."""
        return DeltaLineage.of(self.places, self.dimension.name, self.spark)

    def external(self) -> DeltaExternalTable | None:
        """Return it as a table of any writer, or None if it does not exist."""
        table = self.places.load(self.dimension.name)
        return (
            None
            if table is None
            else DeltaExternalTable(Jvm(self.spark()), self.dimension.name, self.places, table)
        )

    def snapshot(self) -> TableSnapshot | None:
        """Return its current version, of whichever writer, or None if it does not exist."""
        is_there = self.places.load(self.dimension.name) is not None
        return self._version(Jvm(self.spark())) if is_there else None

    def as_of(self, name: str) -> DataFrame:
        """Return its rows as of a version."""
        return self.spark().read.format("delta").option("versionAsOf", int(name)).load(self.path)

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        """Resolve a batch: rows and counts. Nothing is written."""
        return self.resolve_with(plan, partial(resolve_plan, self.side_tables, plan, frame))

    def resolve_with(self, plan: MergePlan, work: Resolve) -> MergeResult:
        """Resolve a plan by a given function against the table as it is. Nothing is written."""
        with committing(str(self.dimension.name)):
            return work(*self.load_for(plan))

    def load_for(self, plan: MergePlan) -> tuple[TableSnapshot | None, Partitions]:
        """Return the current version, None if the table does not exist yet, and its partitions.

        Raises ConfigError for what it could not be created with or changed to.
        """
        self.side_tables.set_schema(plan.evolution.schema, {plan.batch: plan.evolution.added})
        jvm = Jvm(self.spark())
        check_names(self.dimension, ddl.RESERVED, "Spark")
        if plan.creates:
            check_options(self.dimension.stored, self.options)
        with committing(str(self.dimension.name)):
            version = None if plan.creates else self._version(jvm)
            if version is not None:
                check_renames(self.dimension, plan.renames, has_feed=version.has_feed)
            columns = self.options.partition_by if version is None else version.partitions(jvm)
            return version, Partitions("Delta", [name_after(name, plan.evolution.changes) for name in columns])

    def stage(self, plan: MergePlan, table: TableSnapshot | None) -> DeltaFiles:
        """Begin files for the commit of a plan. The table is created if it does not exist yet."""
        with committing(str(self.dimension.name)), self.places.apart(self.dimension.name):
            return DeltaFiles(self._begin_change(plan, table), is_new=table is None)

    def _version(self, jvm: Jvm) -> DeltaSnapshot:
        snapshot = jvm.snapshot(self.path)
        vectors = jvm.single(jvm.delta.commands, "DeletionVectorUtils")
        has_vectors = bool(vectors.deletionVectorsWritable(snapshot.protocol(), snapshot.metadata()))
        files = DataFiles(jvm, self.places.at(self.dimension.name), snapshot)
        return DeltaSnapshot(self.path, snapshot, jvm.spark, has_vectors, files)

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit."""
        self.side_tables.change_log.batches.refuse_others()
        detail: MergeDetail = resolved.detail
        table_name = str(self.dimension.name)
        with committing(table_name), self.places.apart(self.dimension.name):
            change = detail.staged or self._begin_change(plan, detail.table)
            with discarding_on_failure(table_name, change, "Delta"):
                self._stage(change, plan, resolved)
                change.check(table_name, plan.batch, resolved.written, resolved.removed)
                return change.commit(progress, resolved.written, resolved.removed, self.run_ids)

    def _begin_change(self, plan: MergePlan, table: TableSnapshot | None) -> Change:
        """Begin a change of the table as it was read, with the columns after the batch.

        The table is created if it does not exist yet.
        """
        jvm = Jvm(self.spark())
        version = table if isinstance(table, DeltaSnapshot) else self._create_table(jvm)
        changes = () if plan.creates else plan.changes
        snapshot = self._enabled(jvm, version.java, properties_for(changes))
        files = version.files if snapshot is version.java else None
        change = Change(jvm, self.path, snapshot, files, has_vectors=version.has_vectors)
        if changes:
            change.evolve(changes)
        return change

    def _create_table(self, jvm: Jvm) -> DeltaSnapshot:
        """Create the table."""
        self.places.prepare(self.dimension.name)
        ddl.create(jvm.spark, self.path, self.dimension, self.options)
        return self._version(jvm)

    def _enabled(self, jvm: Jvm, snapshot: Any, properties: dict[str, str]) -> Any:
        """Return the version to commit on: the one read, or the next one with properties that the change needs."""
        configuration = snapshot.metadata().configuration()
        lacking = {name: value for name, value in properties.items() if not configuration.contains(name)}
        if not lacking:
            return snapshot
        ddl.enable(jvm.spark, self.path, lacking)
        next_snapshot = jvm.snapshot(self.path)
        if next_snapshot.version() != snapshot.version() + 1:
            raise another_writer(str(self.dimension.name))
        return next_snapshot

    def _stage(self, change: Change, plan: MergePlan, resolved: MergeResult) -> None:
        detail: MergeDetail = resolved.detail
        if detail.drops_all:
            change.drop_all(resolved.removed)
        if detail.staged is not None:
            return
        if not detail.drops_all and resolved.removed and detail.removed is not None:
            if not change.has_vectors:
                self._rewrite(change, plan, resolved, in_spark(detail.removed))
                return
            if not change.delete_here(detail.places):
                change.delete(in_spark(detail.removed).select(FILE, POS))
        if resolved.written and not change.add_here(stored_rows(plan, detail)):
            change.add(rows_to_write(plan, resolved))

    def _rewrite(self, change: Change, plan: MergePlan, resolved: MergeResult, removed: DataFrame) -> None:
        """Stage new files in place of those with rows that go, together with the new rows."""
        removed_keys = removed.selectExpr(*map(quoted, identity_columns(plan.stored)))
        others = remaining_rows(plan, change.rewrite(removed), removed_keys)
        rows = others.unionByName(rows_to_write(plan, resolved), allowMissingColumns=True)
        change.add(rows.select(*[F.col(quoted(name)) for name in rows.columns]))
