"""Hudi tables: rows and progress of one dimension.

Joins that stream the table's keys past those of the batch find out what a plan does to the rows. The commit is one
instant of the timeline: a log or new files with written and deleted rows, and the progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Final

from deltalake.exceptions import DeltaError
from filelock import Timeout
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.formats.delta_rs.commit_failures import lost_race
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.side_table_factory import open_side_tables
from lakeward.adapters.formats.hudi.checks import check_change, check_place, check_record_key, check_table
from lakeward.adapters.formats.hudi.java import Jvm
from lakeward.adapters.formats.hudi.metadata.clock import MACHINE, Clock, wait_until_past
from lakeward.adapters.formats.hudi.metadata.columns import KEY, META_COLUMNS
from lakeward.adapters.formats.hudi.metadata.progress import read_table_state, timeline_of
from lakeward.adapters.formats.hudi.metadata.table_properties import properties_of
from lakeward.adapters.formats.hudi.metadata.timeline import Instant, Timeline
from lakeward.adapters.formats.hudi.operations.adoption import HudiExternalTable
from lakeward.adapters.formats.hudi.operations.layout import Layout, layout_of
from lakeward.adapters.formats.hudi.operations.rollback import HudiLineage, oldest_batch
from lakeward.adapters.formats.hudi.operations.unsupported_features import Features
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.hudi.session import reader, ready
from lakeward.adapters.formats.hudi.snapshot import HudiSnapshot
from lakeward.adapters.formats.hudi.writes import write_options
from lakeward.adapters.formats.hudi.writes.change import Change
from lakeward.adapters.formats.shared.operations.commit_failures import (
    another_writer,
    discarding_on_failure,
    translating_commit_failures,
)
from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.resolver import Resolve, resolve_plan
from lakeward.adapters.formats.shared.rows.new_rows import remaining_rows, rows_to_write
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.table_rows import TableSnapshot
from lakeward.adapters.formats.shared.side_tables.keys import identity_columns
from lakeward.adapters.formats.shared.storage.folder import PATIENCE, DiskFolder, lock_timeout
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.merge.facts import Capability
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, TableState
from lakeward.core.progress import Progress
from lakeward.plugins.registry import SMALL_BATCH

_PATIENCE: Final = PATIENCE
"""Seconds to wait for another process that commits; its lock ends with it."""


class HudiTable:
    """One table. `side_tables` are its change log and quarantine."""

    capabilities: frozenset[Capability] = frozenset(Capability)
    clock: Clock = MACHINE

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
        self.folder = places.at(dimension.name)
        self.path = str(self.folder)
        oldest = partial(oldest_batch, places, dimension.name)
        self.side_tables = open_side_tables(places, dimension, spark, small_batch, oldest)

    @property
    def dimension(self) -> Dimension:
        """The dimension, with the columns of the table if it exists."""
        return self.side_tables.dimension

    @property
    def timeline(self) -> Timeline:
        """The completed writes of the table."""
        return timeline_of(self.places, self.dimension.name)

    @property
    def layout(self) -> Layout:
        """Its layout: as it was created, or by the settings if no commit has it."""
        return layout_of(self.timeline.instants(), str(self.dimension.name)) or Layout.of(self.options)

    def state(self) -> TableState:
        """Return the table state as of the last commit of ours, and use its columns from now on."""
        return self.side_tables.follow(read_table_state(self.places, self.dimension.name))

    def lineage(self) -> HudiLineage | None:
        """Return the writes that its state comes from, or None if it does not exist."""
        return HudiLineage.of(self)

    def external(self) -> HudiExternalTable | None:
        """Return it as a table of any writer, or None if it does not exist."""
        properties = properties_of(self.folder)
        features = Features(self.folder, properties, self.clock)
        return HudiExternalTable(self, features, self.timeline.newest()) if properties else None

    def snapshot(self) -> TableSnapshot | None:
        """Return its current version, of whichever writer, or None if it does not exist."""
        newest = self.timeline.newest()
        return None if newest is None else self._snapshot_at(newest)

    def as_of(self, name: str) -> DataFrame:
        """Return its rows as of an instant."""
        rows = reader(self.spark(), name).load(self.path)
        return rows.drop(*META_COLUMNS, KEY)

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        """Resolve a batch: rows and counts. Nothing is written."""
        return self.resolve_with(plan, partial(resolve_plan, self.side_tables, plan, frame))

    def resolve_with(self, plan: MergePlan, work: Resolve) -> MergeResult:
        """Resolve a plan by a given function against the table as it is. Nothing is written."""
        self.side_tables.set_schema(plan.evolution.schema, {plan.batch: plan.evolution.added})
        if plan.creates:
            check_table(self.dimension, self.options)
            check_place(self.dimension, self.folder)
        with self.committing():
            snapshot = None if plan.creates else self._snapshot_for(plan)
            ambiguous_texts = self.layout.ambiguous_texts(self.dimension)
            return work(snapshot, Partitions("Hudi", self.options.partition_by, ambiguous_texts))

    def _snapshot_for(self, plan: MergePlan) -> HudiSnapshot:
        newest = self.timeline.newest()
        if newest is None:
            raise CommitConflict(
                f"{self.dimension.name}: another process removed the table in between",
                todo="Nothing of this batch was applied. Run again: it is loaded anew.",
            )
        check_change(self.dimension, self.options, self.layout, plan.evolution)
        if not self.layout.theirs:
            check_record_key(self.dimension, properties_of(self.folder))
        check_table(self.dimension, self.options)
        return self._snapshot_at(newest)

    def _snapshot_at(self, instant: Instant) -> HudiSnapshot:
        return HudiSnapshot(
            path=self.path,
            instant=instant,
            as_of=self.timeline.greatest(),
            spark=ready(self.spark()),
            place=tuple(self.layout.place(self.dimension)),
        )

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit."""
        self.side_tables.change_log.batches.refuse_others()
        detail: MergeDetail = resolved.detail
        ready(self.spark())
        table_name = str(self.dimension.name)
        snapshot_read = detail.table if isinstance(detail.table, HudiSnapshot) else None
        self.places.prepare(self.dimension.name)
        with self.committing(), self.alone():
            self._check_unchanged(plan, None if snapshot_read is None else snapshot_read.instant)
            change = Change(self.timeline, plan.batch)
            layout = self.layout
            rows = write_options.as_records(rows_to_write(plan, resolved), self.dimension.stored, layout)
            with discarding_on_failure(table_name, change, "Hudi"), _cached(rows, detail.removed is not None):
                records, replaces = self._records(plan, detail, rows, snapshot_read)
                options = {
                    **write_options.options_of(self.dimension, self.options, layout.theirs),
                    **write_options.operation_of(plan, replaces=replaces),
                    **write_options.commit_metadata(progress, layout, self.run_ids),
                }
                records.write.format("hudi").options(**options).mode("append").save(self.path)
            return Commit(self.instant_of_batch(plan.batch), resolved.written, resolved.removed)

    def instant_of_batch(self, batch: int) -> str:
        """Return the instant of a batch that was just written. Raises TableError if the timeline lacks it."""
        last_commit = self.timeline.newest_with_progress()
        if last_commit is None or last_commit[1].batch != batch:
            newest = "nothing" if last_commit is None else f"batch {last_commit[1].batch}"
            raise TableError(
                f"{self.dimension.name}: Hudi wrote the batch, and its timeline does not have it",
                found=f"{self.timeline.folder} ends with {newest}",
                todo="Is it another Hudi than 1.2, with which lakeward was tested? Let nobody write the table "
                "until this is known.",
            )
        return last_commit[0].requested

    def committing(self) -> AbstractContextManager[None]:
        """Raise an error that people understand if a commit fails. Lost races are noticed before the commit."""
        return translating_commit_failures(str(self.dimension.name), (DeltaError,), lost_race)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the table against other processes of lakeward, in Python and in the JVM.

        There are two locks. Python's also separates threads, and ends with Python; the JVM may go on for a moment.
        Instants written under the lock sort after all others: raises TableError if the clock is too far behind for
        that.
        """
        table_name = str(self.dimension.name)
        with self.folder.lock(table_name), self._java_alone():
            wait_until_past(self.timeline, table_name, self.clock)
            yield

    @contextmanager
    def _java_alone(self) -> Iterator[None]:
        """Hold a lock that ends with the JVM; in a bucket there is none, where the other lock outlives Python."""
        if not isinstance(self.folder, DiskFolder):
            yield
            return
        of_java = self.folder.path.with_name(f".{self.folder.path.name}.java.lock")
        try:
            with Jvm(self.spark()).locked(of_java, _PATIENCE):
                yield
        except Timeout as error:
            raise lock_timeout(str(self.dimension.name), error.lock_file) from error

    def _check_unchanged(self, plan: MergePlan, instant_read: Instant | None) -> None:
        """Raise CommitConflict if anybody has committed since the rows were read."""
        newest, last_commit = self.timeline.newest(), self.timeline.newest_with_progress()
        batch = 0 if last_commit is None else last_commit[1].batch
        if newest != instant_read or batch != plan.batch - 1:
            cause = None if newest is None else f"its newest instant is {newest.requested}, at batch {batch}"
            raise another_writer(str(self.dimension.name), cause)

    def _records(
        self, plan: MergePlan, detail: MergeDetail, rows: DataFrame, snapshot_read: HudiSnapshot | None
    ) -> tuple[DataFrame, bool]:
        """Return the records to write, with those that delete others, and whether they replace all rows."""
        if snapshot_read is None or detail.drops_all:
            return rows, detail.drops_all
        if plan.renames:
            remaining = self._remaining_records(plan, detail, snapshot_read)
            return remaining.unionByName(rows, allowMissingColumns=True), True
        if detail.removed is None:
            return rows, False
        return rows.unionByName(
            write_options.deletes_of(in_spark(detail.removed), rows, snapshot_read.place)
        ), False

    def _remaining_records(self, plan: MergePlan, detail: MergeDetail, snapshot_read: HudiSnapshot) -> DataFrame:
        """Return the records of the rows that stay, under their new names: a rename rewrites all rows."""
        identity = map(quoted, identity_columns(plan.stored))
        removed_keys = None if detail.removed is None else in_spark(detail.removed).selectExpr(*identity)
        others = remaining_rows(plan, snapshot_read.rows().drop(FILE, POS), removed_keys)
        return write_options.as_records(others, plan.stored, self.layout)


@contextmanager
def _cached(rows: DataFrame, is_read_twice: bool) -> Iterator[None]:
    """Cache rows that are read twice while the context lasts."""
    if is_read_twice:
        rows.persist()
    try:
        yield
    finally:
        rows.unpersist()
