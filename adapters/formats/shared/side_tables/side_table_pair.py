"""What a table remembers and what it could not apply, in the two tables beside it: both ports in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log.column_changes import NOTHING_COMES, Coming
from lakeward.adapters.formats.shared.change_log.entries import BASE, BY_PLACE, DELETE, EVENT, RELEASED, WAITING
from lakeward.adapters.formats.shared.change_log.incomplete_events import incomplete_of, unsettled_of
from lakeward.adapters.formats.shared.change_log.retention import next_trim, trim
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.change_log.writer import record_batch, record_decision
from lakeward.adapters.formats.shared.operations.direct_load import DirectLoad
from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.side_tables.quarantine import QuarantineTable
from lakeward.adapters.formats.shared.side_tables.side_table import UNKNOWN, Make
from lakeward.adapters.spark.frames.event_frame import facts, survey
from lakeward.adapters.spark.frames.local_frame import Frame, in_spark
from lakeward.adapters.spark.merge.resolution import as_incomplete, standing
from lakeward.adapters.spark.schema_changes.changed_rows import refused
from lakeward.adapters.spark.schema_changes.schema_alignment import alike
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.ledger.objects import ObjectRecord
from lakeward.core.merge.change_log import Hold, Reason
from lakeward.core.merge.facts import PARTIAL
from lakeward.core.merge.truncates import Truncates
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Batch, ChangeLogState, Entry, MergeResult, OperatorDecision
from lakeward.core.progress import Progress
from lakeward.core.quarantine.holds import Waiters
from lakeward.core.schema import Schema
from lakeward.plugins.registry import SMALL_BATCH


class Keeping:
    """The companion and the quarantine of one table, and its last full load that was written as it was read.

    The core works batches of at most `small_batch` rows out.
    """

    def __init__(
        self,
        dimension: Dimension,
        make: Make,
        spark: Callable[[], SparkSession],
        small_batch: int = SMALL_BATCH,
    ) -> None:
        self.dimension = dimension
        self.spark = spark
        self.small_batch = small_batch
        self.direct_load: DirectLoad | None = None
        self.change_log = ChangeLogTable(dimension, make)
        self.quarantine = QuarantineTable(dimension, make, spark)

    def know(self, schema: Schema, coming: Coming = NOTHING_COMES) -> None:
        """Take the columns from the table, or from a batch, with which some may be `coming`."""
        self.dimension = replace(self.dimension, schema=schema)
        self.change_log.dimension, self.change_log.coming = self.dimension, coming
        self.quarantine.dimension = self.dimension

    def read_state(self, progress: Progress) -> ChangeLogState:
        """Return the objects that were seen and the keys that are held, as of the table's batch."""
        objects = self.change_log.batches.objects(progress)
        records = [found.record for found in self.change_log.batches.records.values() if found.record is not None]
        shown = {batch: found.shown for batch, found in self.change_log.batches.records.items() if found.shown}
        words, in_part = tuple(self.change_log.batches.words), self.change_log.has_parts
        return ChangeLogState(
            objects, self._holds(progress), records, in_part, words, shown, self.change_log.batches.left
        )

    def _holds(self, progress: Progress) -> tuple[Hold, ...]:
        """Return the keys that wait for a person; what a truncate has overruled does not."""
        truncates = Truncates(self.change_log.batches.truncates)
        return tuple(
            hold for hold in self.quarantine.holds(progress) if not truncates.overrule(hold.position, hold.reason)
        )

    def record_decision(self, progress: Progress, word: OperatorDecision) -> None:
        """Write down what an operator said."""
        record_decision(self.change_log, progress.batch, word)

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of later batches."""
        return self.change_log.batches.applied(progress, after)

    def refuse(self, plan: MergePlan, batch: Batch[Frame]) -> Batch[Frame]:
        """Return a batch with the rows as rejects that show changes which go into quarantine."""
        return refused(plan, batch)

    def hold(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Write what the batch could not apply, and what a person gave up."""
        rejects = resolved.detail.rejects
        objects = {found.object.order: found.object.name for found in plan.facts.objects}
        if rejects is not None and (plan.releases or plan.truncates.arrived):  # some may have waited
            objects = {**self._named(rejects), **objects}
        self.quarantine.hold(plan, rejects, objects, count=resolved.counts.quarantined)

    def _named(self, events: DataFrame) -> dict[int, str]:
        """Return the names of the objects of earlier batches that events are from, by their order."""
        wanted = {row[0] for row in events.select(names.OBJECT).distinct().collect()}
        return {order: name for order, name in self.change_log.batches.object_names.items() if order in wanted}

    def record_batch(self, plan: MergePlan, resolved: MergeResult) -> None:
        """Write the batch record, the events that were applied, that wait, or were released, and bases.

        Rows of a full load are not among them: where nothing newer came, the table has them.
        An `ordered` table remembers deletes alone.
        """
        outcome: Outcome = resolved.detail
        if outcome.entries is not None:
            record_batch(self.change_log, plan, {}, outcome.entries, count=0)
            return
        entries = {
            EVENT: outcome.changes,
            f"'{BASE}'": None if outcome.bases is None else _as_entries(outcome.bases),
            f"'{DELETE}'": outcome.deletes,
            f"'{WAITING}'": outcome.waiting,
            f"'{RELEASED}'": outcome.released,
        }
        c = resolved.counts
        changes = c.applied + c.superseded + c.stale + c.duplicates if outcome.changes is not None else c.applied
        bases = 0 if outcome.bases is None else resolved.removed
        record_batch(self.change_log, plan, entries, count=changes + bases + c.waiting + c.released)

    def trim(self, progress: Progress) -> None:
        """Forget what can no longer matter; a key that is held may need all that lies above what holds it."""
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
        """Quarantine events that found no row to complete before the mark passed them."""
        self.quarantine.add_final(progress, as_incomplete(events, self.dimension), self._named(events))

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return what is in quarantine, and how many events wait behind each."""
        self.change_log.batches.objects(progress)
        truncates, waiters = Truncates(self.change_log.batches.truncates), self.change_log.waiters(progress.batch)
        return [
            _with(waiters, entry) if entry.is_held else entry
            for entry in self.quarantine.entries(progress)
            if not (entry.is_held and truncates.overrule(entry.position, Reason(entry.reason)))
        ]

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        """Return the events that send a part of a row and wait for the rest."""
        return [*incomplete_of(self.change_log, progress), *unsettled_of(self.change_log, progress)]

    def repair_row(self, progress: Progress, entries: Sequence[Entry], events: Frame) -> None:
        """Write down what a person mended."""
        self.quarantine.repair_row(progress, entries, in_spark(events))

    def waiting(self, progress: Progress, resolved: Sequence[Entry], repaired: Frame | None) -> Batch[Frame]:
        """Return the events that waited behind these entries, and those that were mended, as a frame of events."""
        keys = [key for entry in resolved for key in entry.keys]
        frame = self.change_log.waiting_events(progress.batch, keys)
        if repaired is not None:
            events = in_spark(repaired)
            frame = alike(frame, events).unionByName(events, allowMissingColumns=True)
            frame = frame.withColumn(names.ARRIVAL, F.expr(BY_PLACE))
        found = survey(frame, self.dimension)
        known = facts(found, self.dimension, self.dimension.schema, (), progress.epoch)
        may_need = PARTIAL if names.UNSET in frame.columns else frozenset()
        return Batch(frame, replace(known, may_need=may_need))


def _with(waiters: Waiters[str], entry: Entry) -> Entry:
    """Return an entry with what waits behind it."""
    behind = waiters.behind(entry.position, entry.keys)
    return replace(entry, waits=behind.waits, also_holds=behind.also_holds)


def _as_entries(rows: DataFrame) -> DataFrame:
    """Return rows that stand in the form of events."""
    place = {standing(name): name for name in names.POSITION}
    return rows.withColumnsRenamed(place).selectExpr(
        "*", f"string(NULL) AS {names.OPERATION}", f"bigint(NULL) AS {names.TIME}"
    )
