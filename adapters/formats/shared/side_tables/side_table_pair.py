"""The change log and the quarantine of a table behind the ports of the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log.column_changes import NO_COMING_COLUMNS, ComingColumns
from lakeward.adapters.formats.shared.change_log.entries import BASE, BY_PLACE, DELETE, EVENT, RELEASED, WAITING
from lakeward.adapters.formats.shared.change_log.incomplete_events import incomplete_of, unsettled_of
from lakeward.adapters.formats.shared.change_log.retention import next_trim, trim
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.change_log.writer import record_batch, record_decision
from lakeward.adapters.formats.shared.operations.direct_load import DirectLoad
from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.rows.system_columns import of_source
from lakeward.adapters.formats.shared.side_tables.quarantine import QuarantineTable
from lakeward.adapters.formats.shared.side_tables.side_table import UNKNOWN, OpenSideTable
from lakeward.adapters.spark.frames.event_frame import facts, survey
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.merge.resolution import as_incomplete, stored_column
from lakeward.adapters.spark.schema_changes.changed_rows import refused
from lakeward.adapters.spark.schema_changes.schema_alignment import alike
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.ledger.objects import ObjectRecord
from lakeward.core.merge.change_log import Hold, Reason
from lakeward.core.merge.facts import PARTIAL
from lakeward.core.merge.truncates import Truncates
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Batch, ChangeLogState, Entry, MergeResult, OperatorDecision, TableState
from lakeward.core.progress import Progress
from lakeward.core.quarantine.holds import Waiters
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import with_new_names
from lakeward.plugins.registry import SMALL_BATCH


class SideTables:
    """The side tables of one table, and its last full load that was written while it was read.

    The core resolves batches of at most `small_batch` rows.
    """

    def __init__(
        self,
        dimension: Dimension,
        open_side_table: OpenSideTable,
        spark: Callable[[], SparkSession],
        small_batch: int = SMALL_BATCH,
    ) -> None:
        self.dimension = dimension
        self.spark = spark
        self.small_batch = small_batch
        self.direct_load: DirectLoad | None = None
        self.change_log = ChangeLogTable(dimension, open_side_table)
        self.quarantine = QuarantineTable(dimension, open_side_table, spark)

    def set_schema(self, schema: Schema, coming: ComingColumns = NO_COMING_COLUMNS) -> None:
        """Set the columns of the table, and those that it gets with the current batch (`coming`)."""
        self.dimension = replace(self.dimension, schema=schema)
        self.change_log.dimension, self.change_log.coming_columns = self.dimension, coming
        self.quarantine.dimension = self.dimension

    def follow(self, state: TableState) -> TableState:
        """Return a table state with the columns of the source only, and use these columns from now on."""
        state = of_source(state, self.dimension)
        if state.schema is not None:
            self.set_schema(with_new_names(state.schema, self.dimension.policies.renames))
        return state

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Return the applied objects, held keys and operator decisions as of the table's batch."""
        objects = self.change_log.batches.objects(progress)
        batches = self.change_log.batches.records
        records = [batch.record for batch in batches.values() if batch.record is not None]
        shown = {number: batch.shown for number, batch in batches.items() if batch.shown}
        decisions, in_part = tuple(self.change_log.batches.decisions), self.change_log.has_parts
        return ChangeLogState(
            objects,
            self._holds(progress),
            records,
            in_part,
            decisions,
            shown,
            self.change_log.batches.versions_of_earlier_epochs,
        )

    def _holds(self, progress: Progress) -> tuple[Hold, ...]:
        """Return the keys that wait for an operator, without holds that a truncate has overruled."""
        truncates = Truncates(self.change_log.batches.truncates)
        return tuple(
            hold for hold in self.quarantine.holds(progress) if not truncates.overrules(hold.position, hold.reason)
        )

    def record_decision(self, progress: Progress, decision: OperatorDecision) -> None:
        """Write an operator decision to the change log."""
        record_decision(self.change_log, progress.batch, decision)

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of the batches above `after`."""
        return self.change_log.batches.applied(progress, after)

    def refuse(self, plan: MergePlan, batch: Batch[Frame]) -> Batch[Frame]:
        """Return a batch in which rows are rejects that show schema changes with the policy `quarantine`."""
        return refused(plan, batch)

    def hold(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Write the rejects of a batch to the quarantine, and the settlement of replayed and discarded rows."""
        rejects = resolved.detail.rejects
        objects = {item.object.order: item.object.name for item in plan.facts.objects}
        if rejects is not None and (plan.releases or plan.truncates.arrived):  # some may be of earlier batches
            objects = {**self._named(rejects), **objects}
        self.quarantine.hold(plan, rejects, objects, count=resolved.counts.quarantined)

    def _named(self, events: DataFrame) -> dict[int, str]:
        """Return the names of the source objects of these events, by order; they may be from earlier batches."""
        wanted = {row[0] for row in events.select(names.OBJECT).distinct().collect()}
        return {order: name for order, name in self.change_log.batches.object_names.items() if order in wanted}

    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Write the batch record and the change log entries of a batch.

        Rows of a full load are not remembered: unless something newer came, the table has them. An `ordered` table
        remembers deletes only.
        """
        detail: MergeDetail = resolved.detail
        if detail.entries is not None:
            record_batch(self.change_log, plan, {}, detail.entries, count=0)
            return
        entries = {
            EVENT: detail.changes,
            f"'{BASE}'": None if detail.bases is None else _as_entries(detail.bases),
            f"'{DELETE}'": detail.deletes,
            f"'{WAITING}'": detail.waiting,
            f"'{RELEASED}'": detail.released,
        }
        counts = resolved.counts
        changes = (
            counts.applied + counts.superseded + counts.stale + counts.duplicates
            if detail.changes is not None
            else counts.applied
        )
        bases = 0 if detail.bases is None else resolved.removed
        record_batch(self.change_log, plan, entries, count=changes + bases + counts.waiting + counts.released)

    def trim(self, progress: Progress) -> None:
        """Trim the change log every few batches. Of a held key, all events above its hold are kept."""
        if next_trim(progress.batch - 1) != progress.batch:
            return
        holds = self._holds(progress)
        unsettled = [(entry.order, entry.row) for entry in unsettled_of(self.change_log, progress)]
        trim(
            self.change_log,
            progress,
            holds,
            self.quarantine.barriers,
            lambda events: self._give_up(progress, events),
            unsettled,
        )
        self.change_log.batches.version = UNKNOWN

    def _give_up(self, progress: Progress, events: DataFrame) -> None:
        """Quarantine events that found no row to complete before the low watermark passed them."""
        self.quarantine.add_final(progress, as_incomplete(events, self.dimension), self._named(events))

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return the quarantined rows, and how many events wait behind each."""
        self.change_log.batches.objects(progress)
        truncates, waiters = Truncates(self.change_log.batches.truncates), self.change_log.waiters(progress.batch)
        return [
            _with(waiters, entry) if entry.is_held else entry
            for entry in self.quarantine.entries(progress)
            if not (entry.is_held and truncates.overrules(entry.position, Reason(entry.reason)))
        ]

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        """Return the events that send a part of a row and wait for the rest."""
        return [*incomplete_of(self.change_log, progress), *unsettled_of(self.change_log, progress)]

    def repair_row(self, progress: Progress, entries: Sequence[Entry], events: Frame) -> None:
        """Write the repairs of an operator to the quarantine."""
        self.quarantine.repair_row(progress, entries, in_spark(events))

    def read_replay(self, progress: Progress, resolved: Sequence[Entry], repaired: Frame | None) -> Batch[Frame]:
        """Return the events that wait behind these entries, and the repaired rows, as a batch."""
        keys = [key for entry in resolved for key in entry.keys]
        frame = self.change_log.waiting_events(progress.batch, keys)
        if repaired is not None:
            events = in_spark(repaired)
            frame = alike(frame, events).unionByName(events, allowMissingColumns=True)
            frame = frame.withColumn(names.ARRIVAL, F.expr(BY_PLACE))
        surveyed = survey(frame, self.dimension)
        facts_of_batch = facts(surveyed, self.dimension, self.dimension.schema, (), progress.epoch)
        may_need = PARTIAL if names.UNSET in frame.columns else frozenset()
        return Batch(frame, replace(facts_of_batch, may_need=may_need))


def _with(waiters: Waiters[str], entry: Entry) -> Entry:
    """Return an entry with the number of events that wait behind it, and the other keys that it holds."""
    behind = waiters.behind(entry.position, entry.keys)
    return replace(entry, waiting_events=behind.waits, also_holds=behind.also_holds)


def _as_entries(rows: DataFrame) -> DataFrame:
    """Return stored rows with the columns of events."""
    place = {stored_column(name): name for name in names.POSITION}
    return rows.withColumnsRenamed(place).selectExpr(
        "*", f"string(NULL) AS {names.OPERATION}", f"bigint(NULL) AS {names.TIME}"
    )
