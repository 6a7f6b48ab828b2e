"""Hudi tables: rows and progress of one dimension.

What the plan does to the rows is worked out by joins that stream the table's keys past those of the batch. The
commit is one instant of the timeline: a log or new files for what is written and what goes, and the progress.
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

from lakeward.adapters.formats.delta_rs.change_log_versions import DeltaEarlier
from lakeward.adapters.formats.delta_rs.commit_failures import lost_race
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.side_table import DeltaBeside
from lakeward.adapters.formats.hudi.checks import check, check_change, check_place, check_record_key
from lakeward.adapters.formats.hudi.java import Jvm
from lakeward.adapters.formats.hudi.metadata.clock import MACHINE, Clock, pass_by
from lakeward.adapters.formats.hudi.metadata.columns import KEY, META_COLUMNS
from lakeward.adapters.formats.hudi.metadata.progress import standing_of, timeline_of
from lakeward.adapters.formats.hudi.metadata.table_properties import properties_of
from lakeward.adapters.formats.hudi.metadata.timeline import Instant, Timeline
from lakeward.adapters.formats.hudi.operations.adoption import HudiExternalTable
from lakeward.adapters.formats.hudi.operations.layout import Layout, layout_of
from lakeward.adapters.formats.hudi.operations.rollback import HudiLine, oldest_batch
from lakeward.adapters.formats.hudi.operations.unsupported_features import Features
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.hudi.session import reader, ready
from lakeward.adapters.formats.hudi.version import HudiVersion
from lakeward.adapters.formats.hudi.writes import write_options
from lakeward.adapters.formats.hudi.writes.change import Change
from lakeward.adapters.formats.shared.operations.commit_failures import committing_by, staging
from lakeward.adapters.formats.shared.operations.rollback import KeepingEarlier
from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.resolution.resolver import Work, resolved_by
from lakeward.adapters.formats.shared.rows.new_rows import written
from lakeward.adapters.formats.shared.rows.partition_values import Partitions
from lakeward.adapters.formats.shared.rows.system_columns import of_source
from lakeward.adapters.formats.shared.rows.table_rows import Loaded
from lakeward.adapters.formats.shared.side_tables.keys import told_apart_by
from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES
from lakeward.adapters.formats.shared.storage.folder import PATIENCE, DiskFolder, selection
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.merge.resolution import FILE, POS
from lakeward.adapters.spark.schema_changes.schema_alignment import called_now, fitted
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.errors import CommitConflict, TableError
from lakeward.core.merge.facts import Capability
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, TableState
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import with_new_names
from lakeward.plugins.registry import SMALL_BATCH

_PATIENCE: Final = PATIENCE
"""Seconds to wait while another process commits: it holds no lock that it forgot, for its end frees it."""


class HudiTable:
    """One table; what it remembers is `kept` in those that stand beside it."""

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
        make = partial(DeltaBeside, places, dimension.name, spark)
        earlier = DeltaEarlier(make(CHANGES, {}, tuple), partial(oldest_batch, places, dimension.name))
        self.kept = KeepingEarlier(dimension, make, spark, earlier, small_batch)

    @property
    def dimension(self) -> Dimension:
        """The dimension, with the columns of the table where it is there."""
        return self.kept.dimension

    @property
    def timeline(self) -> Timeline:
        """What was completed on the table."""
        return timeline_of(self.places, self.dimension.name)

    @property
    def layout(self) -> Layout:
        """How it is laid out: as it was made, or as the settings would have it where no commit tells."""
        return layout_of(self.timeline.instants(), str(self.dimension.name)) or Layout.of(self.options)

    def standing(self) -> TableState:
        """Return what the last commit of ours says, and take the columns from it."""
        found = of_source(standing_of(self.places, self.dimension.name), self.dimension)
        if found.schema is not None:
            self.kept.know(with_new_names(found.schema, self.dimension.policies.renames))
        return found

    def line(self) -> HudiLine | None:
        """Return the writes that its state comes from, or None where it is not there."""
        return HudiLine.of(self)

    def theirs(self) -> HudiExternalTable | None:
        """Return it as it is, whoever wrote it, or None where it is not there."""
        properties = properties_of(self.folder)
        features = Features(self.folder, properties, self.clock)
        return HudiExternalTable(self, features, self.timeline.newest()) if properties else None

    def loaded(self) -> Loaded | None:
        """Return it as it is now, with the rows of whoever wrote it, or None where it is not there."""
        newest = self.timeline.newest()
        return None if newest is None else self._at(newest)

    def as_of(self, name: str) -> DataFrame:
        """Return its rows as of an instant."""
        rows = reader(self.spark(), name).load(self.path)
        return rows.drop(*META_COLUMNS, KEY)

    def resolve(self, plan: MergePlan, frame: Frame) -> MergeResult:
        """Work out rows and counts; nothing is written."""
        return self.work_out(plan, partial(resolved_by, self.kept, plan, frame))

    def work_out(self, plan: MergePlan, work: Work) -> MergeResult:
        """Work out rows of the table as it is; nothing is written."""
        self.kept.know(plan.evolution.schema, {plan.batch: plan.evolution.added})
        if plan.creates:
            check(self.dimension, self.options)
            check_place(self.dimension, self.folder)
        with self.committing():
            version = None if plan.creates else self._version(plan)
            mixed = self.layout.mixed(self.dimension)
            return work(version, Partitions("Hudi", self.options.partition_by, mixed))

    def _version(self, plan: MergePlan) -> HudiVersion:
        newest = self.timeline.newest()
        if newest is None:
            raise CommitConflict(
                f"{self.dimension.name}: another process removed the table in between",
                todo="Nothing of this batch was applied. Run again: it is loaded anew.",
            )
        check_change(self.dimension, self.options, self.layout, plan.evolution)
        if not self.layout.theirs:
            check_record_key(self.dimension, properties_of(self.folder))
        check(self.dimension, self.options)
        return self._at(newest)

    def _at(self, instant: Instant) -> HudiVersion:
        return HudiVersion(
            path=self.path,
            instant=instant,
            as_of=self.timeline.greatest(),
            spark=ready(self.spark()),
            place=tuple(self.layout.place(self.dimension)),
        )

    def commit(self, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        """Make rows and progress visible in one commit."""
        self.kept.change_log.batches.refuse_others()
        outcome: Outcome = resolved.detail
        ready(self.spark())
        what = str(self.dimension.name)
        read = outcome.table if isinstance(outcome.table, HudiVersion) else None
        self.places.prepare(self.dimension.name)
        with self.committing(), self.alone():
            self._check_unchanged(plan, None if read is None else read.instant)
            change = Change(self.timeline, plan.batch)
            layout = self.layout
            rows = write_options.as_records(written(plan, resolved), self.dimension.stored, layout)
            with staging(what, change, "Hudi"), _kept(rows, outcome.removed is not None):
                records, replaces = self._records(plan, outcome, rows, read)
                options = {
                    **write_options.options_of(self.dimension, self.options, layout.theirs),
                    **write_options.operation_of(plan, replaces=replaces),
                    **write_options.said(progress, layout, self.run_ids),
                }
                records.write.format("hudi").options(**options).mode("append").save(self.path)
            return Commit(self.made(plan.batch), resolved.written, resolved.removed)

    def made(self, batch: int) -> str:
        """Return the instant of a batch that was written just now."""
        ours = self.timeline.newest_of_ours()
        if ours is None or ours[1].batch != batch:
            raise TableError(
                f"{self.dimension.name}: Hudi wrote the batch, and its timeline does not have it",
                found=f"{self.timeline.folder} ends with {'nothing' if ours is None else f'batch {ours[1].batch}'}",
                todo="Is it another Hudi than 1.2, with which lakeward was tested? Let nobody write the table "
                "until this is known.",
            )
        return ours[0].requested

    def committing(self) -> AbstractContextManager[None]:
        """Say in a person's words why a commit failed; that another writer was first, is seen before it."""
        return committing_by(str(self.dimension.name), (DeltaError,), lost_race)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes of lakeward from committing, until this one has, and Java with it.

        Two locks: that of Python also keeps threads apart, and ends with it; Java may then go on for a moment.
        What is written comes behind all that was: raises TableError where the clock is too far behind for that.
        """
        what = str(self.dimension.name)
        with self.folder.alone(what), self._java_alone():
            pass_by(self.timeline, what, self.clock)
            yield

    @contextmanager
    def _java_alone(self) -> Iterator[None]:
        """Hold a lock that ends with Java; in a bucket it has none: the other outlives Python for a while."""
        if not isinstance(self.folder, DiskFolder):
            yield
            return
        of_java = self.folder.path.with_name(f".{self.folder.path.name}.java.lock")
        try:
            with Jvm(self.spark()).locked(of_java, _PATIENCE):
                yield
        except Timeout as error:
            raise selection(str(self.dimension.name), error.lock_file) from error

    def _check_unchanged(self, plan: MergePlan, read: Instant | None) -> None:
        """Raise CommitConflict where anybody committed since the rows were read; nobody of lakeward does."""
        newest, ours = self.timeline.newest(), self.timeline.newest_of_ours()
        batch = 0 if ours is None else ours[1].batch
        if newest != read or batch != plan.batch - 1:
            raise CommitConflict(
                f"{self.dimension.name}: another writer committed to the table in between",
                found=None if newest is None else f"its newest instant is {newest.requested}, at batch {batch}",
                todo="Nothing of this batch was applied. Run again when the other writer is done.",
            )

    def _records(
        self, plan: MergePlan, outcome: Outcome, rows: DataFrame, read: HudiVersion | None
    ) -> tuple[DataFrame, bool]:
        """Return what is written, records that take others away among it, and whether it replaces all rows."""
        if read is None or outcome.drops_all:
            return rows, outcome.drops_all
        if plan.renames:
            return self._others(plan, outcome, read).unionByName(rows, allowMissingColumns=True), True
        if outcome.removed is None:
            return rows, False
        return rows.unionByName(write_options.deletes_of(in_spark(outcome.removed), rows, read.place)), False

    def _others(self, plan: MergePlan, outcome: Outcome, read: HudiVersion) -> DataFrame:
        """Return the rows that stay as they are, with their columns' new names: Hudi writes all of them anew."""
        others = fitted(called_now(read.rows().drop(FILE, POS), plan.renames), plan.stored.schema)
        if outcome.removed is not None:
            gone = in_spark(outcome.removed).selectExpr(*map(quoted, told_apart_by(plan.stored)))
            others = others.join(gone, gone.columns, "left_anti")
        return write_options.as_records(others, plan.stored, self.layout)


@contextmanager
def _kept(rows: DataFrame, is_read_twice: bool) -> Iterator[None]:
    """Keep rows that are read twice, while the context lasts."""
    if is_read_twice:
        rows.persist()
    try:
        yield
    finally:
        rows.unpersist()
