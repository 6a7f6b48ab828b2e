"""Working out a small batch: it is read, its keys are found, the core settles it, and the result is Arrow again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa

from lakeward.adapters.formats.shared.change_log.entries import columns_in_part, columns_of
from lakeward.adapters.formats.shared.resolution.merge_result import Outcome
from lakeward.adapters.formats.shared.resolution.steps.hold_filter import cannot_wait
from lakeward.adapters.formats.shared.rows.table_rows import Loaded
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.formats.shared.small_batches.change_log_entries import Entries
from lakeward.adapters.formats.shared.small_batches.changed_rows import ChangedRows, count_current, removed_rows
from lakeward.adapters.formats.shared.small_batches.eligibility import CORE, NotSmall
from lakeward.adapters.formats.shared.small_batches.refused_rows import held_keys, refused_rows
from lakeward.adapters.formats.shared.small_batches.settled_batch import SettledBatch
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame
from lakeward.adapters.spark.history.version_rows import remembered_types
from lakeward.adapters.spark.shaping.recomputed_columns import remade
from lakeward.core.dimension import Ordered
from lakeward.core.events import ChangeEvent
from lakeward.core.plan import MergePlan
from lakeward.core.ports import MergeResult


def by_settling(kept: Keeping, plan: MergePlan, frame: Frame, table: Loaded | None) -> MergeResult:
    """Work out a batch by the core. Raises NotSmall where it turns out to need Spark, and else as Spark would."""
    try:
        return _resolved(SettledBatch.of(kept, plan, frame, table))
    except (OverflowError, ValueError) as error:
        raise NotSmall(f"a value is none of Python: {error}") from error


def _resolved(found: SettledBatch) -> MergeResult:
    plan, settled = found.plan, found.settled
    changed, rejects = ChangedRows.of(found), settled.rejects
    upserts, places = LocalFrame(changed.written(plan), found.kept.spark), changed.places(found)
    removed, count = removed_rows(found, places)
    outcome = Outcome(
        upserts=remade(upserts.in_spark(), plan.recomputed) if plan.recomputed else upserts,
        removed=removed,
        rejects=refused_rows(found, rejects),
        entries=None if plan.appends else _entries(found),
        places=None if found.truncates_others else places,
        drops_all=found.drops_all,
        drops_below=plan.truncates.removes_below if found.truncates_others else None,
        table=found.rows.table,
    )
    read = settled.counts.read + plan.facts.skipped
    reasons = Counter(reject.reason for reject in rejects if reject.position in found.batch.places)
    return MergeResult(
        counts=replace(settled.counts, read=read, skipped=plan.facts.skipped),
        written=len(changed.fresh),
        removed=count,
        current=count_current(found),
        numbered=changed.numbered,
        held=len(held_keys(found)),
        rejects={} if plan.releases else reasons,
        log_regressions=settled.log_regressions,
        detail=outcome,
        way=CORE,
    )


def _entries(found: SettledBatch) -> pa.Table:
    """Return what the companion is to remember. Raises SchemaConflict where it would not say what a row lacks."""
    plan, settled, before = found.plan, found.settled, found.memory.changes
    entries = Entries(plan, found.texts, [])
    waited = {place for place, change in before.items() if change.waiting}
    changes = [change.event for change in settled.changes if not change.waiting]
    remembered = [event for event in changes if not _is_in_table(found, event)]
    entries.add_changes(remembered)
    waiting = {change.event.position: change.event for change in settled.changes if change.waiting}
    if plan.evolution.lacks and not plan.in_part and waiting.keys() - waited:
        raise cannot_wait(plan)
    entries.add_waiting(event for place, event in waiting.items() if place not in waited)
    entries.add_released(before[place].event for place in waited - waiting.keys())
    if plan.in_part and not isinstance(plan.dimension.lateness, Ordered):
        known = {key for event in (*remembered, *waiting.values()) for key in event.keys}
        loaded = {event.key for event in changes if _is_in_table(found, event)} - known
        entries.add_bases(base for base in settled.bases if base.key not in loaded)
    types = {**columns_of(plan.dimension.sequences), **{c.name: c.type for c in plan.folded}}
    return entries.rows({**types, **columns_in_part(plan.dimension), **remembered_types(plan.dimension)})


def _is_in_table(found: SettledBatch, event: ChangeEvent) -> bool:
    """Return whether an event is a row of a full load that needs no memory: the table tells of it."""
    if not event.is_load:
        return False
    row = found.settled.rows.get(event.key)
    return not found.plan.in_part or (row is not None and row.position == event.position)
