"""A small batch, what it meets, and what the core makes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from lakeward.adapters.formats.shared.rows.table_rows import Loaded, Rows
from lakeward.adapters.formats.shared.side_tables.side_table_pair import Keeping
from lakeward.adapters.formats.shared.small_batches.batch import SmallBatch, read_batch
from lakeward.adapters.formats.shared.small_batches.change_log_reader import holds_of, read_memory
from lakeward.adapters.formats.shared.small_batches.eligibility import NotSmall, needs_memory, touches_all
from lakeward.adapters.formats.shared.small_batches.key_texts import KeyTexts
from lakeward.adapters.formats.shared.small_batches.stored_rows import StoredRows, find_all, find_images, find_rows
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame, in_spark
from lakeward.adapters.spark.merge.image_match import fitted_images
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.core.dimension import Dimension, Match, Ordered, Ties
from lakeward.core.events import Key, Position
from lakeward.core.history.snapshot_splice import splice
from lakeward.core.merge.append import append
from lakeward.core.merge.change_log import ChangeLogContents
from lakeward.core.merge.delivery import Delivery, DeliveryResult, Resolution
from lakeward.core.merge.fold import Row
from lakeward.core.merge.image_match import match
from lakeward.core.merge.settle import settle
from lakeward.core.plan import MergePlan


@dataclass(frozen=True, slots=True)
class SettledBatch:
    """A batch, the stored rows and the memory of its keys, and what the core makes of them.

    `keys` are those of the batch, and all that key changes join to them.
    """

    kept: Keeping
    plan: MergePlan
    rows: Rows
    batch: SmallBatch
    memory: ChangeLogContents
    keys: Collection[Key]
    texts: KeyTexts
    stored: StoredRows
    settled: DeliveryResult

    @classmethod
    def of(cls, kept: Keeping, plan: MergePlan, frame: Frame, table: Loaded | None) -> Self:
        """Read what a batch meets, and settle it. Raises NotSmall where Spark must work it out."""
        batch = read_batch(_rows_of(frame, plan), plan)
        touched = {key for event in batch.events for key in event.keys}
        touched |= {key for reject in batch.rejects for key in reject.keys}
        memory, keys = read_memory(kept, plan, touched)
        rows = Rows(plan, table, kept.spark)
        stored = stored_rows(kept, plan, rows, keys, batch.rows)
        texts = KeyTexts.of(plan.dimension, {*keys, *stored.by_key}, kept.spark)  # a truncate ends rows of any key
        if needs_memory(plan):
            memory.holds = {hold.position: hold for hold in holds_of(plan, keys, texts)}
        memory.closed |= dict.fromkeys(_held_before(kept, plan, batch))
        dimension, delivery = folded_dimension(plan), _delivery(kept, plan, batch)
        if plan.splices is None:
            settled = _work_of(plan)(dimension, stored.by_key, memory, delivery)
        else:
            settled = splice(dimension, stored.by_key, memory, delivery, plan.splices, plan.facts)
        return cls(kept, plan, rows, batch, memory, keys, texts, stored, settled)

    @property
    def drops_all(self) -> bool:
        """Whether the rows that are written take the place of all that stand."""
        return self.plan.replaces and self.plan.dimension.history is None

    @property
    def truncates_others(self) -> bool:
        """Whether a new truncate removes rows of other keys."""
        limit, newest = self.plan.truncates.removes_below, self.plan.truncates.newest
        is_new = limit is not None and (newest is None or limit > newest)
        is_kept = self.plan.replaces or self.plan.dimension.keeps_ended or self.plan.appends
        return is_new and self.rows.are_there and not is_kept


def folded_dimension(plan: MergePlan) -> Dimension:
    """Return the dimension with the columns that are folded; others are made of them."""
    return replace(plan.dimension, schema=plan.folded)


def _work_of(
    plan: MergePlan,
) -> Callable[[Dimension, Mapping[Key, Row], ChangeLogContents, Delivery], DeliveryResult]:
    """Return what works a batch out that is no snapshot between others."""
    if not plan.appends:
        return settle
    return match if plan.dimension.match is Match.IMAGE else append


def _rows_of(frame: Frame, plan: MergePlan) -> pa.Table:
    """Return the rows of an event frame, nested columns with the types that the table has."""
    schema = plan.dimension.schema
    if isinstance(frame, LocalFrame) and not any(column.type.is_nested for column in schema):
        return frame.rows
    return to_arrow(fitted_images(fitted(in_spark(frame), schema), schema))


def stored_rows(
    kept: Keeping, plan: MergePlan, rows: Rows, keys: Collection[Key], batch: pa.Table
) -> StoredRows:
    """Return the stored rows that a batch meets. Raises NotSmall where they are too many."""
    if plan.dimension.match is Match.IMAGE and not plan.replaces:
        equal = find_images(rows, batch, kept.small_batch)
        if equal is None:
            raise NotSmall(f"the batch touches more than {kept.small_batch:,} rows")
        return equal
    if touches_all(plan):
        every = find_all(rows, kept.small_batch)
        if every is None:
            raise NotSmall(f"the batch touches more than {kept.small_batch:,} rows")
        return every
    meets_none = plan.replaces or plan.appends
    return StoredRows() if meets_none else find_rows(rows, keys, with_cells=_needs_cells(plan))


def _needs_cells(plan: MergePlan) -> bool:
    """Return whether a batch needs the cells of stored rows: to complete rows, to keep ended ones, to compare."""
    dimension = plan.dimension
    compares = dimension.ties is not Ties.ARRIVAL or dimension.unique_sequences
    completes = dimension.history is not None or plan.folds or plan.evolution.lacks or bool(plan.recomputed)
    return completes or compares or bool(plan.holds or plan.releases)


def _held_before(kept: Keeping, plan: MergePlan, batch: SmallBatch) -> Iterator[Position]:
    """Return the places of events that an `ordered` table is given again, and that were held: they are no news."""
    if not (plan.copies and isinstance(plan.dimension.lateness, Ordered)) or plan.releases or plan.replaces:
        return
    held = set(kept.quarantine.held_among(plan.epoch, plan.batch - 1, plan.copies))
    yield from (event.position for event in batch.events if event.position[2:] in held)


def _delivery(kept: Keeping, plan: MergePlan, batch: SmallBatch) -> Delivery:
    repaired = {event.position[2:]: event for event in batch.events if plan.releases}
    return Delivery(
        number=plan.batch,
        events=[] if plan.releases else batch.events,
        rejects=batch.rejects,
        object_names=_object_names(kept, plan),
        resolutions=[Resolution(position, repaired.get(position[2:])) for position in plan.releases],
        loaded=plan.facts.loaded,
        believed=plan.facts.believed,
        ran=plan.ran,
        by_hand=not plan.facts.objects,
        own_times=plan.facts.own_times,
        is_first=plan.is_first,
        suspect_objects=plan.suspect_objects,
    )


def _object_names(kept: Keeping, plan: MergePlan) -> Mapping[int, str]:
    """Return the names of objects where words may name one: of what a person mended, and of ties."""
    if not plan.releases and plan.dimension.ties is Ties.ARRIVAL:
        return {}
    arrived = {found.object.order: found.object.name for found in plan.facts.objects}
    return {**kept.change_log.batches.object_names, **arrived}
