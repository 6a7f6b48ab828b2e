"""Resolve a small batch with the core: read the rows of its keys, settle it, and return the result in Arrow."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakeward.adapters.formats.shared.change_log.entries import columns_in_part, columns_of
from lakeward.adapters.formats.shared.resolution.merge_result import MergeDetail
from lakeward.adapters.formats.shared.resolution.steps.hold_filter import cannot_wait
from lakeward.adapters.formats.shared.rows.table_rows import TableSnapshot
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.formats.shared.small_batches.change_log_entries import Entries
from lakeward.adapters.formats.shared.small_batches.changed_rows import ChangedRows, count_current, removed_rows
from lakeward.adapters.formats.shared.small_batches.refused_rows import held_keys, refused_rows
from lakeward.adapters.formats.shared.small_batches.settled_batch import SettledBatch
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.adapters.spark.history.version_rows import remembered_types
from lakeward.adapters.spark.shaping.recomputed_columns import recompute
from lakeward.core.dimension import Ordered
from lakeward.core.events import ChangeEvent
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult

CORE: Final = "core"
"""The value of `MergeResult.way` for a batch that the core resolved."""


def resolve_small_batch(
    side_tables: SideTables, plan: MergePlan, frame: Frame, table: TableSnapshot | None
) -> MergeResult:
    """Resolve a batch with the core. Raises SparkNeeded, and otherwise what Spark would raise."""
    try:
        return _resolved(SettledBatch.of(side_tables, plan, frame, table))
    except (OverflowError, ValueError) as error:
        raise SparkNeeded(f"Python cannot hold a value: {error}") from error


def _resolved(batch: SettledBatch) -> MergeResult:
    plan, settled = batch.plan, batch.settled
    changed, rejects = ChangedRows.of(batch), settled.rejects
    upserts, places = LocalFrame(changed.written(plan), batch.side_tables.spark), changed.places(batch)
    removed, count = removed_rows(batch, places)
    detail = MergeDetail(
        upserts=recompute(upserts.in_spark(), plan.recomputed) if plan.recomputed else upserts,
        removed=removed,
        rejects=refused_rows(batch, rejects),
        entries=None if plan.appends else _entries(batch),
        places=None if batch.truncates_others else places,
        drops_all=batch.drops_all,
        drops_below=plan.truncates.removes_below if batch.truncates_others else None,
        table=batch.rows.table,
    )
    read = settled.counts.read + plan.facts.skipped
    reasons = Counter(reject.reason for reject in rejects if reject.position in batch.batch.places)
    return MergeResult(
        counts=replace(settled.counts, read=read, skipped=plan.facts.skipped),
        written=len(changed.new_rows),
        removed=count,
        current=count_current(batch),
        numbered=changed.numbered,
        held=len(held_keys(batch)),
        rejects={} if plan.releases else reasons,
        log_regressions=settled.log_regressions,
        detail=detail,
        way=CORE,
    )


def _entries(batch: SettledBatch) -> pa.Table:
    """Return the change log entries of a batch. Raises SchemaConflict for waiting rows that lack a column."""
    plan, settled, before = batch.plan, batch.settled, batch.change_log.changes
    entries = Entries(plan, batch.texts, [])
    waiting_before = {place for place, change in before.items() if change.waiting}
    changes = [change.event for change in settled.changes if not change.waiting]
    remembered = [event for event in changes if not _is_in_table(batch, event)]
    entries.add_changes(remembered)
    waiting = {change.event.position: change.event for change in settled.changes if change.waiting}
    if plan.evolution.lacks_columns and not plan.folds_remembered and waiting.keys() - waiting_before:
        raise cannot_wait(plan)
    entries.add_waiting(event for place, event in waiting.items() if place not in waiting_before)
    entries.add_released(before[place].event for place in waiting_before - waiting.keys())
    if plan.folds_remembered and not isinstance(plan.dimension.lateness, Ordered):
        entered_keys = {key for event in (*remembered, *waiting.values()) for key in event.keys}
        loaded = {event.key for event in changes if _is_in_table(batch, event)} - entered_keys
        entries.add_bases(base for base in settled.bases if base.key not in loaded)
    types = {**columns_of(plan.dimension.sequences), **{c.name: c.type for c in plan.folded}}
    return entries.rows({**types, **columns_in_part(plan.dimension), **remembered_types(plan.dimension)})


def _is_in_table(batch: SettledBatch, event: ChangeEvent) -> bool:
    """Return whether an event is a row of a full load that needs no entry because the table has it."""
    if not event.is_load:
        return False
    row = batch.settled.rows.get(event.key)
    return not batch.plan.folds_remembered or (row is not None and row.position == event.position)
