"""Delta tables: rows and progress of one dimension.

What the plan does to the rows is worked out by joins that stream the table's keys past
those of the batch. The commit is one version of the log: new data files, deletion vectors or
removed files for the rows that they replace, and the progress, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.formats.delta import ddl
from lakeward.adapters.formats.delta.checks import FEED, check, check_renames
from lakeward.adapters.formats.delta.java import Jvm, committing
from lakeward.adapters.formats.delta.metadata.progress import standing_of
from lakeward.adapters.formats.delta.operations.adoption import DeltaExternalTable
from lakeward.adapters.formats.delta.operations.rollback import DeltaLine, oldest_batch
from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.adapters.formats.delta.writes.change import Change
from lakeward.adapters.formats.delta.writes.data_files import DataFiles
from lakeward.adapters.formats.delta.writes.local_files import find_rows
from lakeward.adapters.formats.delta.writes.schema_evolution import properties_for, renamed
from lakeward.adapters.formats.delta.writes.staged_files import DeltaFiles
from lakeward.adapters.formats.delta_rs.change_log_versions import DeltaEarlier
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.side_table import DeltaBeside
from lakeward.adapters.formats.shared.operations.commit_failures import staging
from lakeward.adapters.formats.shared.operations.rollback import KeepingEarlier
from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.resolution.resolver import Work, resolved_by
from lakeward.adapters.formats.shared.rows.new_rows import stored_rows, written
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.system_columns import check_names, of_source
from lakeward.adapters.formats.shared.rows.table_rows import Loaded
from lakeward.adapters.formats.shared.side_tables.keys import told_apart_by
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.schema_changes.schema_alignment import called_now, fitted
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.errors import CommitConflict
from lakeward.core.merge.facts import Capability
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, TableState
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import with_new_names
from lakeward.plugins.registry import SMALL_BATCH


@dataclass(frozen=True, slots=True)
class _Version:
    """A table as a version of its log has it; `java` is Delta's own snapshot."""

    path: str
    java: Any
    spark: SparkSession
    has_vectors: bool
    files: DataFiles

    @property
    def is_written(self) -> bool:
        """Whether anything came behind the version that made it, which has no rows."""
        return bool(self.java.version())

    def partitions(self, jvm: Jvm) -> Sequence[str]:
        """Return the columns that rows are partitioned by."""
        return list(map(str, jvm.items(self.java.metadata().partitionColumns())))

    @property
    def has_feed(self) -> bool:
        """Whether it has a change data feed."""
        said = self.java.metadata().configuration().get(FEED)
        return bool(said.isDefined()) and str(said.get()).lower() == "true"

    def rows(self) -> DataFrame:
        """Return all rows, and where each lies; a row's number is asked only where vectors can take it."""
        place = "_metadata.row_index" if self.has_vectors else "CAST(NULL AS bigint)"
        rows = self.spark.read.format("delta").option("versionAsOf", int(self.java.version())).load(self.path)
        return rows.selectExpr("*", f"_metadata.file_path AS {FILE}", f"{place} AS {POS}")

    def find(self, keys: pa.Table, wanted: Sequence[str]) -> pa.Table | None:
        """Return these columns of the rows with some keys, and where each lies; None where Spark must read them."""
        return find_rows(self.files, keys, wanted)


class DeltaTable:
    """One table; what it remembers is `kept` in those that stand beside it."""

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
        make = partial(DeltaBeside, places, dimension.name, spark)
        earlier = DeltaEarlier(make(CHANGES, {}, tuple), partial(oldest_batch, places, dimension.name))
        self.kept = KeepingEarlier(dimension, make, spark, earlier, small_batch)

    @property
    def dimension(self) -> Dimension:
        """The dimension, with the columns of the table where it is there."""
        return self.kept.dimension

    def standing(self) -> TableState:
        """Return what the last commit of ours says, and take the columns from it."""
        found = of_source(standing_of(self.places, self.dimension.name), self.dimension)
        if found.schema is not None:
            self.kept.know(with_new_names(found.schema, self.dimension.policies.renames))
        return found

    def line(self) -> DeltaLine | None:
        """Return the commits that its state comes from, or None where it is not there."""
        return DeltaLine.of(self.places, self.dimension.name, self.spark)

    def theirs(self) -> DeltaExternalTable | None:
        """Return it as it is, whoever wrote it, or None where it is not there."""
        table = self.places.load(self.dimension.name)
        return (
            None
            if table is None
            else DeltaExternalTable(Jvm(self.spark()), self.dimension.name, self.places, table)
        )

    def loaded(self) -> Loaded | None:
        """Return it as it is now, with the rows of whoever wrote it, or None where it is not there."""
        is_there = self.places.load(self.dimension.name) is not None
        return self._version(Jvm(self.spark())) if is_there else None

    def as_of(self, name: str) -> DataFrame:
        """Return its rows as of a version."""
        return self.spark().read.format("delta").option("versionAsOf", int(name)).load(self.path)

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
        check_names(self.dimension, ddl.RESERVED, "Spark")
        if plan.creates:
            check(self.dimension.stored, self.options)
        with committing(str(self.dimension.name)):
            version = None if plan.creates else self._version(jvm)
            if version is not None:
                check_renames(self.dimension, plan.renames, has_feed=version.has_feed)
            columns = self.options.partition_by if version is None else version.partitions(jvm)
            return version, Partitions("Delta", [renamed(name, plan.evolution.changes) for name in columns])

    def stage(self, plan: MergePlan, table: Loaded | None) -> DeltaFiles:
        """Begin files for a commit of a plan; the table is made where it is not there yet."""
        with committing(str(self.dimension.name)), self.places.apart(self.dimension.name):
            return DeltaFiles(self._begun(plan, table), is_new=table is None)

    def _version(self, jvm: Jvm) -> _Version:
        snapshot = jvm.snapshot(self.path)
        vectors = jvm.single(jvm.delta.commands, "DeletionVectorUtils")
        has_vectors = bool(vectors.deletionVectorsWritable(snapshot.protocol(), snapshot.metadata()))
        files = DataFiles(jvm, self.places.at(self.dimension.name), snapshot)
        return _Version(self.path, snapshot, jvm.spark, has_vectors, files)

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit."""
        self.kept.change_log.batches.refuse_others()
        outcome: Outcome = resolved.detail
        what = str(self.dimension.name)
        with committing(what), self.places.apart(self.dimension.name):
            change = outcome.staged or self._begun(plan, outcome.table)
            with staging(what, change, "Delta"):
                self._stage(change, plan, resolved)
                change.check(what, plan.batch, resolved.written, resolved.removed)
                return change.commit(progress, resolved.written, resolved.removed, self.run_ids)

    def _begun(self, plan: MergePlan, table: Loaded | None) -> Change:
        """Begin a change of the table as it was read, with the columns that it has afterwards; make it first."""
        jvm = Jvm(self.spark())
        version = table if isinstance(table, _Version) else self._made(jvm)
        changes = () if plan.creates else plan.changes
        snapshot = self._enabled(jvm, version.java, properties_for(changes))
        files = version.files if snapshot is version.java else None
        change = Change(jvm, self.path, snapshot, files, has_vectors=version.has_vectors)
        if changes:
            change.evolve(changes)
        return change

    def _made(self, jvm: Jvm) -> _Version:
        """Make the table."""
        self.places.prepare(self.dimension.name)
        ddl.create(jvm.spark, self.path, self.dimension, self.options)
        return self._version(jvm)

    def _enabled(self, jvm: Jvm, snapshot: Any, properties: dict[str, str]) -> Any:
        """Return the version to commit on: that which was read, or the next one, which allows what is to come."""
        has = snapshot.metadata().configuration()
        lacking = {name: value for name, value in properties.items() if not has.contains(name)}
        if not lacking:
            return snapshot
        ddl.enable(jvm.spark, self.path, lacking)
        found = jvm.snapshot(self.path)
        if found.version() != snapshot.version() + 1:
            raise CommitConflict(
                f"{self.dimension.name}: another writer committed to the table in between",
                todo="Nothing of this batch was applied. Run again when the other writer is done.",
            )
        return found

    def _stage(self, change: Change, plan: MergePlan, resolved: MergeResult) -> None:
        outcome: Outcome = resolved.detail
        if outcome.drops_all:
            change.drop_all(resolved.removed)
        if outcome.staged is not None:
            return
        if not outcome.drops_all and resolved.removed and outcome.removed is not None:
            if not change.has_vectors:
                self._rewrite(change, plan, resolved, in_spark(outcome.removed))
                return
            if not change.delete_here(outcome.places):
                change.delete(in_spark(outcome.removed).select(FILE, POS))
        if resolved.written and not change.add_here(stored_rows(plan, outcome)):
            change.add(written(plan, resolved))

    def _rewrite(self, change: Change, plan: MergePlan, resolved: MergeResult, removed: DataFrame) -> None:
        """Stage files anew that have rows which go, with the new rows."""
        gone = removed.selectExpr(*map(quoted, told_apart_by(plan.stored)))
        others = called_now(change.rewrite(removed), plan.renames)
        others = fitted(others, plan.stored.schema).join(gone, gone.columns, "left_anti")
        rows = others.unionByName(written(plan, resolved), allowMissingColumns=True)
        change.add(rows.select(*[F.col(quoted(name)) for name in rows.columns]))
