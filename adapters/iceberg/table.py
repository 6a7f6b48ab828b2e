"""Iceberg tables: rows, progress and memory of one dimension.

What the plan does to the rows is worked out by joins that stream the table's keys past
those of the batch. The commit is one transaction: new data files, deletes of the rows
they replace, and the progress, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyiceberg.transforms import BucketTransform
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.iceberg import ddl
from lakeward.adapters.iceberg.catalog import IcebergCatalog
from lakeward.adapters.iceberg.change import Change
from lakeward.adapters.iceberg.companion import DELETE, EVENT, RELEASED, WAITING, IcebergCompanion
from lakeward.adapters.iceberg.java import Jvm, committing, lost_race
from lakeward.adapters.iceberg.options import TableOptions
from lakeward.adapters.iceberg.progress import standing_of
from lakeward.adapters.iceberg.quarantine import IcebergQuarantine
from lakeward.adapters.spark import names
from lakeward.adapters.spark.events import IS_EVENT, IS_LOAD, IS_REJECT, facts, survey
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.spark.resolve import (
    ID,
    IS_LIVE,
    IS_NEWS,
    SMALL,
    counts,
    events_of,
    holding_rejects,
    late_as_rejects,
    part_at_barriers,
    reject_without_key,
    standing,
    verdicts,
    winners,
    without_copies,
)
from lakeward.adapters.spark.types import ddl as type_ddl
from lakeward.adapters.spark.types import from_bound
from lakeward.core.counts import Counts
from lakeward.core.dimension import Dimension, Ordered
from lakeward.core.errors import SchemaConflict, TableError
from lakeward.core.evolution import Kind
from lakeward.core.memory import HOLDING, Reason
from lakeward.core.plan import Capability, MergePlan
from lakeward.core.ports import Batch, Commit, Entry, Recalled, Resolved, Standing
from lakeward.core.progress import Progress

FILE: Final = "_lakeward_standing_file"
POS: Final = "_lakeward_standing_pos"
_ROWS_A_FILE: Final = 1_000_000
"""One writing task for so many rows: small batches make one file, not one for each core."""


@dataclass(slots=True)
class Outcome:
    """What resolving found, for the steps that carry it out."""

    upserts: DataFrame
    removed: DataFrame | None = None
    changes: DataFrame | None = None
    deletes: DataFrame | None = None
    waiting: DataFrame | None = None
    released: DataFrame | None = None
    rejects: DataFrame | None = None
    table: Any = None
    cached: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Free what is cached."""
        for frame in self.cached:
            frame.unpersist()


class IcebergTable:
    """One table with its companion and its quarantine; the three ports in one."""

    capabilities: frozenset[Capability] = frozenset()

    def __init__(
        self,
        catalog: IcebergCatalog,
        dimension: Dimension,
        options: TableOptions,
        spark: Callable[[], SparkSession],
    ) -> None:
        self.catalog = catalog
        self.dimension = dimension
        self.options = options
        self.spark = spark
        self.companion = IcebergCompanion(catalog, dimension, spark)
        self.kept = IcebergQuarantine(catalog, dimension, spark)

    @property
    def name(self) -> tuple[str, str, str]:
        """The name of the table in Spark."""
        return (self.catalog.name, *self.catalog.identifier(self.dimension.name))

    # The table.

    def standing(self) -> Standing:
        """Return what the last commit of ours says, and take the columns from it."""
        found = standing_of(self.catalog, self.dimension.name)
        if found.schema is not None:
            self._know(found.schema)
        return found

    def _know(self, schema: Any) -> None:
        """Take the columns from the table, or from the first batch, where none are declared."""
        self.dimension = replace(self.dimension, schema=schema)
        self.companion.dimension = self.dimension
        self.kept.dimension = self.dimension

    def resolve(self, plan: MergePlan, frame: DataFrame) -> Resolved:
        """Work out rows and counts; nothing is written."""
        self._know(plan.evolution.schema)
        jvm = Jvm(self.spark())
        ddl.check_names(self.dimension)
        self._refuse_wider_partitions(plan)
        if plan.creates:
            ddl.check_options(jvm, self.dimension, self.options)
        with committing(str(self.dimension.name)):
            if plan.appends:
                return self._resolve_appends(plan, frame, jvm)
            return self._resolve_merge(plan, frame, jvm)

    def _refuse_wider_partitions(self, plan: MergePlan) -> None:
        """Refuse to widen a column that rows are partitioned by as they are: Iceberg cannot write to both kinds."""
        table = self.catalog.load(self.dimension.name)
        widened = {change.path: change for change in plan.evolution.changes if change.kind is Kind.WIDEN}
        if table is None or not widened:
            return
        for part in table.spec().fields:
            name = table.schema().find_column_name(part.source_id)
            if name in widened and not isinstance(part.transform, BucketTransform):
                raise SchemaConflict(
                    f"{self.dimension.name}: a column that the table is partitioned by cannot become wider",
                    found=f"{widened[name]}, and the table is partitioned by {part.transform}({name})",
                    todo="Nothing of the table was applied; other tables go on. Take that partition out "
                    "(`ALTER TABLE … DROP PARTITION FIELD …` in Spark), or load the table anew.",
                )

    def _load(self, plan: MergePlan, jvm: Jvm) -> Any:
        return None if plan.creates else jvm.table(*self.name)

    def _resolve_appends(self, plan: MergePlan, frame: DataFrame, jvm: Jvm) -> Resolved:
        """Every fact of a table without a key is a row of its own."""
        frame = reject_without_key(frame)
        f = plan.facts
        written = sum(n for operation, n in f.operations.items() if operation.value in ("insert", "read"))
        refused = sum(f.operations.values()) - written
        outcome = Outcome(
            upserts=frame.where(IS_EVENT),
            rejects=frame.where(IS_REJECT) if refused or f.rejects else None,
            table=self._load(plan, jvm),
        )
        return Resolved(
            counts=Counts(
                read=f.read,
                skipped=f.skipped,
                quarantined=refused + sum(f.rejects.values()),
                applied=written,
            ),
            written=written,
            removed=0,
            detail=outcome,
        )

    def _resolve_merge(self, plan: MergePlan, frame: DataFrame, jvm: Jvm) -> Resolved:
        table = self._load(plan, jvm)
        frame, known = without_copies(frame, plan)
        frame, too_late = late_as_rejects(frame, plan)
        passing, waiting = self._part(plan, events_of(frame), frame)
        waiting, copies = self._not_waiting_yet(plan, waiting)
        if waiting is not None and plan.evolution.absent and not waiting.isEmpty():
            raise _cannot_wait(plan)
        found = None if table is None else self._found(plan, passing, table)
        judged = verdicts(passing, found, plan, (FILE, POS)).persist()
        tally, written, removed = counts(judged, passing, plan)
        all_stand = written == tally.stale + tally.duplicates + tally.superseded + tally.applied
        upserts = passing if all_stand else winners(passing, judged, deletes=False)
        is_ordered = isinstance(plan.dimension.lateness, Ordered)
        outcome = Outcome(
            upserts=self._kept(plan, upserts, judged, table),
            removed=judged.where(f"{IS_NEWS} AND {IS_LIVE}"),
            changes=None if is_ordered else passing.where(f"NOT {IS_LOAD}"),
            deletes=winners(passing, judged, deletes=True) if is_ordered and tally.applied > written else None,
            waiting=None if plan.releases else waiting,
            released=passing if plan.releases else None,
            rejects=frame.where(IS_REJECT) if plan.facts.rejects or too_late else None,
            table=table,
            cached=[judged],
        )
        duplicates = tally.duplicates + copies + known.events + known.rejects
        quarantined = sum(plan.facts.rejects.values()) - known.rejects + too_late
        return Resolved(
            counts=self._counts(plan, replace(tally, duplicates=duplicates, quarantined=quarantined), waiting),
            written=written,
            removed=removed,
            held=self._held(plan, frame),
            detail=outcome,
            close=outcome.close,
        )

    def _part(self, plan: MergePlan, events: DataFrame, frame: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        """Part the events into those that pass and those that wait behind a hold."""
        barriers = [self.kept.barriers(plan.holds)] if plan.holds else []
        if any(reason in HOLDING for reason in plan.facts.rejects):
            barriers.append(holding_rejects(frame, plan))
        if not barriers:
            return events, None
        both = barriers[0] if len(barriers) == 1 else barriers[0].unionByName(barriers[1])
        return part_at_barriers(events, both, plan)

    def _not_waiting_yet(self, plan: MergePlan, waiting: DataFrame | None) -> tuple[DataFrame | None, int]:
        """Leave out what waits already and was delivered again; return how many those are."""
        if waiting is None or not plan.recalls or plan.releases or not plan.holds:
            return waiting, 0
        known = self.companion.waiting(plan.batch - 1)
        if known is None:
            return waiting, 0
        new = waiting.join(F.broadcast(known), [names.OBJECT, names.ROW], "left_anti")
        return new, waiting.count() - new.count()

    def _found(self, plan: MergePlan, events: DataFrame, table: Any) -> DataFrame:
        """Return what stands of the batch's keys: rows, and the memory of deletes where it may matter.

        The table's keys and positions are streamed past the keys of the batch; where those
        lie in a range, the files outside of it are not read.
        """
        key = list(plan.dimension.key)
        target = self._rows(plan, table)
        wanted = events.selectExpr(*map(quoted, key))
        if plan.facts.read <= SMALL:
            wanted = F.broadcast(wanted)
        found = target.selectExpr(
            *map(quoted, key),
            *[f"{name} AS {standing(name)}" for name in names.POSITION],
            f"true AS {IS_LIVE}",
            f"_file AS {FILE}",
            f"_pos AS {POS}",
        ).join(wanted, key, "left_semi")
        gone = self.companion.deletes(plan.batch - 1) if plan.recalls else None
        if gone is None:
            return found
        place = f"max(struct({', '.join(names.POSITION)})) AS place"
        newest = gone.join(wanted, key, "left_semi").groupBy(*map(quoted, key)).agg(F.expr(place))
        remembered = newest.join(found.selectExpr(*map(quoted, key)), key, "left_anti").selectExpr(
            *map(quoted, key),
            *[f"place.{name} AS {standing(name)}" for name in names.POSITION],
            f"false AS {IS_LIVE}",
        )
        return found.unionByName(remembered, allowMissingColumns=True)

    def _rows(self, plan: MergePlan, table: Any) -> DataFrame:
        """Return the rows of the table as it was loaded, within the range of the batch's keys."""
        snapshot, rows = table.currentSnapshot(), self.spark().read
        if snapshot is not None:
            rows = rows.option("versionAsOf", str(snapshot.snapshotId()))
        target = rows.table(quoted(*self.name))
        for name, bounds in zip(plan.dimension.key, plan.facts.key_range, strict=False):
            item = plan.dimension.schema.find(name)
            if bounds is not None and item is not None:
                least, most = (from_bound(bound, item.type) for bound in bounds)
                target = target.where(f"{quoted(name)} BETWEEN {least} AND {most}")
        return target

    def _kept(self, plan: MergePlan, upserts: DataFrame, judged: DataFrame, table: Any) -> DataFrame:
        """Give updated rows what stands in the columns that the batch has not; a new row has NULL there."""
        absent, key = plan.evolution.absent, list(plan.dimension.key)
        if not absent or table is None or table.currentSnapshot() is None:
            return upserts
        rows = self._rows(plan, table).selectExpr(*map(quoted, [*key, *absent]))
        updated = judged.where(f"{IS_LIVE} AND deletes = 0 AND inserts = 0").selectExpr(ID)
        kept = upserts.join(updated, ID, "left_semi").join(rows, key, "left")
        return kept.unionByName(upserts.join(updated, ID, "left_anti"), allowMissingColumns=True)

    def _counts(self, plan: MergePlan, tally: Counts, waiting: DataFrame | None) -> Counts:
        """Complete the counts of what passed by those of what did not."""
        if plan.releases:
            settled = tally.stale + tally.duplicates + tally.superseded + tally.applied
            return Counts(released=settled)
        return replace(
            tally,
            read=plan.facts.read,
            skipped=plan.facts.skipped,
            waiting=0 if waiting is None else waiting.count(),
        )

    def _held(self, plan: MergePlan, frame: DataFrame) -> int:
        held = {str(key[0]) for hold in plan.holds for key in hold.keys}
        if any(reason in HOLDING for reason in plan.facts.rejects):
            held |= self.kept.keys_of(frame)
        return len(held)

    def commit(self, plan: MergePlan, resolved: Resolved, progress: Progress) -> Commit:
        """Make rows and progress visible in one transaction."""
        outcome: Outcome = resolved.detail
        spark = self.spark()
        jvm = Jvm(spark)
        with committing(str(self.dimension.name)):
            if outcome.table is None:
                self.catalog.prepare(self.dimension.name)
                location = self.catalog.location(self.dimension.name)
                ddl.create_main(spark, self.name, location, self.dimension, self.options)
                outcome.table = jvm.table(*self.name)
            if plan.batch == 1 and self.options.sort_by:  # a crash may have made the table and no more
                ddl.order(jvm, outcome.table, plan.dimension, self.options.sort_by)
            change = Change(jvm, outcome.table, self.catalog.io(self.dimension.name))
            try:
                if plan.evolution.changes and not plan.creates:
                    change.evolve(plan.evolution.changes)
                self._stage(change, plan, resolved)
                change.check(str(self.dimension.name), resolved.written, resolved.removed)
                return change.commit(progress, resolved.written, resolved.removed)
            except BaseException as error:
                if change.is_sent and not lost_race(error):
                    raise TableError(
                        f"{self.dimension.name}: the catalog did not say whether the commit was made",
                        found=str(error).splitlines()[0] if str(error) else type(error).__name__,
                        todo="Run again: the table itself says what is in it, and the run goes on from there.",
                    ) from error
                change.take_back()
                raise

    def _stage(self, change: Change, plan: MergePlan, resolved: Resolved) -> None:
        outcome: Outcome = resolved.detail
        has = set(outcome.upserts.columns)
        rows = outcome.upserts.selectExpr(
            *[
                f"CAST({quoted(c.name) if c.name in has else 'NULL'} AS {type_ddl(c.type)}) AS {quoted(c.name)}"
                for c in plan.evolution.schema
            ],
            f"{plan.epoch} AS {names.EPOCH}",
            *(names.SEQUENCE, names.OBJECT, names.ROW),
            f"{plan.batch}L AS {names.BATCH}",
        ).coalesce(1 + resolved.written // _ROWS_A_FILE)
        if resolved.removed and outcome.removed is not None:
            positions = outcome.removed.groupBy(FILE).agg(F.collect_list(POS)).toArrow()
            if self.options.write_mode == "copy-on-write":
                key = list(plan.dimension.key)
                gone = outcome.removed.selectExpr(*map(quoted, key))
                change.rewrite(positions, gone, key, rows if resolved.written else None)
                return
            change.delete(positions)
        if resolved.written:
            change.add(rows)

    # The companion and the quarantine.

    def recall(self, progress: Progress) -> Recalled:
        """Return the objects that were seen and the keys that are held, as of the table's batch."""
        objects = self.companion.objects(progress)
        records = [found.record for found in self.companion.records.values() if found.record is not None]
        return Recalled(objects, self.kept.holds(progress), records)

    def hold(self, plan: MergePlan, resolved: Resolved) -> None:
        """Write what the batch could not apply, and what a person gave up."""
        self.kept.hold(plan, resolved.detail.rejects, count=resolved.counts.quarantined)

    def remember(self, plan: MergePlan, resolved: Resolved) -> None:
        """Write the batch record, and the events that were applied, that wait, or were released.

        Rows of a full load are not among them: where nothing newer came, the table has them.
        An `ordered` table remembers deletes alone.
        """
        outcome: Outcome = resolved.detail
        entries = {
            EVENT: outcome.changes,
            f"'{DELETE}'": outcome.deletes,
            f"'{WAITING}'": outcome.waiting,
            f"'{RELEASED}'": outcome.released,
        }
        c = resolved.counts
        changes = c.applied + c.superseded + c.stale + c.duplicates if outcome.changes is not None else c.applied
        self.companion.remember(plan, entries, count=changes + c.waiting + c.released)

    def trim(self, progress: Progress) -> None:
        """Forget what can no longer matter."""
        self.companion.trim(progress)

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return what is in quarantine, and how many events wait behind each."""
        waiting = self.companion.waiting_places(progress.batch)
        return [
            replace(
                entry,
                waits=sum(place > entry.position for place in waiting.get(entry.key or "", ()))
                if Reason(entry.reason) in HOLDING
                else 0,
            )
            for entry in self.kept.entries(progress)
        ]

    def waiting(self, progress: Progress, given_up: Sequence[Entry]) -> Batch[DataFrame]:
        """Return the events that waited behind these entries, as a frame of events."""
        keys = [entry.key for entry in given_up if entry.key is not None]
        frame = self.companion.waiting_events(progress.batch, keys)
        found = survey(frame, self.dimension)
        known = facts(found, self.dimension, self.dimension.schema, (), progress.epoch)
        return Batch(frame, known)


def _cannot_wait(plan: MergePlan) -> SchemaConflict:
    return SchemaConflict(
        f"{plan.dimension.name}: rows that lack a column of the table would wait behind a held key",
        found="missing: " + ", ".join(plan.evolution.absent),
        todo="Nothing was applied, for it would not be known later that they lack it. Settle what is in "
        "quarantine (`lakeward quarantine list`), and run again.",
    )
