"""A small batch with the stored rows and the change log of its keys, settled by the core."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from lakeward.adapters.formats.shared.rows.table_rows import Rows, TableSnapshot
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.formats.shared.small_batches.batch import SmallBatch, read_batch
from lakeward.adapters.formats.shared.small_batches.change_log_reader import (
    holds_of,
    needs_change_log,
    read_change_log,
)
from lakeward.adapters.formats.shared.small_batches.keys import KeyTexts
from lakeward.adapters.formats.shared.small_batches.stored_rows import StoredRows, find_all, find_images, find_rows
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.local_frame import Frame, LocalFrame, in_spark
from lakeward.adapters.spark.merge.image_match import fitted_images
from lakeward.adapters.spark.schema_changes.schema_alignment import fitted
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.core.dimension import Dimension, Match, Ordered, Ties
from lakeward.core.events import Key, Position
from lakeward.core.history.snapshot_splice import splice
from lakeward.core.merge.append import append
from lakeward.core.merge.change_log import ChangeLogContents
from lakeward.core.merge.delivery import Delivery, DeliveryResult
from lakeward.core.merge.fold import Row
from lakeward.core.merge.image_match import match
from lakeward.core.merge.settle import settle
from lakeward.core.plan import MergePlan


@dataclass(frozen=True, slots=True)
class SettledBatch:
    """A batch, the stored rows and the change log of its keys, and the result of the core.

    `keys` are the keys of the batch and all keys that key changes join to them.
    """

    side_tables: SideTables
    plan: MergePlan
    rows: Rows
    batch: SmallBatch
    change_log: ChangeLogContents
    keys: Collection[Key]
    texts: KeyTexts
    stored: StoredRows
    settled: DeliveryResult

    @classmethod
    def of(cls, side_tables: SideTables, plan: MergePlan, frame: Frame, table: TableSnapshot | None) -> Self:
        """Read the stored rows and the change log of a batch's keys, and settle it.

        Raises SparkNeeded if Spark must resolve it.
        """
        batch = read_batch(_rows_of(frame, plan), plan)
        touched = {key for event in batch.events for key in event.keys}
        touched |= {key for reject in batch.rejects for key in reject.keys}
        change_log, keys = read_change_log(side_tables, plan, touched)
        rows = Rows(plan, table, side_tables.spark)
        stored = stored_rows(side_tables, plan, rows, keys, batch.rows)
        all_keys = {*keys, *stored.by_key}  # a truncate ends rows of any key
        texts = KeyTexts.of(plan.dimension, all_keys, side_tables.spark)
        if needs_change_log(plan):
            change_log.holds = {hold.position: hold for hold in holds_of(plan, keys, texts)}
        change_log.closed |= dict.fromkeys(_repeated_held_events(side_tables, plan, batch))
        dimension = folded_dimension(plan)
        delivery = plan.delivery(batch.events, batch.rejects, _object_names(side_tables, plan))
        if plan.splices is None:
            settled = _core_function(plan)(dimension, stored.by_key, change_log, delivery)
        else:
            settled = splice(dimension, stored.by_key, change_log, delivery, plan.splices, plan.facts)
        return cls(side_tables, plan, rows, batch, change_log, keys, texts, stored, settled)

    @property
    def drops_all(self) -> bool:
        """Whether the written rows replace all rows of the table."""
        return self.plan.replaces and self.plan.dimension.history is None

    @property
    def truncates_others(self) -> bool:
        """Whether a new truncate removes rows of other keys."""
        limit, newest = self.plan.truncates.removes_below, self.plan.truncates.newest
        is_new = limit is not None and (newest is None or limit > newest)
        is_kept = self.plan.replaces or self.plan.dimension.keeps_ended or self.plan.appends
        return is_new and self.rows.are_there and not is_kept


def folded_dimension(plan: MergePlan) -> Dimension:
    """Return the dimension with the folded columns only; others are computed from them."""
    return replace(plan.dimension, schema=plan.folded)


def _core_function(
    plan: MergePlan,
) -> Callable[[Dimension, Mapping[Key, Row], ChangeLogContents, Delivery], DeliveryResult]:
    """Return the core function that settles a batch that is not a spliced snapshot."""
    if not plan.appends:
        return settle
    return match if plan.dimension.match is Match.IMAGE else append


def _rows_of(frame: Frame, plan: MergePlan) -> pa.Table:
    """Return the rows of an event frame; nested columns have the types of the table."""
    schema = plan.dimension.schema
    if isinstance(frame, LocalFrame) and not any(column.type.is_nested for column in schema):
        return frame.rows
    return to_arrow(fitted_images(fitted(in_spark(frame), schema), schema))


def stored_rows(
    side_tables: SideTables, plan: MergePlan, rows: Rows, keys: Collection[Key], batch: pa.Table
) -> StoredRows:
    """Return the stored rows that a batch meets. Raises SparkNeeded if they are too many."""
    if plan.dimension.match is Match.IMAGE and not plan.replaces:
        equal_rows = find_images(rows, batch, side_tables.small_batch)
        if equal_rows is None:
            raise SparkNeeded(f"the batch touches more than {side_tables.small_batch:,} rows")
        return equal_rows
    if _touches_all(plan):
        all_rows = find_all(rows, side_tables.small_batch)
        if all_rows is None:
            raise SparkNeeded(f"the batch touches more than {side_tables.small_batch:,} rows")
        return all_rows
    meets_none = plan.replaces or plan.appends
    return StoredRows() if meets_none else find_rows(rows, keys, with_cells=_needs_cells(plan))


def _touches_all(plan: MergePlan) -> bool:
    """Return whether a batch may end every row of a table that keeps ended rows, or splices a snapshot."""
    ends_all = plan.dimension.keeps_ended and (plan.replaces or bool(plan.truncates.arrived))
    return ends_all or plan.splices is not None


def _needs_cells(plan: MergePlan) -> bool:
    """Return whether a batch needs cells of stored rows: to complete rows, to keep ended ones, or to compare."""
    dimension = plan.dimension
    compares = dimension.ties is not Ties.ARRIVAL or dimension.unique_sequences
    completes = dimension.history is not None or plan.folds or plan.evolution.lacks_columns or bool(plan.recomputed)
    return completes or compares or bool(plan.holds or plan.releases)


def _repeated_held_events(side_tables: SideTables, plan: MergePlan, batch: SmallBatch) -> Iterator[Position]:
    """Return the positions of redelivered events of an `ordered` table that were held: they are duplicates."""
    if not (plan.copies and isinstance(plan.dimension.lateness, Ordered)) or plan.releases or plan.replaces:
        return
    held_places = set(side_tables.quarantine.held_among(plan.epoch, plan.batch - 1, plan.copies))
    yield from (event.position for event in batch.events if event.position[2:] in held_places)


def _object_names(side_tables: SideTables, plan: MergePlan) -> Mapping[int, str]:
    """Return the names of source objects by order, if messages may name them: for repaired rows and ties."""
    if not plan.releases and plan.dimension.ties is Ties.ARRIVAL:
        return {}
    names_of_batch = {item.object.order: item.object.name for item in plan.facts.objects}
    return {**side_tables.change_log.batches.object_names, **names_of_batch}
