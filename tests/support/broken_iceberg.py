"""Mistakes of the Iceberg adapter that the laws must show: each function makes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
from broken_memory import AcknowledgesFirst
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from ways import use_spark, use_spark_in_commands

from lakeward.adapters.formats.iceberg import table
from lakeward.adapters.formats.iceberg.table import IcebergTable
from lakeward.adapters.formats.iceberg.writes.change import Change
from lakeward.adapters.formats.shared.change_log import entries, retention
from lakeward.adapters.formats.shared.change_log.batch_log import BatchLog
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.resolution.steps import applicable_events, arrivals, hold_filter
from lakeward.adapters.formats.shared.resolution.steps.arrivals import Arrivals
from lakeward.adapters.formats.shared.resolution.strategies import snapshot_splice, whole_rows
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.side_tables import quarantine, side_table_pair
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.spark.frames.local_frame import in_spark
from lakeward.adapters.spark.merge import resolution
from lakeward.adapters.spark.merge.fold import fold_items
from lakeward.adapters.spark.merge.resolution import FILE, stored_column
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core import plan as core_plan
from lakeward.core.merge.change_log import Reason
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, Entry, MergeResult
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import SchemaChange
from lakeward.plugins.testing.player import Player

Break = Callable[[pytest.MonkeyPatch, Player], None]


def by_spark(break_it: Break) -> Break:
    """Return a mistake in how Spark resolves batches, with Spark resolving every batch."""

    @wraps(break_it)
    def broken(patch: pytest.MonkeyPatch, player: Player) -> None:
        use_spark(patch)
        break_it(patch, player)

    return broken


@by_spark
def loses_the_last_event(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Drops the last event, and counts it as superseded."""
    counts = whole_rows.counts

    def lossy(frame: DataFrame) -> DataFrame:
        last = frame.agg(F.max(names.ARRIVAL)).collect()[0][0]
        return resolution.events_of(frame).where(F.col(names.ARRIVAL) != last)

    def pretending(
        sums: Mapping[str, int], judged: DataFrame, events: DataFrame, plan: MergePlan
    ) -> tuple[Any, int, int]:
        tally, written, removed = counts(sums, judged, events, plan)
        return replace(tally, superseded=tally.superseded + 1), written, removed

    takes_for_events(patch, lossy)
    patch.setattr(whole_rows, "counts", pretending)


def takes_for_events(patch: pytest.MonkeyPatch, events_of: Callable[[DataFrame], DataFrame]) -> None:
    """Replace the events of a frame in every way of resolving a batch."""
    for step in (whole_rows, applicable_events, snapshot_splice):
        patch.setattr(step, "events_of", events_of)


@by_spark
def lets_the_first_of_a_tie_win(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Reverses the order of arrival of events with one key and commit."""

    def turned(frame: DataFrame) -> DataFrame:
        ordered = F.col(names.SEQUENCE) > 0
        arrival = F.when(ordered, F.lit(1 << 40) - F.col(names.ARRIVAL)).otherwise(F.col(names.ARRIVAL))
        return resolution.events_of(frame.withColumn(names.ARRIVAL, arrival))

    takes_for_events(patch, turned)


@by_spark
def checks_nothing_for_being_stale(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Treats every event as newer than the stored row."""
    patch.setattr(resolution, "_is_newer", lambda _plan: "true")


def keeps_progress_apart(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Commits the rows before the progress."""
    commit, trim, tables = IcebergTable.commit, SideTables.trim, []

    def rows_alone(self: IcebergTable, plan: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        tables.append(self)
        return commit(self, plan, resolved, self.state().progress)

    def progress_after(self: SideTables, progress: Progress) -> None:
        jvm, rows = table.Jvm(self.spark()), tables[-1]
        java = jvm.table(*rows.name)
        change = table.Change(jvm, java, rows.catalog.io(rows.dimension.name), java.currentSnapshot())
        change.commit(progress, 0, 0)
        trim(self, progress)

    patch.setattr(IcebergTable, "commit", rows_alone)
    patch.setattr(SideTables, "trim", progress_after)


def acknowledges_first(_patch: pytest.MonkeyPatch, player: Player) -> None:
    """Acknowledges a notice when it is received."""
    player.queue = AcknowledgesFirst()


@by_spark
def looks_into_one_partition_only(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Finds the row of a key only in the partition of the event."""
    found = Rows.find_stored

    def in_its_partition(self: Rows, events: DataFrame, gone: DataFrame | None) -> DataFrame:
        key = list(self.plan.dimension.key)
        partition = F.concat(F.lit("a_trunc="), F.expr("a - pmod(a, 3)"), F.lit("/"))
        places = events.select(*key, partition.alias("place"))
        return (
            found(self, events, gone)
            .join(places, key)
            .where(F.col(FILE).isNull() | F.col(FILE).contains(F.col("place")))
            .drop("place")
            .distinct()
        )

    patch.setattr(Rows, "find_stored", in_its_partition)


def leaves_the_position_of_a_no_op(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Does not change the position of a row with unchanged cells."""
    stage = IcebergTable._stage

    def kept(self: IcebergTable, change: Any, plan: MergePlan, resolved: MergeResult) -> None:
        if not plan.creates:
            cells = [quoted(name) for name in plan.dimension.schema.names]
            place = names.POSITION[1:]
            old = self.spark().table(quoted(*self.name))
            old = old.selectExpr(*cells, *[f"{name} AS {stored_column(name)}" for name in place])
            rows = in_spark(resolved.detail.upserts).join(old, list(plan.dimension.schema.names), "left")
            before = {name: F.coalesce(F.col(stored_column(name)), F.col(name)) for name in place}
            resolved.detail.upserts = rows.withColumns(before)
        stage(self, change, plan, resolved)

    patch.setattr(IcebergTable, "_stage", kept)


def forgets_deletes_too_early(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Trims with each batch what the source may still deliver again."""

    def trim(beside: ChangeLogTable, _progress: Progress, *_more: object) -> None:
        beside.table.forget(f"{entries.KIND} = '{entries.DELETE}'")

    patch.setattr(retention, "_TRIM_EVERY", 1)
    patch.setattr(side_table_pair, "trim", trim)


def believes_what_a_crash_left(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Reads entries of the change log above the batch of the table."""
    objects, kind = BatchLog.objects, ChangeLogTable._kind

    def all_objects(self: BatchLog, progress: Progress) -> Mapping[str, Any]:
        found = objects(self, progress)
        self._read_records(progress.batch, progress.batch)
        left = [self.records.pop(batch) for batch in [*self.records] if batch > progress.batch]
        return {**found, **{item.object.name: item.object for known in left for item in known.facts}}

    def all_entries(self: ChangeLogTable, wanted: str, upto: int) -> DataFrame | None:
        return kind(self, wanted, upto + 1)

    patch.setattr(BatchLog, "objects", all_objects)
    patch.setattr(ChangeLogTable, "_kind", all_entries)


@by_spark
def takes_what_comes_too_late(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Applies events at or below the low watermark."""
    patch.setattr(arrivals, "late_as_rejects", lambda frame, _plan: (frame, {}))


@by_spark
def takes_copies_for_news(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Resolves the events of a repeated object again."""
    patch.setattr(arrivals, "without_copies", lambda frame, _plan: (frame, resolution.CopyCounts()))


def forgets_deletes_above_the_mark(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Trims deletes above the low watermark."""
    patch.setattr(retention, "_TRIM_EVERY", 1)

    def passed(_beside: ChangeLogTable, progress: Progress, _holds: object) -> str:
        return f"({entries.KIND} = '{entries.DELETE}' and {names.BATCH} <= {progress.batch})"

    patch.setattr(retention, "_passed", passed)


def takes_a_mended_row_for_given_up(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Releases the events behind a repaired row without applying the row."""
    waiting = SideTables.read_replay

    def without(self: SideTables, progress: Progress, resolved: Sequence[Entry], repaired: Any) -> Any:
        return waiting(self, progress, resolved, None if repaired is None else repaired.limit(0))

    patch.setattr(SideTables, "read_replay", without)


def puts_a_mended_row_on_top(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Applies a repaired row as the newest of its key."""
    waiting = SideTables.read_replay

    def on_top(self: SideTables, progress: Progress, resolved: Sequence[Entry], repaired: Any) -> Any:
        newest = None if repaired is None else repaired.withColumn(names.SEQUENCE, F.lit(1 << 40))
        return waiting(self, progress, resolved, newest)

    patch.setattr(SideTables, "read_replay", on_top)


def forgets_what_was_mended(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Records a repair with a batch that does not exist yet."""
    as_mended = quarantine._repair_rows
    patch.setattr(quarantine, "_repair_rows", lambda entries, batch: as_mended(entries, batch + 1))


@by_spark
def holds_a_copy_again(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Treats a copy of a row that is or was in quarantine as a new row."""
    patch.setattr(arrivals, "without_copies", lambda frame, _plan: (frame, resolution.CopyCounts()))


@by_spark
def nulls_what_was_not_sent(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Writes NULL for unsent cells."""
    patch.setattr(fold_items, "_UNSET_OR_EMPTY", "CAST(array() AS array<string>)")


@by_spark
def keeps_no_bases(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Remembers events without base rows."""
    patch.setattr(ChangeLogTable, "bases", lambda _self, _upto: None)


@by_spark
def knows_no_transactions(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Treats each key change as a transaction of its own."""
    named = fold_items.Key.with_key_texts

    def nameless(self: fold_items.Key, events: DataFrame) -> DataFrame:
        return named(self, events).withColumn(names.TRANSACTION, F.lit(None).cast("string"))

    patch.setattr(fold_items.Key, "with_key_texts", nameless)


@by_spark
def lets_key_changes_pass_held_keys(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Does not hold key changes of a held key."""
    part = hold_filter.split_chains

    def apart(plan: MergePlan, events: DataFrame, barriers: DataFrame) -> tuple[DataFrame, DataFrame]:
        is_move = f"{names.OLD} IS NOT NULL"
        passes, waits = part(plan, events.where(f"NOT ({is_move})"), barriers)
        return passes.unionByName(events.where(is_move), allowMissingColumns=True), waits

    patch.setattr(hold_filter, "split_chains", apart)


@by_spark
def lets_pass_what_follows_an_undecided_change(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Holds an undecided key change without later events of its batch."""
    part = hold_filter.split_by_holds

    def apart(kept: SideTables, plan: MergePlan, arrived: Arrivals, events: DataFrame) -> Any:
        return part(kept, plan, replace(arrived, has_refused=False), events)

    patch.setattr(applicable_events, "split_by_holds", apart)


@by_spark
def holds_what_comes_too_late(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Holds the key of a bad row that is below the low watermark."""
    late_as_rejects = arrivals.late_as_rejects

    def of_events(frame: DataFrame, plan: MergePlan) -> tuple[DataFrame, Mapping[Reason | None, int]]:
        events, late = late_as_rejects(frame.where(f"{names.REASON} IS NULL"), plan)
        return events.unionByName(frame.where(f"{names.REASON} IS NOT NULL")), late

    patch.setattr(arrivals, "late_as_rejects", of_events)


def nulls_what_the_files_lack(patch: pytest.MonkeyPatch) -> None:
    """Writes NULL into a column that the files of an update lack."""
    use_spark_in_commands(patch)
    patch.setattr(Rows, "with_stored_values", lambda _self, upserts, _judged: upserts)


def changes_columns_in_a_commit_of_their_own(patch: pytest.MonkeyPatch) -> None:
    """Adds new columns in a commit before that of the rows."""
    evolve = Change.evolve

    def at_once(self: Change, changes: Sequence[SchemaChange]) -> None:
        evolve(self, changes)
        self.transaction.commitTransaction()
        self.table.refresh()
        self.transaction = self.table.newTransaction()

    patch.setattr(Change, "evolve", at_once)


@by_spark
def truncates_what_the_batch_names_alone(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Truncates only rows with other events in the batch."""
    patch.setattr(Rows, "with_truncated", lambda _self, stood: stood)


@by_spark
def forgets_truncates(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Applies events older than an earlier truncate."""
    patch.setattr(core_plan, "remembered_truncates", lambda _records, _mark: frozenset())


@by_spark
def takes_copies_under_other_names_for_news(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Identifies events by position, although each has a unique number."""
    patch.setattr(arrivals, "without_facts", lambda frame, _plan, _known: (frame, 0))


def keeps_rows_that_a_load_does_not_hold(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Keeps the files of the old epoch at a reload."""
    patch.setattr(Change, "drop_all", lambda self, rows: setattr(self, "dropped_rows", rows))


def holds_keys_of_the_epoch_before(patch: pytest.MonkeyPatch, _player: Player) -> None:
    """Shows the quarantine of older epochs after a reload."""
    entries = SideTables.entries

    def every(self: SideTables, progress: Progress) -> Sequence[Entry]:
        epochs = range(1, progress.epoch + 1)
        return [entry for epoch in epochs for entry in entries(self, replace(progress, epoch=epoch))]

    patch.setattr(SideTables, "entries", every)


BROKEN: Mapping[str, Sequence[Break]] = {
    "in order": (
        loses_the_last_event,
        lets_the_first_of_a_tie_win,
        checks_nothing_for_being_stale,
        keeps_progress_apart,
        acknowledges_first,
        looks_into_one_partition_only,
        leaves_the_position_of_a_no_op,
        forgets_deletes_too_early,
        believes_what_a_crash_left,
    ),
    "late": (takes_what_comes_too_late, takes_copies_for_news, forgets_deletes_above_the_mark),
    "in part": (nulls_what_was_not_sent, knows_no_transactions, lets_key_changes_pass_held_keys),
    "parts of loaded rows": (keeps_no_bases,),
    "truncated": (truncates_what_the_batch_names_alone, forgets_truncates),
    "undecided": (lets_pass_what_follows_an_undecided_change,),
    "late and bad": (holds_what_comes_too_late,),
    "mended": (
        takes_a_mended_row_for_given_up,
        puts_a_mended_row_on_top,
        forgets_what_was_mended,
        holds_a_copy_again,
    ),
    "other names": (takes_copies_under_other_names_for_news,),
    "reloaded": (keeps_rows_that_a_load_does_not_hold, holds_keys_of_the_epoch_before),
}
"""The mistakes, by the script that shows them."""

CRASH: Mapping[Break, tuple[str, str]] = {
    keeps_progress_apart: ("commit", "after"),
    acknowledges_first: ("commit", "before"),
    believes_what_a_crash_left: ("record_batch", "after"),
}
"""The step at which a process must crash to show some mistakes."""
