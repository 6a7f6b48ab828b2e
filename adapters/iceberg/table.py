"""Iceberg tables: rows, progress and memory of one dimension.

What the plan does to the rows is worked out by joins that stream the table's keys past
those of the batch. The commit is one transaction: new data files, deletes of the rows
they replace, and the progress, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyiceberg.transforms import BucketTransform
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.iceberg import ddl
from lakeward.adapters.iceberg.catalog import IcebergCatalog
from lakeward.adapters.iceberg.change import Change
from lakeward.adapters.iceberg.companion import BASE, BY_PLACE, DELETE, EVENT, RELEASED, WAITING, IcebergCompanion
from lakeward.adapters.iceberg.incomplete import incomplete_of
from lakeward.adapters.iceberg.java import Jvm, committing, lost_race
from lakeward.adapters.iceberg.options import TableOptions
from lakeward.adapters.iceberg.progress import standing_of
from lakeward.adapters.iceberg.quarantine import IcebergQuarantine
from lakeward.adapters.iceberg.resolving import Outcome, Resolver
from lakeward.adapters.iceberg.rows import FILE, POS
from lakeward.adapters.spark import names
from lakeward.adapters.spark.events import facts, survey
from lakeward.adapters.spark.fitting import alike, fitted
from lakeward.adapters.spark.names import quoted
from lakeward.adapters.spark.resolve import as_incomplete, standing
from lakeward.adapters.spark.showing import refused
from lakeward.adapters.spark.types import ddl as type_ddl
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict, TableError
from lakeward.core.evolution import Kind, with_new_names
from lakeward.core.facts import PARTIAL, Capability
from lakeward.core.holds import Waiters
from lakeward.core.ledger import ObjectRecord
from lakeward.core.memory import Hold, Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Batch, Commit, Entry, Recalled, Resolved, Standing, Word
from lakeward.core.progress import Progress
from lakeward.core.truncates import Truncates

_ROWS_A_FILE: Final = 1_000_000
"""One writing task for so many rows: small batches make one file, not one for each core."""


class IcebergTable:
    """One table with its companion and its quarantine; the three ports in one."""

    capabilities: frozenset[Capability] = PARTIAL | {Capability.TRUNCATE, Capability.RELOAD}

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
            self._know(with_new_names(found.schema, self.dimension.policies.renames))
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
        frame = fitted(frame, plan.dimension.schema)
        self._refuse_wider_partitions(plan)
        if plan.creates:
            ddl.check_options(jvm, self.dimension, self.options)
        with committing(str(self.dimension.name)):
            table = None if plan.creates else jvm.table(*self.name)
            resolver = Resolver(self.name, self.companion, self.kept, self.spark)
            if plan.appends:
                return resolver.appends(plan, frame, table)
            return resolver.reload(plan, frame, table) if plan.replaces else resolver.merge(plan, frame, table)

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
                    todo="Nothing of the table was applied; other tables go on. Take that partition out "
                    "(`ALTER TABLE … DROP PARTITION FIELD …` in Spark), or load the table anew.",
                )

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
        spark = self.spark()
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
        if outcome.drops_all:
            change.drop_all(resolved.removed)
        elif resolved.removed and outcome.removed is not None:
            removed = outcome.removed
            if outcome.drops_below is not None:
                dropped = change.drop_below(outcome.drops_below)
                whole = pa.table({FILE: pa.array(dropped, pa.string())})
                removed = removed.join(spark.createDataFrame(whole), FILE, "left_anti")
            positions = removed.groupBy(FILE).agg(F.collect_list(POS)).toArrow()
            if self.options.write_mode == "copy-on-write" and positions.num_rows:
                gone = removed.selectExpr(*map(quoted, plan.dimension.key))
                change.rewrite(positions, gone, plan, rows if resolved.written else None)
                return
            change.delete(positions)
        if resolved.written:
            change.add(rows)

    # The companion and the quarantine.

    def recall(self, progress: Progress) -> Recalled:
        """Return the objects that were seen and the keys that are held, as of the table's batch."""
        objects = self.companion.objects(progress)
        records = [found.record for found in self.companion.records.values() if found.record is not None]
        shown = {batch: found.shown for batch, found in self.companion.records.items() if found.shown}
        words, in_part = tuple(self.companion.words), self.companion.has_parts
        return Recalled(objects, self._holds(progress), records, in_part, words, shown, self.companion.left)

    def _holds(self, progress: Progress) -> tuple[Hold, ...]:
        """Return the keys that wait for a person; what a truncate has overruled does not."""
        truncates = Truncates(self.companion.truncates)
        return tuple(
            hold for hold in self.kept.holds(progress) if not truncates.overrule(hold.position, hold.reason)
        )

    def write_down(self, progress: Progress, word: Word) -> None:
        """Write down what an operator said."""
        self.companion.write_down(progress.batch, word)

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of later batches."""
        return self.companion.applied(progress, after)

    def refuse(self, plan: MergePlan, batch: Batch[DataFrame]) -> Batch[DataFrame]:
        """Return a batch with the rows as rejects that show changes which go into quarantine."""
        return refused(plan, batch)

    def hold(self, plan: MergePlan, resolved: Resolved) -> None:
        """Write what the batch could not apply, and what a person gave up."""
        rejects = resolved.detail.rejects
        objects = {found.object.order: found.object.name for found in plan.facts.objects}
        if rejects is not None and (plan.releases or plan.truncates.arrived):  # some may have waited
            objects = {**self._named(rejects), **objects}
        self.kept.hold(plan, rejects, objects, count=resolved.counts.quarantined)

    def _named(self, events: DataFrame) -> dict[int, str]:
        """Return the names of the objects of earlier batches that events are from, by their order."""
        wanted = {row[0] for row in events.select(names.OBJECT).distinct().collect()}
        return {order: name for order, name in self.companion.object_names.items() if order in wanted}

    def remember(self, plan: MergePlan, resolved: Resolved) -> None:
        """Write the batch record, the events that were applied, that wait, or were released, and bases.

        Rows of a full load are not among them: where nothing newer came, the table has them.
        An `ordered` table remembers deletes alone.
        """
        outcome: Outcome = resolved.detail
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
        self.companion.remember(plan, entries, count=changes + bases + c.waiting + c.released)

    def trim(self, progress: Progress) -> None:
        """Forget what can no longer matter; a key that is held may need all that lies above what holds it."""
        holds = self._holds(progress)
        self.companion.trim(progress, holds, self.kept.barriers, lambda events: self._give_up(progress, events))

    def _give_up(self, progress: Progress, events: DataFrame) -> None:
        """Quarantine events that found no row to complete before the mark passed them."""
        self.kept.add_final(progress, as_incomplete(events, self.dimension), self._named(events))

    def entries(self, progress: Progress) -> Sequence[Entry]:
        """Return what is in quarantine, and how many events wait behind each."""
        self.companion.objects(progress)
        truncates, waiters = Truncates(self.companion.truncates), self.companion.waiters(progress.batch)
        return [
            _with(waiters, entry) if entry.is_held else entry
            for entry in self.kept.entries(progress)
            if not (entry.is_held and truncates.overrule(entry.position, Reason(entry.reason)))
        ]

    def incomplete(self, progress: Progress) -> Sequence[Entry]:
        """Return the events that send a part of a row and wait for the rest."""
        return incomplete_of(self.companion, progress)

    def mend(self, progress: Progress, entries: Sequence[Entry], events: DataFrame) -> None:
        """Write down what a person mended."""
        self.kept.mend(progress, entries, events)

    def waiting(self, progress: Progress, resolved: Sequence[Entry], mended: DataFrame | None) -> Batch[DataFrame]:
        """Return the events that waited behind these entries, and those that were mended, as a frame of events."""
        keys = [key for entry in resolved for key in entry.keys]
        frame = self.companion.waiting_events(progress.batch, keys)
        if mended is not None:
            frame = alike(frame, mended).unionByName(mended, allowMissingColumns=True)
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
