"""The progress of a table once a batch is committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import TypeVar

from lakeward.core.checks.databases import add_databases
from lakeward.core.checks.log_steps import LogReached, SnapshotPlace
from lakeward.core.events import SourceOrder
from lakeward.core.history.stored_options import options_of
from lakeward.core.ledger.duplicate_objects import find_duplicate_object
from lakeward.core.ledger.objects import digest_of
from lakeward.core.ledger.other_tables import add_others
from lakeward.core.merge.change_log import ChangeLogContents, next_low_watermark
from lakeward.core.pipeline.job import BatchInput
from lakeward.core.plan import MergePlan, backwards
from lakeward.core.ports import MergeResult
from lakeward.core.progress import Progress

F = TypeVar("F")


def progress_after(batch_input: BatchInput[F], planned: MergePlan, resolved: MergeResult) -> Progress:
    """Return the progress that the commit of a batch carries, from the progress before the batch."""
    before = batch_input.state.progress
    progress = _with_rows(before, planned, resolved)
    progress = _with_place(progress, batch_input, planned)
    progress = _with_observations(progress, batch_input, planned, resolved)
    return replace(
        progress,
        batch=planned.batch,
        sequences=planned.dimension.sequences,
        key=planned.dimension.key,
        match=planned.dimension.match,
        history=options_of(planned.dimension),
        digest=digest_of(item.object for item in planned.facts.objects),
        order_by=_setting_after(planned, batch_input.selection.order_by, before.order_by),
        key_form=_setting_after(planned, batch_input.selection.key_form, before.key_form),
        header=_header_after(planned, before.header),
    )


def _with_rows(before: Progress, planned: MergePlan, resolved: MergeResult) -> Progress:
    """Return the progress with the numbers of rows, held keys and events after the batch."""
    replaces_rows = planned.replaces and planned.dimension.history is None
    current = (before.current or 0) + resolved.current
    return replace(
        before,
        rows=resolved.written if replaces_rows else before.rows + resolved.written - resolved.removed,
        current=current if planned.dimension.keeps_ended else None,
        numbered=_numbered_after(planned, resolved),
        held=resolved.held,
        counts=resolved.counts,
        totals=resolved.counts if planned.replaces else before.totals + resolved.counts,
    )


def _with_place(before: Progress, batch_input: BatchInput[F], planned: MergePlan) -> Progress:
    """Return the progress with the place in the source that the table has reached with the batch."""
    facts = planned.facts
    objects = [item.object.name for item in facts.objects]
    positions = [position for position in (before.high_watermark, facts.greatest) if position is not None]
    times = [time for time in (before.time, None if planned.releases else facts.time) if time is not None]
    return replace(
        before,
        epoch=planned.epoch,
        high_watermark=max(positions, default=None),
        low_watermark=_low_watermark_after(batch_input, planned),
        object=objects[-1] if objects else before.object,
        time=max(times, default=None),
        logs=_logs_after(batch_input, planned),
        partitions=_partitions_after(batch_input, planned),
        snapshot=_snapshot_after(batch_input, planned),
    )


def _with_observations(
    before: Progress, batch_input: BatchInput[F], planned: MergePlan, resolved: MergeResult
) -> Progress:
    """Return the progress with what was noticed of the source; a replacement of all rows forgets it."""
    facts = planned.facts
    earlier = Progress() if planned.replaces else before
    ahead = [item for item in (earlier.ahead, facts.ahead) if item is not None]
    changed = replace(
        before,
        inexact_since=earlier.inexact_since or facts.inexact_since,
        ahead=max(ahead, default=None),
        others=add_others(earlier.others, facts.others),
        databases=add_databases(earlier.databases, facts.databases),
    )
    if planned.releases:
        return changed
    return replace(
        changed,
        backwards=backwards(planned, resolved.rejects),
        twin=find_duplicate_object(planned, batch_input.change_log_state.objects.values()),
    )


def _setting_after(planned: MergePlan, current: str | None, before: str | None) -> str | None:
    """Return the setting of a source to store with the table; a replacement of all rows forgets the earlier one."""
    return current if current is not None else None if planned.replaces else before


def _header_after(planned: MergePlan, before: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the columns of the last header if their order is not the declared one; None otherwise."""
    header = planned.facts.header
    if header is None:
        return None if planned.replaces else before
    return header or None


def _numbered_after(planned: MergePlan, resolved: MergeResult) -> int | None:
    """Return the highest surrogate number in use after the batch, or None in a table without such numbers."""
    history = planned.dimension.history
    return planned.numbered + resolved.numbered if history is not None and history.has_numbers else None


def _low_watermark_after(batch_input: BatchInput[F], planned: MergePlan) -> SourceOrder | None:
    """Return the low watermark after the batch, computed from the records of all batches."""
    new_records = [] if planned.record is None else [planned.record]
    records = [*batch_input.change_log_state.records, *new_records]
    loaded = max((item.loaded for item in records), default=0)
    memory = ChangeLogContents(
        epoch=planned.epoch, loaded=loaded, low_watermark=batch_input.state.progress.low_watermark, records=records
    )
    return next_low_watermark(memory, planned.dimension.lateness)


def _partitions_after(batch_input: BatchInput[F], planned: MergePlan) -> Mapping[int, LogReached] | None:
    """Return how far each partition of a topic has come in the log of the source, or None without partitions."""
    before = {} if planned.replaces else batch_input.state.progress.partitions or {}
    reached = LogReached(ends=batch_input.selection.reached.ends, partitions=before)
    for item in planned.facts.objects:
        for span in item.spans:
            reached = reached.after(item.object.order, span)
    partitions = {
        end: partition._replace(read_time=None, has_begun=False) for end, partition in reached.partitions.items()
    }
    return partitions or None


def _snapshot_after(batch_input: BatchInput[F], planned: MergePlan) -> SnapshotPlace | None:
    """Return the place of the highest initial snapshot in the log of the source, or None."""
    reached = LogReached()
    if not planned.replaces:
        progress = batch_input.state.progress
        reached = LogReached(snapshot=progress.snapshot, has_begun=batch_input.selection.reached.has_begun)
    for item in planned.facts.objects:
        reached = reduce(LogReached.with_span, item.spans, reached)
    return reached.snapshot


def _logs_after(batch_input: BatchInput[F], planned: MergePlan) -> tuple[str, ...] | None:
    """Return the names of the logs that the changes of a table came from, sorted, or None."""
    before = () if planned.replaces else batch_input.state.progress.logs or ()
    added = {str(span.log) for item in planned.facts.objects for span in item.spans if span.log.is_known}
    return tuple(sorted({*before, *added})) or None
